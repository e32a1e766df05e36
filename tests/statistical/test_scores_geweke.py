"""Getting it right (Geweke 2004) for grades and scores, as in `test_blocked_geweke`."""

import jax.numpy as jnp
import numpy as np
import pytest
from geweke import PAIRS, assert_no_drift, prior_sites, quantities, swept

from bayesirt.inference.ways import way_of
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import Continuous, Graded, Normal, Priors, ResponseModel, TwoPL

pytestmark = pytest.mark.statistical

SEEN = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1]], np.int16)


def sites_of(model: ResponseModel, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written independently of the model."""
    sites, n_items = prior_sites(TwoPL(model.priors), (), rng), SEEN.shape[1]
    if isinstance(model, Graded):
        usual = {name: (np.log(4 / model.n), 0.5) for name in model.family.further}
        spreads = {x: s * np.abs(rng.normal(size=PAIRS)) for x, (_, s) in usual.items()}
    else:
        usual = {"gap": (1.0, 1.0), "phi": (1.5, 0.5), "shift": (0.0, 1.5)}
        if isinstance(model, Normal):
            usual = {"noise": (0.0, 0.5)}
        spreads = {x: np.full(PAIRS, s) for x, (_, s) in usual.items()}
    for name, (centre, _) in usual.items():
        mu, sigma = centre + rng.normal(size=PAIRS), spreads[name]
        sites |= {f"mu_{name}": mu}
        sites[name] = mu[:, None] + sigma[:, None] * rng.normal(size=(PAIRS, n_items))
        if isinstance(model, Graded):
            sites[f"sigma_{name}"] = np.log(sigma)
    return sites


def more_quantities(model: ResponseModel, sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return moments of the 2PL's parameters and of those that these models add."""
    columns = [quantities(sites)]
    for name in model.family.further:
        own = np.tanh(sites[name])
        columns += [own, own**2, own * np.tanh(sites["d"])]
        columns += [own * np.tanh(sites["a"])] if "a" in sites else []
        hyper = [sites[k][:, None] for k in (f"mu_{name}", f"sigma_{name}") if k in sites]
        columns += [*hyper, *(np.tanh(x) ** 2 for x in hyper)]
    return np.concatenate(columns, 1)


@pytest.mark.parametrize(
    "model",
    [
        Graded(n=4),
        Graded(Priors(slopes="free"), n=2),
        Graded(Priors(slopes="rasch"), n=2),
        Continuous(),
        Normal(),
    ],
    ids=lambda x: f"{x.name} {x.priors.slopes}",
)
def test_parameters_stay_draws_from_the_prior(model):
    """At most 120 quantities at 6 standard errors: a correct sampler fails once in 4 million."""
    before, way = sites_of(model, np.random.default_rng(7)), way_of(model)
    steps = model.n if isinstance(model, Graded) else 10_000
    trials = jnp.asarray(steps * SEEN)

    def data_of(key, sites):
        values = way.terms(sites).values
        eta = values["theta"][:, None] * values["a"] + values["d"]
        family = model.family.given([values[name] for name in model.family.further])
        return DenseLayout(family.draw(key, eta, trials).astype(jnp.int16), trials)

    after, accepted = swept(way, data_of, before, least_moved=0.98)
    change = more_quantities(model, after) - more_quantities(model, before)
    assert change.shape[1] <= 120
    assert_no_drift(change, f"{model.describe()} {accepted}")

"""Getting it right (Geweke 2004) where something explains items, as `test_blocked_geweke` does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import PAIRS, SWEEPS, TRIALS, assert_no_drift, prior_sites, quantities, swept

from bayesirt.data.clusters import Clusters
from bayesirt.data.difficulty import Covariate, Design, Factor
from bayesirt.inference.blocked import BlockedNewton
from bayesirt.inference.cluster_moves import with_clusters
from bayesirt.inference.explained_items import Explained
from bayesirt.inference.moves import moves_of
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import TwoPL

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

MINUTES = Covariate("minutes", 0.0, 1.0, (-1.2, 0.2, 1.0))
JUDGE = Factor("judge", Clusters(("x", "y"), (0, 1, 0)))
STEM = Factor("stem", Clusters(("s", "t", "u"), (2, 0, 1)))


def sites_of(design: Design, clusters: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written without the model."""
    rng = np.random.default_rng(7)
    sites = prior_sites(TwoPL(), clusters, rng)
    harder = np.zeros((PAIRS, TRIALS.shape[1]))
    if design.covariates:
        sites["beta"] = 2 * rng.normal(size=(PAIRS, len(design.covariates)))
        harder += sites["beta"] @ design.z.T
    for factor in design.factors:
        sigma = np.abs(rng.normal(size=PAIRS))
        effect = sigma[:, None] * rng.normal(size=(PAIRS, len(factor.levels.names)))
        sites |= {factor.site: effect, f"sigma_{factor.site}": np.log(sigma)}
        harder += effect[:, list(factor.levels.codes)]
    return sites | {"d": sites["d"] - harder}


def more_quantities(design: Design, sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return moments of what explains items, and of it with intercepts."""
    columns, d = [quantities(sites)], np.tanh(sites["d"] / 3)
    for name in [*(["beta"] if design.covariates else []), *(x.site for x in design.factors)]:
        own = np.tanh(sites[name] / 2)
        columns += [own, own**2, own[:, :1] * d, own[:, 1:] * own[:, :1]]
        if f"sigma_{name}" in sites:
            spread = sites[f"sigma_{name}"][:, None]
            columns += [spread, np.tanh(spread) ** 2, np.tanh(spread) * own**2]
    return np.concatenate(columns, 1)


@pytest.mark.parametrize(
    ("design", "clusters"),
    [
        (Design((MINUTES,), (JUDGE, STEM)), ()),
        (Design((), (JUDGE,)), (0, 1, 0, 0)),
        (Design((MINUTES,), ()), ()),
    ],
    ids=["slope and two factors", "a factor, with clusters", "a slope"],
)
def test_parameters_stay_draws_from_the_prior(design, clusters):
    """At most 120 quantities at 6 standard errors: a right sampler fails once in 4 million."""
    before = sites_of(design, clusters)
    way = (with_clusters(Explained) if clusters else Explained)(TwoPL(), clusters, design)
    trials = jnp.asarray(TRIALS)

    def one_pair(key, sites):
        data_key, run_key = jax.random.split(key)
        values = way.terms(sites).values
        p = jax.nn.sigmoid(values["theta"][:, None] * values["a"] + values["d"])
        successes = jax.random.binomial(data_key, trials, p).astype(trials.dtype)
        kernel = BlockedNewton(moves_of(way, DenseLayout(successes, trials)))

        def sweep(sites, key):
            return kernel.sweep(key, sites)

        return jax.lax.scan(sweep, sites, jax.random.split(run_key, SWEEPS))

    after, accepted = swept(one_pair, before)
    change = more_quantities(design, after) - more_quantities(design, before)
    assert change.shape[1] <= 120
    assert_no_drift(change, f"{design} {accepted}")

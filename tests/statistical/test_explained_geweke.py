"""Getting it right (Geweke 2004) with explained items or subjects; see `test_blocked_geweke`."""

import jax
import numpy as np
import pytest
from geweke import PAIRS, answered, assert_no_drift, prior_sites, quantities, swept

from bayesirt.data.clusters import Clusters
from bayesirt.data.difficulty import Covariate, Design, Factor
from bayesirt.inference.cluster_moves import with_clusters
from bayesirt.inference.explained import Explained
from bayesirt.models import TwoPL

pytestmark = pytest.mark.statistical

MINUTES = Covariate("minutes", 0.0, 1.0, (-1.2, 0.2, 1.0))
JUDGE = Factor("judge", Clusters(("x", "y"), (0, 1, 0)))
STEM = Factor("stem", Clusters(("s", "t", "u"), (2, 0, 1)))


DATE = Covariate("date", 0.0, 1.0, (-1.0, 1.4, 0.2, -0.6))
LLM = Factor("llm", Clusters(("p", "q"), (0, 1, 1, 0)))
YEAR = Covariate("year", 0.0, 1.0, (-1.2, 0.2, 1.0))
MAKER = Factor("maker", Clusters(("p", "q"), (0, 1, 0)))
SCAFFOLD = Factor("scaffold", Clusters(("f", "g"), (0, 0, 1, 1)))


def sites_of(design: Design, clusters: tuple[int, ...], skills: Design) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written independently of the model."""
    rng = np.random.default_rng(7)
    sites = prior_sites(TwoPL(), clusters, rng)
    more, harder = explained(rng, design, "beta", [x.site for x in design.factors], 3)
    sites |= more | {"d": sites["d"] - harder}
    if skills:
        n = max(clusters, default=3) + 1
        more, abler = explained(rng, skills, "beta_theta", [x.skill for x in skills.factors], n)
        if clusters:
            between = np.abs(rng.normal(size=PAIRS))
            gamma = abler + between[:, None] * rng.normal(size=(PAIRS, n))
            abler = gamma[:, list(clusters)]
            more |= {"gamma": gamma, "sigma_gamma": np.log(between)}
            del sites["icc"]
        sigma = np.abs(rng.normal(size=PAIRS))
        theta = abler + sigma[:, None] * rng.normal(size=(PAIRS, 4))
        sites |= more | {"theta": theta, "sigma_theta": np.log(sigma)}
    return sites


def explained(rng, design: Design, slopes: str, effects: list[str], n: int):
    """Return the sites of covariates and factors, and their total effect on each member."""
    sites, total = {}, np.zeros((PAIRS, n))
    if design.covariates:
        sites[slopes] = 2 * rng.normal(size=(PAIRS, len(design.covariates)))
        total += sites[slopes] @ design.z.T
    for name, factor in zip(effects, design.factors, strict=True):
        sigma = np.abs(rng.normal(size=PAIRS))
        effect = sigma[:, None] * rng.normal(size=(PAIRS, len(factor.levels.names)))
        sites |= {name: effect, f"sigma_{name}": np.log(sigma)}
        total += effect[:, list(factor.levels.codes)]
    return sites, total


def more_quantities(sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return moments of the effects on items and subjects, and products of the two."""
    columns = [quantities(sites)]
    if "sigma_gamma" in sites:
        gamma, theta = (np.tanh(sites[x] / 3) for x in ("gamma", "theta"))
        between, within = (np.tanh(sites[f"sigma_{x}"])[:, None] for x in ("gamma", "theta"))
        away = np.tanh((sites["theta"][:, :1] - sites["theta"][:, 3:]) / 3) ** 2
        columns += [gamma, gamma**2, gamma[:, :1] * theta, between, between**2, between * gamma**2]
        columns += [within, within**2, within * theta**2, between * within, within * away]
    for name in (x for x in sorted(sites) if x.startswith(("beta", "effect_", "skill_"))):
        with_it = sites["theta" if "theta" in name or "skill" in name else "d"]
        own, told = np.tanh(sites[name] / 2), np.tanh(with_it[:, :3] / 3)
        columns += [own, own**2, own[:, :1] * told, own[:, 1:] * own[:, :1]]
        if f"sigma_{name}" in sites:
            spread = sites[f"sigma_{name}"][:, None]
            columns += [spread, np.tanh(spread) ** 2, np.tanh(spread) * own**2]
    return np.concatenate(columns, 1)


@pytest.mark.parametrize(
    ("design", "clusters", "skills"),
    [
        (Design((MINUTES,), (JUDGE, STEM)), (), Design()),
        (Design((), (JUDGE,)), (0, 1, 0, 0), Design()),
        (Design(), (), Design((DATE,), (LLM, SCAFFOLD))),
        (Design(), (0, 1, 2, 0), Design((YEAR,), (MAKER,))),
    ],
    ids=["slope and two factors", "a factor, with clusters", "of subjects", "of clusters"],
)
def test_parameters_stay_draws_from_the_prior(design, clusters, skills):
    """At most 120 quantities at 6 standard errors: a correct sampler fails once in 4 million."""
    before = sites_of(design, clusters, skills)
    kind = with_clusters(Explained) if clusters else Explained
    way = kind(TwoPL(), clusters, design, skills)

    def data_of(key, sites):
        values = way.terms(sites).values
        return answered(key, jax.nn.sigmoid(values["theta"][:, None] * values["a"] + values["d"]))

    after, accepted = swept(way, data_of, before)
    change = more_quantities(after) - more_quantities(before)
    assert change.shape[1] <= 120
    assert_no_drift(change, f"{accepted}")

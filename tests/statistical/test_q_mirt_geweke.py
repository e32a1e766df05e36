"""Getting the Q-matrix model's sweeps right (Geweke 2004), as `test_blocked_geweke` does.

Parameters are drawn from the prior, and answers given them, some missing. After ten sweeps given
these answers, the parameters are still draws from the prior. Every item that needs the first
ability also needs the second, so the sweeps include the move that rotates it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import answered, assert_no_drift, of_shares, sharing, swept
from numpyro.distributions import LKJCholesky, biject_to
from scipy.special import logit

from bayesirt.inference.cluster_moves import with_clusters
from bayesirt.inference.q_mirt_moves import ByQMatrix
from bayesirt.likelihood.loadings import Loadings
from bayesirt.models import QMirt

pytestmark = pytest.mark.statistical

NEEDS = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 0]], bool)
TRIALS = np.array([[1, 3, 0, 1], [2, 1, 1, 0], [0, 5, 1, 2]], np.int8)
PAIRS = 10_000
CLUSTERS = (0, 1, 0)
N_SUBJECTS, N_ABILITIES = len(TRIALS), NEEDS.shape[1]


def prior_sites(
    rng: np.random.Generator, structure: str, clusters: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written independently of the model."""
    omega, sites = np.broadcast_to(np.eye(N_ABILITIES), (PAIRS, N_ABILITIES, N_ABILITIES)), {}
    if structure == "correlated":
        omega, sites["root"] = uniform_correlations(rng)
    elif structure == "general":
        gamma = rng.uniform(size=(PAIRS, N_ABILITIES))
        omega = gamma[:, :, None] * gamma[:, None, :]
        omega[:, np.arange(N_ABILITIES), np.arange(N_ABILITIES)] = 1
        sites["general"] = logit(gamma)
    parts = {"theta": rng.normal(size=(PAIRS, N_SUBJECTS, N_ABILITIES))}
    if clusters:
        *both, sites["icc"] = sharing(parts["theta"], clusters, rng)
        parts = dict(zip(("theta", "gamma"), both, strict=True))
    root = np.linalg.cholesky(omega).transpose(0, 2, 1)
    sites |= {name: standard @ root for name, standard in parts.items()}
    for name, (of_mu, of_sigma) in {"a": (0.5, 0.5), "d": (2, 2)}.items():
        sites[f"mu_{name}"] = of_mu * rng.normal(size=PAIRS)
        sites[f"sigma_{name}"] = np.log(of_sigma * np.abs(rng.normal(size=PAIRS)))
    sites["sigma_beta"] = np.log(np.abs(rng.normal(size=PAIRS)))
    sites["beta"] = np.exp(sites["sigma_beta"])[:, None] * rng.normal(size=(PAIRS, N_ABILITIES))
    sites["mu_b"] = 2 * rng.normal(size=(PAIRS, N_ABILITIES))
    centre = {"a": np.zeros((PAIRS, 1)), "d": sites["beta"] @ NEEDS.T}
    for name, n in (("a", NEEDS.sum()), ("d", len(NEEDS))):
        spread = np.exp(sites[f"sigma_{name}"])[:, None] * rng.normal(size=(PAIRS, n))
        sites[name] = sites[f"mu_{name}"][:, None] + centre[name] + spread
        if name == "a":
            lean = np.exp(sites["a"]) * sites["mu_b"][:, NEEDS.nonzero()[1]]
            np.subtract.at(centre["d"].T, NEEDS.nonzero()[0], lean.T)
    return sites


def uniform_correlations(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return uniform correlation matrices, by rejection sampling, and their sites."""
    omega = np.broadcast_to(np.eye(N_ABILITIES), (4 * PAIRS, N_ABILITIES, N_ABILITIES)).copy()
    for k, other in zip(*np.triu_indices(N_ABILITIES, 1), strict=True):
        omega[:, k, other] = omega[:, other, k] = rng.uniform(-1, 1, len(omega))
    omega = omega[np.linalg.eigvalsh(omega)[:, 0] > 1e-9][:PAIRS]
    transform = biject_to(LKJCholesky(N_ABILITIES, 1).support)
    unconstrained = jax.jit(jax.vmap(transform._inverse))
    return omega, np.asarray(unconstrained(jnp.linalg.cholesky(jnp.asarray(omega))))


def quantities(sites: dict[str, np.ndarray], structure: str) -> np.ndarray:
    """Return first moments, bounded second moments and products, shape (pair, quantity)."""
    theta = sites["theta"].reshape(PAIRS, -1)
    a, d, beta, mu_b = (np.tanh(sites[k]) for k in ("a", "d", "beta", "mu_b"))
    hyper = [
        np.tanh(v)[:, None]
        for k, v in sorted(sites.items())
        if k.startswith(("mu_", "sigma_")) and v.ndim == 1
    ]
    crossed = sites["theta"][:, :, :2] * sites["theta"][:, :, 1:]
    columns = [theta, theta**2, crossed.reshape(PAIRS, -1), a, a**2, d, d**2, beta, beta**2]
    columns += [mu_b, mu_b**2, *hyper, *(h**2 for h in hyper), a[:, :4] * d]
    name = {"correlated": "root", "general": "general"}.get(structure)
    if name is not None:
        ties = np.tanh(sites[name] / 2)
        columns += [ties, ties**2, ties[:, :2] * crossed[:, 0]]
    if "icc" in sites:
        columns += of_shares(sites["icc"], sites["gamma"], sites["theta"])
    return np.concatenate(columns, 1)


@pytest.mark.parametrize(
    ("structure", "clusters"), [("correlated", ()), ("general", CLUSTERS)], ids=str
)
def test_parameters_stay_draws_from_the_prior(structure, clusters):
    """About 110 quantities at 6 standard errors: a correct sampler fails once in 4 million."""
    before = prior_sites(np.random.default_rng(7), structure, clusters)
    kind = with_clusters(ByQMatrix) if clusters else ByQMatrix
    way = kind(QMirt(Loadings.of(NEEDS), structure), clusters)

    def data_of(key, sites):
        slopes = way.needs.slopes(way.needs.in_slots(jnp.exp(sites["a"])))
        return answered(key, jax.nn.sigmoid(sites["theta"] @ slopes.T + sites["d"]), TRIALS)

    after, accepted = swept(way, data_of, before, dtype=jnp.float64)
    assert ("acceptance_turns" in accepted) == (structure == "correlated")
    change = quantities(after, structure) - quantities(before, structure)
    assert change.shape[1] <= 130
    assert_no_drift(change, f"{structure} {accepted}")

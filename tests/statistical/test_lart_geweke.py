"""Getting LaRT's sweeps right (Geweke 2004), as `test_blocked_geweke` does for the 2PL.

Parameters are drawn from the prior, and answers and lengths given them, some of each missing.
After ten sweeps given these data, the parameters are still draws from the prior.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import TRIALS, answered, assert_no_drift, of_shares, sharing, swept

from bayesirt.inference.cluster_moves import with_clusters
from bayesirt.inference.lart_moves import WithLengths
from bayesirt.likelihood.latencies import centred_latencies
from bayesirt.models import LaRT

pytestmark = pytest.mark.statistical

TIMED = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0], [1, 0, 1]], bool)
PAIRS = 10_000
"""Detects a bias of .07 sd in a quantity that ten sweeps renew, with probability 5/6."""
CLUSTERS = (0, 1, 0, 0)


def prior_sites(
    rng: np.random.Generator, wrong_lengths: bool, clusters: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written independently of the model."""
    n, (n_subjects, n_items) = 6 * PAIRS, TRIALS.shape
    rho = rng.uniform(-1, 1, n)
    theta, other = rng.normal(size=(2, n, n_subjects))
    sites = {"rho": np.log((1 + rho) / (1 - rho))}
    if clusters:
        theta, sites["gamma"], sites["icc"] = sharing(theta, clusters, rng)
        other, sites["upsilon"], sites["icc_tau"] = sharing(other, clusters, rng)
    tau = rho[:, None] * theta + np.sqrt(1 - rho[:, None] ** 2) * other
    sites |= {"theta": theta, "tau": tau}
    spreads = {"a": (0.5, 0.5), "d": (2, 2), "phi": (0.5, 0.5), "omega": (10, 2), "lam": (2, 1)}
    spreads |= {"delta": (0.5, 0.5)} if wrong_lengths else {}
    for name, (of_mu, of_sigma) in spreads.items():
        mu, sigma = of_mu * rng.normal(size=n), of_sigma * np.abs(rng.normal(size=n))
        sites |= {f"mu_{name}": mu, f"sigma_{name}": np.log(sigma)}
        sites[name] = mu[:, None] + sigma[:, None] * rng.normal(size=(n, n_items))
    sites |= {"mu_b": 2 * rng.normal(size=n), "mu_tau": 2 * rng.normal(size=n)}
    sites["d"] = sites["d"] - sites["mu_b"][:, None] * sites["a"]
    sites["omega"] = sites["omega"] + sites["mu_tau"][:, None] * sites["phi"]
    kept = np.flatnonzero((sites["a"].sum(1) > 0) & (sites["phi"].sum(1) > 0))
    return {k: v[kept[:PAIRS]] for k, v in sites.items()}


def quantities(sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return first moments, bounded second moments and products, shape (pair, quantity)."""
    rho = np.tanh(sites["rho"] / 2)[:, None]
    theta, tau, a, phi = (sites[k] for k in ("theta", "tau", "a", "phi"))
    d, omega, lam = np.tanh(sites["d"]), np.tanh(sites["omega"] / 10), np.tanh(sites["lam"] / 2)
    hyper = [
        np.tanh(v)[:, None] for k, v in sorted(sites.items()) if k.startswith(("mu_", "sigma_"))
    ]
    columns = [theta, tau, theta * tau, theta**2, tau**2, rho, rho**2, rho * theta * tau]
    columns += [np.tanh(a), np.tanh(phi), d, omega, lam, *hyper, *(h**2 for h in hyper)]
    columns += [np.tanh(a) ** 2, np.tanh(phi) ** 2, d**2, omega**2, lam**2]
    columns += [theta[:, :3] * d, tau[:, :3] * omega, np.tanh(phi) * lam, np.tanh(a) * d]
    if "delta" in sites:
        delta = np.tanh(sites["delta"])
        columns += [delta, delta**2, delta * omega, delta * lam]
    if "icc" in sites:
        columns += of_shares(sites["icc"], sites["gamma"], theta)
        columns += of_shares(sites["icc_tau"], sites["upsilon"], tau)
    return np.concatenate(columns, 1)


@pytest.mark.parametrize(("wrong_lengths", "clusters"), [(False, ()), (True, CLUSTERS)], ids=str)
def test_parameters_stay_draws_from_the_prior(wrong_lengths, clusters):
    """94 or 135 quantities at 6 standard errors: a correct sampler fails once in 4 million."""
    before = prior_sites(np.random.default_rng(7), wrong_lengths, clusters)
    assert len(before["theta"]) == PAIRS
    kind = with_clusters(WithLengths) if clusters else WithLengths
    way = kind(LaRT(wrong_lengths=wrong_lengths), clusters)

    def data_of(key, sites):
        answer_key, length_key = jax.random.split(key)
        values = way.terms(sites).values
        p = way.model.family.probability(values["theta"][:, None] * values["a"] + values["d"])
        layout = answered(answer_key, p)
        noise = jax.random.normal(length_key, TRIALS.shape) * jnp.sqrt(values["lam"])
        x = values["omega"] - values["tau"][:, None] * values["phi"] + noise
        if wrong_lengths:
            x += values["delta"] * (1 - layout.successes / jnp.where(TRIALS, TRIALS, jnp.inf))
        seen = TIMED & ((TRIALS > 0) | (not wrong_lengths))
        return centred_latencies(layout, jnp.where(seen, x, jnp.nan), wrong_lengths=wrong_lengths)

    after, accepted = swept(way, data_of, before, dtype=jnp.float64)
    change = quantities(after) - quantities(before)
    assert change.shape[1] <= (135 if wrong_lengths else 94)
    assert_no_drift(change, f"{wrong_lengths} {clusters} {accepted}")

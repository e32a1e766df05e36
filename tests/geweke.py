"""Exact draws from the priors of models of one ability, and the quantities of a Geweke test."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesirt.inference.blocked import BlockedNewton
from bayesirt.inference.moves import moves_of
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import Repeats, ThreePL, TwoPL

TRIALS = np.array([[1, 3, 0], [2, 1, 1], [0, 5, 1], [8, 1, 2]], np.int8)
PAIRS, SWEEPS = 20_000, 10
"""Detects a bias of .05 sd in a quantity that ten sweeps renew, with probability 5/6."""
AT_ONCE = 1_000
"""JAX 0.10 would divide the matrices of all pairs among threads that can wait for each other."""
HYPER = ("mu_a", "sigma_a", "mu_d", "sigma_d", "mu_b", "mu_c", "sigma_c", "mu_phi", "sigma_phi")


def prior_sites(
    model: TwoPL, clusters: tuple[int, ...], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written independently of the model."""
    n, (n_subjects, n_items), priors = 4 * PAIRS, TRIALS.shape, model.priors
    sites = {"theta": rng.normal(size=(n, n_subjects))}
    if clusters:
        told = sharing(sites["theta"], clusters, rng)
        sites = dict(zip(("theta", "gamma", "icc"), told, strict=True))
    z_a, z_d = rng.normal(size=(2, n, n_items))
    if isinstance(model, ThreePL) and priors.guessing is None:
        mu_c, sigma_c = -1.4 + 0.7 * rng.normal(size=n), 0.5 * np.abs(rng.normal(size=n))
        c = mu_c[:, None] + sigma_c[:, None] * rng.normal(size=(n, n_items))
        sites |= {"mu_c": mu_c, "sigma_c": np.log(sigma_c), "c": c}
    if isinstance(model, Repeats):
        mu_phi, sigma_phi = 1 + rng.normal(size=n), 0.5 * np.abs(rng.normal(size=n))
        phi = mu_phi[:, None] + sigma_phi[:, None] * rng.normal(size=(n, n_items))
        sites |= {"mu_phi": mu_phi, "sigma_phi": np.log(sigma_phi), "phi": phi}
    if priors.kind == "fixed":
        sites |= {"a": 0.5 * z_a, "b": 2 * z_d}
        return {k: v[:PAIRS] for k, v in sites.items()}
    sites |= {"mu_d": 2 * rng.normal(size=n), "sigma_d": np.log(2 * np.abs(rng.normal(size=n)))}
    sites["d"] = sites["mu_d"][:, None] + np.exp(sites["sigma_d"])[:, None] * z_d
    kept = np.arange(n)
    if priors.slopes != "rasch":
        sites |= {
            "mu_a": 0.5 * rng.normal(size=n),
            "sigma_a": np.log(0.5 * np.abs(rng.normal(size=n))),
        }
        sites["a"] = sites["mu_a"][:, None] + np.exp(sites["sigma_a"])[:, None] * z_a
        slope = np.exp(sites["a"])
        if priors.slopes == "free":
            slope, kept = sites["a"], np.flatnonzero(sites["a"].sum(1) > 0)
        sites["mu_b"] = 2 * rng.normal(size=n)
        sites["d"] = sites["d"] - sites["mu_b"][:, None] * slope
    return {k: v[kept[:PAIRS]] for k, v in sites.items()}


def sharing(
    own: np.ndarray, clusters: tuple[int, ...], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values of subjects and of their clusters, and the logit of the shared variance.

    `own` is standard normal, with shape (pair, subject) or (pair, subject, ability).
    """
    share = rng.uniform(size=(len(own), *(1,) * (own.ndim - 1)))
    of_cluster = np.sqrt(share) * rng.normal(size=(len(own), max(clusters) + 1, *own.shape[2:]))
    whole = of_cluster[:, list(clusters)] + np.sqrt(1 - share) * own
    return whole, of_cluster, np.log(share / (1 - share)).reshape(-1)


def of_shares(logit: np.ndarray, of_cluster: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
    """Return moments and products of the quantities of clusters, as columns."""
    pairs = len(own)
    share, gamma = 1 / (1 + np.exp(-logit[:, None])), of_cluster.reshape(pairs, -1)
    between = of_cluster[:, :1] * own[:, :2]
    within = share[..., None] if own.ndim == 3 else share
    apart = within * (own[:, :1] - own[:, 2:3]) ** 2
    products = [x.reshape(pairs, -1) for x in (between, apart)]
    return [share, share**2, gamma, gamma**2, share * gamma**2, *products]


def quantities(sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return first moments, bounded second moments and products, shape (pair, quantity)."""
    theta, item = sites["theta"], sites["b" if "b" in sites else "d"]
    scalars = [sites[k][:, None] for k in HYPER if k in sites]
    columns = [theta, theta**2, theta[:, :1] * theta[:, 1:], np.tanh(item), np.tanh(item / 3) ** 2]
    columns += [theta[:, :3] * np.tanh(item), *scalars, *(np.tanh(s) ** 2 for s in scalars)]
    if "icc" in sites:
        columns += of_shares(sites["icc"], sites["gamma"], theta)
    if "c" in sites:
        c = 1 / (1 + np.exp(-sites["c"]))
        columns += [c, c**2, c * np.tanh(item)]
    if "a" in sites:
        a = np.tanh(sites["a"])
        columns += [a, a**2, theta[:, :3] * a, theta[:, :3] ** 2 * a, a * np.tanh(item)]
    return np.concatenate(columns, 1)


def answered(key: jax.Array, p: jax.Array, trials: np.ndarray = TRIALS) -> DenseLayout:
    """Draw answers that are right with probability p."""
    tried = jnp.arange(trials.max()) < trials[:, :, None]
    right = tried & (jax.random.uniform(key, tried.shape) < p[:, :, None])
    return DenseLayout(right.sum(-1).astype(jnp.int8), jnp.asarray(trials))


def swept(
    way: Any,
    data_of: Callable[[jax.Array, Any], Any],
    before: dict[str, np.ndarray],
    *,
    dtype: Any = jnp.float32,
    least_moved: float = 0.99,
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Draw data given each pair's sites, then sweep the sites given the data.

    Returns the sites afterwards, all of which have moved, and the acceptance rates.
    """

    def one_pair(key: jax.Array, sites: Any) -> Any:
        data_key, run_key = jax.random.split(key)
        kernel = BlockedNewton(moves_of(way, data_of(data_key, sites), dtype=dtype))

        def sweep(sites: Any, key: jax.Array) -> Any:
            return kernel.sweep(key, sites)

        return jax.lax.scan(sweep, sites, jax.random.split(run_key, SWEEPS))

    keys = jax.random.split(jax.random.key(11), len(before["theta"]))

    @jax.jit
    def all_pairs(keys: jax.Array, sites: Any) -> Any:
        return jax.lax.map(lambda pair: one_pair(*pair), (keys, sites), batch_size=AT_ONCE)

    after, statistics = jax.device_get(all_pairs(keys, jax.tree.map(jnp.asarray, before)))
    accepted = {k: float(v.mean()) for k, v in statistics.items() if k.startswith("acceptance")}
    assert all(0.2 < share < 1 for share in accepted.values()), accepted
    for name, values in after.items():
        assert np.mean(values != before[name]) > least_moved, f"{name} hardly moved"
    return after, accepted


def assert_no_drift(change: np.ndarray, said: str) -> None:
    """Compare the mean change of every quantity with its standard error."""
    z = change.mean(0) / (change.std(0) / np.sqrt(len(change)))
    print(said, f"largest z {np.abs(z).max():.2f} of {len(z)}")
    assert np.abs(z).max() < 6

"""Getting it right (Geweke 2004): sweeps leave the joint distribution of parameters and data.

Draw parameters from the prior and data given them; then sweep the parameters given the data. They
are then still draws from the prior, if every density, Jacobian and Metropolis ratio is right.
Geweke compares one long chain with the prior; here many short ones start from exact draws, so
that pairs are independent, differences have a plain standard error, and ten sweeps let small
errors grow.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import Priors
from bayesirt.inference.blocked import BlockedNewton
from bayesirt.inference.two_pl_moves import two_pl_moves
from bayesirt.inference.two_pl_sites import TwoPLPrior
from bayesirt.likelihood import DenseLayout

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

TRIALS = np.array([[1, 3, 0], [2, 1, 1], [0, 5, 1], [8, 1, 2]], np.int8)
PAIRS, SWEEPS = 80_000, 10


def prior_sites(priors: Priors, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written without the model."""
    n, (n_subjects, n_items) = 4 * PAIRS, TRIALS.shape
    sites = {"theta": rng.normal(size=(n, n_subjects))}
    z_a, z_d = rng.normal(size=(2, n, n_items))
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
        if priors.slopes == "free":
            kept = np.flatnonzero(sites["a"].sum(1) > 0)
    return {k: v[kept[:PAIRS]] for k, v in sites.items()}


def quantities(sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return first moments, bounded second moments and products, shape (pair, quantity)."""
    theta, item = sites["theta"], sites["b" if "b" in sites else "d"]
    scalars = [sites[k][:, None] for k in ("mu_a", "sigma_a", "mu_d", "sigma_d") if k in sites]
    columns = [theta, theta**2, theta[:, :1] * theta[:, 1:], np.tanh(item), np.tanh(item / 3) ** 2]
    columns += [theta[:, :3] * np.tanh(item), *scalars, *(np.tanh(s) ** 2 for s in scalars)]
    if "a" in sites:
        a = np.tanh(sites["a"])
        columns += [a, a**2, theta[:, :3] * a, theta[:, :3] ** 2 * a, a * np.tanh(item)]
    return np.concatenate(columns, 1)


@pytest.mark.parametrize(
    "priors",
    [Priors(), Priors(slopes="free"), Priors(slopes="rasch"), Priors(kind="fixed")],
    ids=Priors.describe,
)
def test_parameters_stay_draws_from_the_prior(priors):
    """At most 46 quantities at 6 standard errors: a right sampler fails once in 10^7."""
    before = prior_sites(priors, np.random.default_rng(7))
    assert len(before["theta"]) == PAIRS

    def one_pair(key, sites):
        data_key, run_key = jax.random.split(key)
        theta, a, d = TwoPLPrior(priors).terms(sites).returned
        p = jax.nn.sigmoid(theta[:, None] * a + d)
        tried = jnp.arange(TRIALS.max()) < TRIALS[:, :, None]
        draws = jax.random.uniform(data_key, tried.shape) < p[:, :, None]
        successes = (draws & tried).sum(-1).astype(jnp.int8)
        kernel = BlockedNewton(two_pl_moves(DenseLayout(successes, jnp.asarray(TRIALS)), priors))

        def sweep(sites, key):
            return kernel.sweep(key, sites)

        return jax.lax.scan(sweep, sites, jax.random.split(run_key, SWEEPS))

    keys = jax.random.split(jax.random.key(11), PAIRS)
    after, statistics = jax.device_get(
        jax.jit(jax.vmap(one_pair))(keys, jax.tree.map(jnp.asarray, before))
    )
    accepted = {k: float(v.mean()) for k, v in statistics.items() if k.startswith("acceptance")}
    assert all(0.2 < share < 1 for share in accepted.values()), accepted
    for name, values in after.items():
        assert np.mean(values != before[name]) > 0.99, f"{name} hardly moved"
    change = quantities(after) - quantities(before)
    assert change.shape[1] <= 46
    z = change.mean(0) / (change.std(0) / np.sqrt(PAIRS))
    print(priors.describe(), accepted, f"largest z {np.abs(z).max():.2f} of {len(z)}")
    assert np.abs(z).max() < 6

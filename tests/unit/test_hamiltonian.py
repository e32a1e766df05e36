"""Hamiltonian trajectories leave a density invariant."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesirt.inference.block_steps import follow_trajectory
from bayesirt.inference.random_numbers import RandomNumbers


def test_trajectories_keep_a_density():
    """Compare means and covariances of 4000 chains of 20 trajectories, at five standard errors."""
    covariance = jnp.array([[1.0, 0.6], [0.6, 0.7]])
    precision = jnp.linalg.inv(covariance)

    def density(x: jax.Array) -> jax.Array:
        return -x @ precision @ x / 2 + 0.5 * x[0]

    def chain(key: jax.Array) -> jax.Array:
        def again(time: jax.Array, place: jax.Array) -> jax.Array:
            own = RandomNumbers(jax.random.fold_in(key, time))
            return follow_trajectory(own, place, density, step=0.9, n_steps=4)[0]

        return jax.lax.fori_loop(0, 20, again, jnp.zeros(2))

    draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 4000)))
    mean = np.asarray(covariance[0]) * 0.5
    error = np.sqrt(np.diag(covariance) / 4000)
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * 1.5 / np.sqrt(4000))

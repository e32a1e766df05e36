"""Batches of small symmetric matrices: packed triangles, inverses and unconstrained roots."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray


def inverse(matrices: Float[Array, "... k k"]) -> Float[Array, "... k k"]:
    """Return the inverses of positive definite matrices; NaN for others."""
    identity = jnp.broadcast_to(jnp.eye(matrices.shape[-1], dtype=matrices.dtype), matrices.shape)
    factor = jnp.linalg.cholesky(matrices)
    root = jax.lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)
    return jnp.swapaxes(root, -1, -2) @ root


def pairs(x: Float[Array, "row k"], twice: float) -> Float[Array, "row pair"]:
    """Return products x_k x_l for l ≤ k, multiplied by `twice` if k ≠ l."""
    k, m = np.tril_indices(x.shape[1])
    return x[:, k] * x[:, m] * jnp.where(k == m, 1.0, twice).astype(x.dtype)


def packed(matrices: Float[Array, "row k k"]) -> Float[Array, "row pair"]:
    """Return the lower triangles of symmetric matrices."""
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m]


def twice_off_diagonal(matrices: Float[Array, "row k k"]) -> Float[Array, "row pair"]:
    """Return lower triangles whose products with `packed` ones are traces."""
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m] * jnp.where(k == m, 1.0, 2.0).astype(matrices.dtype)


def unpacked(values: Float[Array, "row pair"], size: int) -> Float[Array, "row k k"]:
    """Return symmetric matrices from their lower triangles."""
    return values[:, place_of_pairs(size)]


def place_of_pairs(size: int) -> NDArray[np.intp]:
    """Return the position of each pair of indices among the packed ones."""
    k, m = np.tril_indices(size)
    positions = np.zeros((size, size), np.intp)
    positions[k, m] = positions[m, k] = np.arange(len(k))
    return positions


def to_root(covariance: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return the Cholesky factor with logarithms on the diagonal, which is unconstrained."""
    factor = jnp.linalg.cholesky(covariance)
    return jnp.tril(factor, -1) + jnp.diag(jnp.log(jnp.diag(factor)))


def from_root(root: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Invert `to_root`."""
    factor = jnp.tril(root, -1) + jnp.diag(jnp.exp(jnp.diag(root)))
    return factor @ factor.T

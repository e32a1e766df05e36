"""All pairs of subjects over all draws, without ever holding pairs x draws."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

_BLOCK = 400


def probability_above(theta: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return P(subject i above subject j) for every pair.

    Parameters
    ----------
    theta : float array, shape (sample, subject)

    Returns
    -------
    float array, shape (subject, subject)
        Row above column; the diagonal is ½.
    """
    wins = np.asarray(_wins(_blocks(theta)), np.float64) / len(theta)
    np.fill_diagonal(wins, 0.5)
    return wins


def surely_above(theta: NDArray[np.floating], level: float) -> NDArray[np.bool_]:
    """Return which subjects are above which others, all statements together at one level.

    Parameters
    ----------
    theta : float array, shape (sample, subject)
    level : float
        Posterior probability that every statement made is true at once.

    Returns
    -------
    bool array, shape (subject, subject)
        Row surely above column.

    Notes
    -----
    With δ_ij the difference of a pair, c is the `level` quantile over draws of
    max |δ_ij - mean δ_ij| / sd δ_ij, and i is surely above j if mean δ_ij > c sd δ_ij.
    """
    mean = theta.mean(0, dtype=np.float64)
    centred = theta - mean
    covariance = centred.T @ centred / max(len(theta) - 1, 1)
    variance = np.add.outer(covariance.diagonal(), covariance.diagonal()) - 2 * covariance
    sd = np.sqrt(np.maximum(variance, np.finfo(np.float32).tiny))
    np.fill_diagonal(sd, np.inf)
    farthest = np.asarray(_farthest(_blocks(centred), jnp.asarray(1 / sd, jnp.float32)))
    cut = np.quantile(farthest.reshape(-1)[: len(theta)], level)
    return np.subtract.outer(mean, mean) > cut * sd


def _blocks(theta: NDArray[np.floating]) -> Float[Array, "block subject draw"]:
    """Split draws into blocks that stay in cache, the last filled up with zeros."""
    samples, n = theta.shape
    width = min(_BLOCK, samples)
    count = -(-samples // width)
    padded = np.zeros((count * width, n), np.float32)
    padded[:samples] = theta
    return jnp.asarray(padded.reshape(count, width, n).transpose(0, 2, 1).copy())


@jax.jit
def _wins(blocks: Float[Array, "block subject draw"]) -> Float[Array, "subject subject"]:
    each = jnp.ones(blocks.shape[2], jnp.float32)

    def add_block(wins: Array, block: Array) -> tuple[Array, None]:
        def row(_: None, own: Array) -> tuple[None, Array]:
            return None, (own > block).astype(jnp.float32) @ each

        return wins + jax.lax.scan(row, None, block)[1], None

    n = blocks.shape[1]
    return jax.lax.scan(add_block, jnp.zeros((n, n), jnp.float32), blocks)[0]


@jax.jit
def _farthest(
    blocks: Float[Array, "block subject draw"], precision: Float[Array, "subject subject"]
) -> Float[Array, "block draw"]:
    def over_block(block: Array) -> Array:
        def row(most: Array, own: tuple[Array, Array]) -> tuple[Array, None]:
            apart = jnp.abs(block - own[0]) * own[1][:, None]
            return jnp.maximum(most, apart.max(0)), None

        nothing = jnp.zeros(block.shape[1], block.dtype)
        return jax.lax.scan(row, nothing, (block, precision))[0]

    return jax.lax.map(over_block, blocks)

"""All pairs of subjects over all draws, without ever holding pairs x draws."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

WIDE = 1000
"""With more subjects than this, pairs whose draws decide nothing are left out of the sums."""
_BLOCK = 400
_SQUARE = 256
_FARTHEST_FEW = (48, 256)
_GATHERED = 1 << 21
"""Pairs x draws whose standard deviations are gathered at once."""


def probability_above(
    theta: NDArray[np.floating], ranks: NDArray[np.integer] | None = None
) -> NDArray[np.float64]:
    """Return P(subject i above subject j) for every pair.

    Every draw of every pair counts at any size. Ranks only spare the comparisons of two subjects
    whose ranks never overlap: there the answer is 0 or 1.
    """
    if ranks is None or theta.shape[1] <= WIDE:
        wins = np.asarray(_wins(_blocks(theta)), np.float64)
    else:
        wins = _wins_by_rank(ranks)
    wins /= len(theta)
    np.fill_diagonal(wins, 0.5)
    return wins


def surely_above(theta: NDArray[np.floating], level: float) -> NDArray[np.bool_]:
    """Return which subjects are above which others, all statements together at one level.

    With δ_ij the difference of a pair, c is the `level` quantile over draws of max |δ_ij - mean
    δ_ij| / sd δ_ij, and i is surely above j if mean δ_ij > c sd δ_ij.

    With z_i the standardised draws, and κ the largest 2 cov_ij / (var_i + var_j), no pair is
    farther apart than √((z_i² + z_j²) / (1 - κ)). So the farthest pair of a draw is sought among
    the few subjects with the largest |z|, and among all only where that bound leaves it open: the
    maximum is the same. With more than 1,000 subjects covariances are computed in 32 bits.
    """
    n = theta.shape[1]
    mean = theta.mean(0, dtype=np.float64)
    centred = theta - mean
    if n > WIDE:
        centred = centred.astype(np.float32, copy=False)
    sd = _sd_of_differences(centred)
    farthest = _farthest_of_draws(centred, sd)
    cut = np.quantile(farthest, level).astype(sd.dtype)
    sure = np.empty((n, n), bool)
    for k, own in enumerate(mean):  # row by row, in cache
        np.greater(own - mean, cut * sd[k], out=sure[k])
    return sure


def in_threads(work: Callable[[Any], None], parts: Iterable[Any]) -> None:
    """Do each part of a piece of work, several at a time where there are several cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(work, parts):
            del done  # an error of a part is raised here


def _sd_of_differences(centred: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the standard deviation of each pair's difference, infinite on the diagonal."""
    sd = centred.T @ centred
    sd /= max(len(centred) - 1, 1)
    variance = sd.diagonal().copy()
    for row, own in zip(sd, variance, strict=True):  # row by row, in cache
        row *= -2
        row += variance
        row += own
        np.sqrt(np.maximum(row, np.finfo(np.float32).tiny, out=row), out=row)
    np.fill_diagonal(sd, np.inf)
    return sd


def _farthest_of_draws(
    centred: NDArray[np.floating], sd: NDArray[np.floating]
) -> NDArray[np.float32]:
    """Return max |δ_ij - mean δ_ij| / sd δ_ij of each draw, exactly."""
    found = np.empty(len(centred), np.float32)
    left = np.arange(len(centred))
    few = [k for k in _FARTHEST_FEW if 2 * k < centred.shape[1]]
    if few:
        own = centred.std(0) + np.finfo(np.float32).tiny
        least = _least_share(sd, own.astype(np.float64) ** 2)
        for k in few:
            left = left[_open_after(k, centred, left, sd, own, least, found)]
    if len(left):
        precision = (1 / sd).astype(np.float32)
        farthest = np.asarray(_farthest(_blocks(centred[left]), precision))
        found[left] = farthest.reshape(-1)[: len(left)]
    return found


def _least_share(sd: NDArray[np.floating], variance: NDArray[np.float64]) -> float:
    """Return 1 - κ: the least var δ_ij / (var_i + var_j), a little less for rounding."""
    share = min(
        float((row**2 / (own + variance)).min()) for row, own in zip(sd, variance, strict=True)
    )
    return share * (1 - 1e-3)


def _open_after(
    k: int,
    centred: NDArray[np.floating],
    draws: NDArray[np.intp],
    sd: NDArray[np.floating],
    own: NDArray[np.floating],
    least: float,
    found: NDArray[np.float32],
) -> NDArray[np.bool_]:
    """Fill in the farthest among the k subjects of the largest |z|; return where that may miss."""
    open_ = np.zeros(len(draws), bool)
    step = max(1, _GATHERED // k**2)

    def of_chunk(start: int) -> None:
        these = draws[start : start + step]
        values = centred[these]
        z = np.abs(values) / own
        order = np.argpartition(-z, k, axis=1)
        ahead = order[:, :k]
        x = np.take_along_axis(values, ahead, 1).astype(np.float32)
        precision = (1 / sd[ahead[:, :, None], ahead[:, None, :]]).astype(np.float32)
        apart = np.abs(x[:, :, None] - x[:, None, :]) * precision
        found[these] = apart.max((1, 2))
        largest, next_one = z.max(1), np.take_along_axis(z, order[:, k : k + 1], 1)[:, 0]
        bound = np.sqrt((largest**2 + next_one**2) / least)
        open_[start : start + step] = bound > found[these]

    in_threads(of_chunk, range(0, len(draws), step))
    return open_


def _wins_by_rank(ranks: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return in how many draws each one is above each other, by squares of pairs.

    Squares off the diagonal cost nothing where subjects come best first.
    """
    samples, n = ranks.shape
    small = np.int16 if max(samples, n) < np.iinfo(np.int16).max else np.int32
    count = -(-n // _SQUARE)
    fill = count * _SQUARE - n
    columns = np.pad(ranks.astype(small), ((0, 0), (0, fill)), constant_values=n + 1)
    blocks = columns.reshape(samples, count, _SQUARE).transpose(1, 0, 2).copy()
    first, last = blocks.min((1, 2)), blocks.max((1, 2))
    wins = np.zeros((count * _SQUARE,) * 2)

    def of_square(pair: tuple[int, int]) -> None:
        one, other = pair
        rows, others = (slice(k * _SQUARE, (k + 1) * _SQUARE) for k in pair)
        if last[one] < first[other]:
            wins[rows, others] = samples
            return
        wins[rows, others] = np.asarray(_wins_of_square(blocks[one], blocks[other]))
        wins[others, rows] = samples - wins[rows, others].T

    in_threads(of_square, combinations_with_replacement(range(count), 2))
    return wins[:n, :n]


@jax.jit
def _wins_of_square(
    one: Int[Array, "draw subject"], other: Int[Array, "draw subject"]
) -> Int[Array, "subject subject"]:
    """Return in how many draws ranks of one block are before those of another."""

    def add(wins: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        return wins + (draw[0][:, None] < draw[1]).astype(wins.dtype), None

    nothing = jnp.zeros((one.shape[1], other.shape[1]), one.dtype)
    return jax.lax.scan(add, nothing, (one, other))[0]


def _blocks(theta: NDArray[np.floating]) -> NDArray[np.float32]:
    """Split draws into blocks that stay in cache, the last filled up with zeros."""
    samples, n = theta.shape
    width = min(_BLOCK, samples)
    count = -(-samples // width)
    padded = np.zeros((count * width, n), np.float32)
    padded[:samples] = theta
    return padded.reshape(count, width, n).transpose(0, 2, 1).copy()


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

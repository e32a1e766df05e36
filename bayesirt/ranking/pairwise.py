"""Comparisons of all pairs of subjects over all draws, without an array of pairs x draws."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDE = 1000
"""With more subjects than this, pairs whose ranks never overlap are left out of the sums."""
_BLOCK, _ROWS = 400, 16
_SQUARE = 256
_FARTHEST_FEW = (48, 256)
_GATHERED = 1 << 21
"""Pairs x draws whose standard deviations are gathered at once."""


def probability_above(
    theta: NDArray[np.floating], ranks: NDArray[np.integer] | None = None
) -> NDArray[np.float64]:
    """Return P(subject i above subject j) for every pair.

    Every draw of every pair counts at any size. Ranks only save comparisons of subjects whose ranks
    never overlap: there the answer is 0 or 1.
    """
    if ranks is None or theta.shape[1] <= WIDE:
        wins = _wins(np.ascontiguousarray(theta.T, np.float32)).astype(np.float64)
    else:
        wins = _wins_by_rank(ranks)
    wins /= len(theta)
    np.fill_diagonal(wins, 0.5)
    return wins


def surely_above(theta: NDArray[np.floating], level: float) -> NDArray[np.bool_]:
    """Return which subjects are above which others, simultaneously at one level.

    With δ_ij the difference of a pair, c is the `level` quantile over draws of max |δ_ij - mean
    δ_ij| / sd δ_ij, and i is surely above j if mean δ_ij > c sd δ_ij.

    With z_i the standardised draws, and κ the largest 2 cov_ij / (var_i + var_j), no pair is
    farther apart than √((z_i² + z_j²) / (1 - κ)). So the farthest pair of a draw is sought among
    the few subjects with the largest |z|, and among all only if that bound does not exclude a
    larger one: the maximum is exact. With more than 1,000 subjects covariances are computed in 32
    bits.
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
    for k, row_mean in enumerate(mean):  # row by row, in cache
        np.greater(row_mean - mean, cut * sd[k], out=sure[k])
    return sure


def in_threads(work: Callable[[Any], None], parts: Iterable[Any]) -> None:
    """Do the work on each part, in parallel if there are several cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(work, parts):
            del result  # an error of a part is raised here


def _sd_of_differences(centred: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the standard deviation of each pair's difference, infinite on the diagonal."""
    sd = centred.T @ centred
    sd /= max(len(centred) - 1, 1)
    variance = sd.diagonal().copy()
    for row, row_variance in zip(sd, variance, strict=True):  # row by row, in cache
        row *= -2
        row += variance
        row += row_variance
        np.sqrt(np.maximum(row, np.finfo(np.float32).tiny, out=row), out=row)
    np.fill_diagonal(sd, np.inf)
    return sd


def _farthest_of_draws(
    centred: NDArray[np.floating], sd: NDArray[np.floating]
) -> NDArray[np.float32]:
    """Return max |δ_ij - mean δ_ij| / sd δ_ij of each draw, exactly."""
    farthest = np.empty(len(centred), np.float32)
    draws = np.arange(len(centred))
    few = [k for k in _FARTHEST_FEW if 2 * k < centred.shape[1]]
    if few:
        spread = centred.std(0) + np.finfo(np.float32).tiny
        least = _least_share(sd, spread.astype(np.float64) ** 2)
        for k in few:
            draws = draws[_open_after(k, centred, draws, sd, spread, least, farthest)]
    if len(draws):
        precision = (1 / sd).astype(np.float32)
        farthest[draws] = _farthest(centred[draws], precision)
    return farthest


def _least_share(sd: NDArray[np.floating], variance: NDArray[np.float64]) -> float:
    """Return 1 - κ: the least var δ_ij / (var_i + var_j), a little less for rounding."""
    share = min(
        float((row**2 / (var + variance)).min()) for row, var in zip(sd, variance, strict=True)
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
    """Fill in the maximum over the k subjects with the largest |z|; return where it may be low."""
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
        distances = np.abs(x[:, :, None] - x[:, None, :]) * precision
        found[these] = distances.max((1, 2))
        largest, next_one = z.max(1), np.take_along_axis(z, order[:, k : k + 1], 1)[:, 0]
        bound = np.sqrt((largest**2 + next_one**2) / least)
        open_[start : start + step] = bound > found[these]

    in_threads(of_chunk, range(0, len(draws), step))
    return open_


def _wins_by_rank(ranks: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return in how many draws each subject is above each other, by squares of pairs.

    Squares off the diagonal cost nothing if subjects are sorted best first.
    """
    from bayesirt.ranking.wide_wins import wins_of_square

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
        wins[rows, others] = np.asarray(wins_of_square(blocks[one], blocks[other]))
        wins[others, rows] = samples - wins[rows, others].T

    in_threads(of_square, combinations_with_replacement(range(count), 2))
    return wins[:n, :n]


def _wins(theta: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return in how many draws each subject is above each other; shapes (subject, draw)."""
    n, samples = theta.shape
    wins = np.empty((n, n), np.int64)

    def of_rows(start: int) -> None:
        above = np.zeros((n, samples + -samples % 64), bool)  # whole words to count bits in
        for k in range(start, min(start + _ROWS, n)):
            np.greater(theta[k], theta, out=above[:, :samples])
            words = np.packbits(above, axis=1).view(np.uint64)
            np.bitwise_count(words).sum(1, dtype=np.int64, out=wins[k])

    in_threads(of_rows, range(0, n, _ROWS))
    return wins


def _farthest(centred: NDArray[np.floating], precision: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the farthest pair of each draw, by blocks of draws that stay in cache."""
    maxima = np.zeros(len(centred), np.float32)

    def of_block(start: int) -> None:
        block = np.ascontiguousarray(centred[start : start + _BLOCK].T, np.float32)
        distances, farthest = np.empty_like(block), maxima[start : start + _BLOCK]
        for row, weight in zip(block, precision, strict=True):
            np.subtract(block, row, out=distances)
            np.abs(distances, out=distances)
            distances *= weight[:, None]
            np.maximum(farthest, distances.max(0), out=farthest)

    in_threads(of_block, range(0, len(centred), _BLOCK))
    return maxima

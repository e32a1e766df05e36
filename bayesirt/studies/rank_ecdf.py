"""Uniformity of ranks: a simultaneous envelope for the whole ECDF, and a p-value.

Both are exact for the discrete ranks of simulation-based calibration, without simulation.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

_HALVINGS = 40
_TIE = 1 + 1e-9


class Envelope(NamedTuple):
    """Counts between which the whole ECDF of uniform ranks stays with a given probability."""

    points: NDArray[np.float64]  # shape (point,), z = k / (kept + 1) for k = 1, ..., kept.
    lower: NDArray[np.int64]  # shape (point,), Least number of replications with a rank below k.
    upper: NDArray[np.int64]  # shape (point,), Greatest number of them.
    probability: float  # That uniform ranks stay inside; at least the one asked for.


def counts_below(ranks: NDArray[np.int64], kept: int) -> NDArray[np.int64]:
    """Return how many ranks are below k, for k = 1, ..., kept."""
    if len(ranks) and not (ranks.min() >= 0 and ranks.max() <= kept):
        raise ValueError(f"ranks must lie from 0 to {kept}")
    return np.cumsum(np.bincount(ranks, minlength=kept + 1))[:-1]


@lru_cache(maxsize=64)
def simultaneous_envelope(n_replications: int, kept: int, probability: float = 0.95) -> Envelope:
    """Return the envelope of the ECDF of uniform ranks.

    At each point z the count is Binomial(n, z) and may lie where both its tails exceed γ/2; γ is
    the largest value for which all counts are inside with the given probability. That probability
    is computed from point to point: given c ranks below z, the count at z' > z is
    c + Binomial(n - c, (z' - z) / (1 - z)).

    Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity, algorithm 1.
    """
    low, high = 0.0, 1 - probability
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        bounds = _bounds(n_replications, kept, middle)
        if _probability_inside(n_replications, *bounds) >= probability:
            low = middle
        else:
            high = middle
    lower, upper = _bounds(n_replications, kept, low)
    inside = _probability_inside(n_replications, lower, upper)
    return Envelope(_points(kept), lower, upper, inside)


def uniformity_p_value(ranks: NDArray[np.int64], kept: int) -> float:
    """Return how often uniform ranks deviate as far, by the smallest tail of any point's count."""
    n = len(ranks)
    counts, points = counts_below(ranks, kept), _points(kept)
    tails = np.minimum(binom.cdf(counts, n, points), binom.sf(counts - 1, n, points))
    lower, upper = _bounds(n, kept, 2 * float(tails.min()))
    return float(np.clip(1 - _probability_inside(n, lower, upper), 0, 1))


def _points(kept: int) -> NDArray[np.float64]:
    return np.arange(1, kept + 1) / (kept + 1)


@lru_cache(maxsize=64)
def _tails(n: int, kept: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P(count <= c) and P(count >= c), shape (point, count)."""
    points, counts = _points(kept)[:, None], np.arange(n + 1)
    return binom.cdf(counts, n, points), binom.sf(counts - 1, n, points)


def _bounds(n: int, kept: int, gamma: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the greatest count with both tails above γ/2, at each point."""
    too_few, too_many = (tail <= gamma / 2 * _TIE for tail in _tails(n, kept))
    return too_few.sum(1), n - too_many.sum(1)


def _probability_inside(n: int, lower: NDArray[np.int64], upper: NDArray[np.int64]) -> float:
    """Return the probability that the counts of n uniform ranks are inside at all points."""
    n_points = len(lower)
    before, chance = np.array([0]), np.array([1.0])
    for k in range(n_points):
        now = np.arange(lower[k], upper[k] + 1)
        share = 1 / (n_points + 1 - k)
        chance = chance @ binom.pmf(now - before[:, None], n - before[:, None], share)
        before = now
    return float(chance.sum())

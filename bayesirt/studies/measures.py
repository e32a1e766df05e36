"""Measures that studies share: correlations of ranks, log scores, covered values, resampling."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.posterior import LEVEL

TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
"""Shares of the draws below the bounds of an interval."""

RESAMPLES = 2000

Values = NDArray[np.float64]
Counts = NDArray[np.integer] | NDArray[np.float64]


def spearman(one: NDArray[np.floating], other: NDArray[np.floating]) -> Values:
    """Return Spearman's ρ, perhaps of many rows; tied values share the mean of their ranks."""
    x, y = (_unit(rankdata(values, axis=-1)) for values in (one, other))
    return y @ x


def _unit(values: Values) -> Values:
    centred = values - values.mean(-1, keepdims=True)
    norm = np.sqrt((centred**2).sum(-1, keepdims=True))
    return np.divide(centred, norm, out=np.full_like(centred, np.nan), where=norm > 0)


def log_losses(p: Values, right: Counts, wrong: Counts) -> Values:
    """Return the negative log probability of the answers of each cell."""
    losses = -right * np.log(np.maximum(p, np.finfo(float).tiny))
    return np.asarray(losses - wrong * np.log(np.maximum(1 - p, np.finfo(float).eps)))


def n_covered(
    true: NDArray[np.floating], low: NDArray[np.floating], high: NDArray[np.floating]
) -> float:
    """Return how many true values lie in their intervals."""
    return float(((low <= true) & (true <= high)).sum())


def resampled_sums(values: Values, labels: NDArray[np.intp], rng: np.random.Generator) -> Values:
    """Return sums of the rows of values over groups drawn again with replacement, many times."""
    codes = np.unique(labels, return_inverse=True)[1]
    sums = np.zeros((codes.max() + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    counts = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), RESAMPLES)
    return np.asarray(counts @ sums)

"""Item-rest correlations: whether subjects good at the other items do well on each item."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesirt.checks.fit.tail_probabilities import to_normal

LEAST_SUBJECTS = 10
"""Fewest subjects that must have answered an item for a test of its correlation."""
_BLOCK_CELLS = 1 << 22
_QUARTER = 0.25
_DIGITS = 9
"""Scores are rounded to these, so that those that differ only by rounding error are tied."""


def rest_correlations(successes: NDArray[np.integer], trials: NDArray[np.integer]) -> pd.DataFrame:
    """Correlate answers to each item with the scores on the other items.

    One row per item: `n_subjects` that answered it; `rest_correlation` of their proportions correct
    with their scores on the other items; `p_rest`, the probability of so low a correlation or lower
    if answers were unrelated to the other items; and the proportions correct of the `best_quarter`
    and of the `weakest_quarter` by these scores, ties included. NaN where there is no spread;
    `p_rest` also with fewer than 10 subjects.

    A subject's score leaves this item out and is relative to the mean accuracies of the other
    items that it was asked, so that hard ones do not count against it. `p_rest` comes from a
    permutation test, by the mean, variance and skewness over all permutations. It needs no model.

    Lord & Novick 1968, section 15.3 (corrected item-total correlation); Wilson & Hilferty 1931.
    """
    n_subjects, n_items = trials.shape
    right, answers = successes.sum(0, dtype=np.int64), trials.sum(0, dtype=np.int64)
    accuracy = right / np.maximum(answers, 1)
    ahead = successes.sum(1) - trials @ accuracy
    total = trials.sum(1, dtype=np.int64)
    width = max(1, _BLOCK_CELLS // n_subjects)
    blocks = [
        _of_block(successes[:, k : k + width], trials[:, k : k + width], ahead, total, accuracy[k:])
        for k in range(0, n_items, width)
    ]
    return pd.concat(blocks, ignore_index=True)


def _of_block(
    successes: NDArray[np.integer],
    trials: NDArray[np.integer],
    ahead: NDArray[np.float64],
    total: NDArray[np.int64],
    accuracy: NDArray[np.float64],
) -> pd.DataFrame:
    seen = (trials > 0) & (total[:, None] > trials)
    n = seen.sum(0)
    share = np.where(seen, successes / np.maximum(trials, 1), 0)
    others = np.maximum(total[:, None] - trials, 1)
    excess = successes - trials * accuracy[: trials.shape[1]]
    rest = np.where(seen, (ahead[:, None] - excess) / others, 0).round(_DIGITS)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (_standard(values, seen, n) for values in (share, rest))
        correlation = (x * y).sum(0) / n
        skewness = np.sqrt(n - 1) / (n - 2) * (x * x * x).sum(0) / n * (y * y * y).sum(0) / n
        z = np.asarray(to_normal(correlation * np.sqrt(n - 1), skewness), np.float64)
    tested = np.isfinite(z) & (n >= LEAST_SUBJECTS)
    best, weakest = _ends(rest, successes, np.where(seen, trials, 0), n)
    return pd.DataFrame(
        {
            "n_subjects": np.count_nonzero(trials, 0),
            "rest_correlation": correlation,
            "p_rest": np.where(tested, ndtr(z), np.nan),
            "best_quarter": best,
            "weakest_quarter": weakest,
        }
    )


def _standard(
    values: NDArray[np.float64], seen: NDArray[np.bool_], n: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return values with mean 0 and variance 1 over the observed subjects, 0 for others."""
    off = np.where(seen, values - values.sum(0) / n, 0)
    spread = np.sqrt((off**2).sum(0) / n)
    return off / np.where(spread > np.sqrt(np.finfo(np.float64).eps), spread, np.nan)


def _ends(
    rest: NDArray[np.float64],
    successes: NDArray[np.integer],
    trials: NDArray[np.integer],
    n: NDArray[np.int64],
) -> list[NDArray[np.float64]]:
    """Return proportions correct of the best and of the weakest quarter."""
    ordered = np.sort(np.where(trials > 0, rest, np.inf), axis=0)
    last = np.maximum(n - 1, 0)
    low, high = (
        np.take_along_axis(ordered, position[None], 0)
        for position in (
            np.floor(_QUARTER * last).astype(np.intp),
            np.ceil((1 - _QUARTER) * last).astype(np.intp),
        )
    )
    inside = (trials > 0) & (rest >= high), (trials > 0) & (rest <= low)
    with np.errstate(invalid="ignore"):
        return [(successes * quarter).sum(0) / (trials * quarter).sum(0) for quarter in inside]

"""Whether answers predicted with probability p are right in a share p of the cases."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from bayesirt.posterior import LEVEL, TAILS
from bayesirt.random_keys import host_random

_MOST_BINS, _LEAST_A_BIN = 100, 20
_RESAMPLES = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Predicted probabilities against observed proportions."""

    # One row per bin of about equally many answers, by predicted probability: `predicted` (mean),
    # `observed` (proportion correct), `calibrated` (a monotone fit by the pool-adjacent-violators
    # algorithm, PAVA), `low` and `high` (between which 90% of such fits lie if predictions are
    # right) and `n` (answers).
    summary: pd.DataFrame
    error: float  # Mean distance of calibrated from predicted probabilities, over answers.
    expected_error: float  # The same if predictions are right: sampling noise alone.
    p: float  # Probability of an error at least as large if predictions are right.

    def __repr__(self) -> str:
        return f"<Calibration: {self.to_text()}>"

    def to_text(self) -> str:
        """Return the conclusion in a sentence."""
        size = (
            f"{100 * self.error:.1f} points on average, {100 * self.expected_error:.1f} by chance"
        )
        if self.p > 1 - LEVEL:
            return f"Held-out predictions are calibrated (off by {size})."
        return f"Held-out predictions are off by {size} (p = {self.p:.2g})."


def check_calibration(
    predicted: NDArray[np.float64],
    successes: NDArray[np.integer],
    trials: NDArray[np.integer],
    *,
    key: Array,
) -> Calibration:
    """Compare predicted probabilities with observed answers.

    Cells are first put into at most 100 bins by predicted probability. Bands are from PAVA on
    independent answers with the predicted probabilities. As predictions depend on uncertain
    abilities and items, errors of the cells of one item are correlated and the bands too narrow, so
    rely on `error` more than on `p`.

    Dimitriadis, Gneiting & Jordan 2021; Ayer et al. 1955 (PAVA).
    """
    bins = _bins(predicted, successes, trials)
    right = host_random(key).binomial(bins.n, bins.predicted, (_RESAMPLES, len(bins)))
    drawn = right / bins.n.to_numpy()
    share = bins.n / bins.n.sum()
    pooled = np.stack([_rising(row, bins.n) for row in drawn])
    calibrated = _rising(bins.observed.to_numpy(), bins.n)
    errors = np.abs(pooled - bins.predicted.to_numpy()) @ share
    error = float(np.abs(calibrated - bins.predicted) @ share)
    low, high = np.quantile(pooled, TAILS, axis=0)
    table = bins.assign(calibrated=calibrated, low=low, high=high)
    columns = ["predicted", "observed", "calibrated", "low", "high", "n"]
    p = (1 + np.count_nonzero(errors >= error)) / (1 + _RESAMPLES)
    return Calibration(table[columns], error, float(errors.mean()), float(p))


def _bins(
    predicted: NDArray[np.float64], successes: NDArray[np.integer], trials: NDArray[np.integer]
) -> pd.DataFrame:
    """Return means of bins of about equally many answers, in order of predicted probability."""
    order = np.argsort(predicted, kind="stable")
    p = predicted[order]
    y, n = (x[order].astype(np.int64) for x in (successes, trials))
    total = n.cumsum()
    n_bins = int(np.clip(total[-1] // _LEAST_A_BIN, 1, min(_MOST_BINS, len(p))))
    edges = np.searchsorted(total, total[-1] * np.arange(n_bins) / n_bins, side="right")
    starts = np.unique(edges)
    right, answers, expected = (np.add.reduceat(x, starts) for x in (y, n, p * n))
    return pd.DataFrame(
        {"predicted": expected / answers, "observed": right / answers, "n": answers}
    )


def _rising(shares: NDArray[np.float64], n: pd.Series) -> NDArray[np.float64]:
    fitted: NDArray[np.float64] = isotonic_regression(shares, weights=n).x
    return fitted

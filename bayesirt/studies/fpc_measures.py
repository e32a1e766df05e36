"""How far predictions of accuracy are off, and what asking at random would have told."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.posterior import LEVEL
from bayesirt.studies.rank_correlation import spearman

MEASURES = ("mae", "bias", "spearman", "coverage", "width")
ESTIMATES = ("accuracy", "p_irt", "gp_irt", "anchor_mean")
_POINTS = 100
_ROUNDING = 1e-9
_SAMPLES = 20

Measures = dict[str, float]


def measure_predictions(predicted: pd.DataFrame) -> dict[str, Measures]:
    """Compare each prediction with the truth.

    By the names in `ESTIMATES`: `mae`, `bias` and `width` in points of accuracy, the Spearman
    correlation, and the share of 90% intervals that hold the truth. Only `accuracy`, the posterior
    mean, has intervals.
    """
    truth = predicted["truth"].to_numpy()
    low, high = predicted["low"].to_numpy(), predicted["high"].to_numpy()
    return {
        name: _compared(predicted[name].to_numpy(), truth)
        | (_intervals(low, high, truth) if name == "accuracy" else _NO_INTERVALS)
        for name in ESTIMATES
    }


def measure_random(right: NDArray[np.float64], n_asked: int, rng: np.random.Generator) -> Measures:
    """Ask all subjects the same few items, drawn at random, and take their mean.

    As for `measure_predictions`, means over 20 samples of items. Intervals are Wilson's, with (J -
    n) / (J - 1) of the variance that n answers would have if items could come twice.

    Habba et al. (2026), section 4.1; Wilson 1927.
    """
    truth, n_items = right.mean(1), right.shape[1]
    found = []
    for _ in range(_SAMPLES):
        mean = right[:, rng.permutation(n_items)[:n_asked]].mean(1)
        left = (n_items - n_asked) / max(n_items - 1, 1) / n_asked
        found.append(_compared(mean, truth) | _intervals(*_wilson(mean, left), truth))
    return {name: float(np.mean([one[name] for one in found])) for name in MEASURES}


_NO_INTERVALS: Measures = {"coverage": float("nan"), "width": float("nan")}


def _compared(values: NDArray[np.float64], truth: NDArray[np.float64]) -> Measures:
    off = _POINTS * (values - truth)
    return {
        "mae": float(np.abs(off).mean()),
        "bias": float(off.mean()),
        "spearman": float(spearman(truth, values)),
    }


def _intervals(
    low: NDArray[np.float64], high: NDArray[np.float64], truth: NDArray[np.float64]
) -> Measures:
    held = (low <= truth + _ROUNDING) & (truth <= high + _ROUNDING)
    return {"coverage": float(held.mean()), "width": float(_POINTS * (high - low).mean())}


def _wilson(
    mean: NDArray[np.float64], variance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ends of intervals; the variance is that of a mean whose answers vary by 1."""
    share = float(ndtri((1 + LEVEL) / 2)) ** 2 * variance
    centre = (mean + share / 2) / (1 + share)
    half = np.sqrt(share * (mean * (1 - mean) + share / 4)) / (1 + share)
    return centre - half, centre + half

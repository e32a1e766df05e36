"""Which cells are missing in the cBMM study, and why (Qu et al., 2026, A.6.3)."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from bayesirt.studies.sparse_masks import draw_mask, even_weights

MAR_SLOPE = 2.0
"""β, how much likelier a cell is to be missing at the last row and column than at the first."""

_FARTHEST = 50.0


def draw_completely_at_random(
    n_subjects: int, n_items: int, rate: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw which cells are observed where cells are missing completely at random (MCAR)."""
    n_observed = round((1 - rate) * n_subjects * n_items)
    return draw_mask(even_weights(n_subjects, n_items), n_observed, rng)


def missing_by_place(n_subjects: int, n_items: int, rate: float) -> NDArray[np.float64]:
    """Return the probability of each cell to be missing at random, by its place (MAR).

    Qu et al. (2026), A.6.3, "Missing At Random".
    """
    row, column = np.linspace(0, 1, n_subjects), np.linspace(0, 1, n_items)
    place = MAR_SLOPE * (row[:, None] + column) / 2
    alpha = brentq(lambda x: expit(x + place).mean() - rate, -_FARTHEST, _FARTHEST, xtol=1e-13)
    return expit(alpha + place)


def draw_by_place(
    n_subjects: int, n_items: int, rate: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw which cells are observed under `missing_by_place`."""
    probability = missing_by_place(n_subjects, n_items, rate)
    return rng.uniform(size=probability.shape) >= probability


def hide_failures(
    right: NDArray[np.bool_], share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw items whose wrong answers all go missing (MNAR).

    Qu et al. (2026), A.6.3, "Missing Not At Random".
    """
    gated = rng.uniform(size=right.shape[1]) < share
    return np.logical_or(right, ~gated)

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
    """Draw which cells are observed where cells are missing completely at random (MCAR).

    Parameters
    ----------
    n_subjects, n_items : int
    rate : float
        ρ, the share of cells that is missing; it is met to the cell.
    rng : Generator

    Returns
    -------
    bool array, shape (subject, item)
    """
    n_observed = round((1 - rate) * n_subjects * n_items)
    return draw_mask(even_weights(n_subjects, n_items), n_observed, rng)


def missing_by_place(n_subjects: int, n_items: int, rate: float) -> NDArray[np.float64]:
    """Return the probability of each cell to be missing at random, by its place (MAR).

    Parameters
    ----------
    n_subjects, n_items : int
        At least two each.
    rate : float
        ρ, strictly between 0 and 1: the mean of the probabilities.

    Returns
    -------
    float array, shape (subject, item)
        1/(1 + exp(-α - β Sp)), Sp the mean of row and column number, each from 0 to 1; α makes
        the mean ρ.

    References
    ----------
    Qu et al. (2026), A.6.3, "Missing At Random".

    Examples
    --------
    >>> missing_by_place(3, 2, 0.4).mean().round(10)
    np.float64(0.4)
    """
    row, column = np.linspace(0, 1, n_subjects), np.linspace(0, 1, n_items)
    place = MAR_SLOPE * (row[:, None] + column) / 2
    alpha = brentq(lambda x: expit(x + place).mean() - rate, -_FARTHEST, _FARTHEST, xtol=1e-13)
    return expit(alpha + place)


def draw_by_place(
    n_subjects: int, n_items: int, rate: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw which cells are observed under `missing_by_place`.

    Parameters
    ----------
    n_subjects, n_items : int
    rate : float
    rng : Generator

    Returns
    -------
    bool array, shape (subject, item)
    """
    probability = missing_by_place(n_subjects, n_items, rate)
    return rng.uniform(size=probability.shape) >= probability


def hide_failures(
    right: NDArray[np.bool_], share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw items whose wrong answers all go missing (MNAR).

    Parameters
    ----------
    right : bool array, shape (subject, item)
        The answers.
    share : float
        ρ_c, the probability of an item to lose its wrong answers.
    rng : Generator

    Returns
    -------
    bool array, shape (subject, item)
        What is observed.

    References
    ----------
    Qu et al. (2026), A.6.3, "Missing Not At Random".
    """
    gated = rng.uniform(size=right.shape[1]) < share
    return np.logical_or(right, ~gated)

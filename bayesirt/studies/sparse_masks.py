"""Which subject meets which item in the sparse study (Kang, 2026, 4, 5.3 and Appendix B)."""

import numpy as np
from numpy.typing import NDArray

FEWEST_ITEMS, FEWEST_SUBJECTS = 2, 3
"""Least items of a subject and least subjects of an item, in every mask of Kang (2026)."""

_LEAST_WEIGHT = 1e-9
"""The pairs that the paper's weights rule out are the last to be observed, not never."""


def even_weights(n_subjects: int, n_items: int) -> NDArray[np.float64]:
    """Return weights under which cells are missing completely at random."""
    return np.ones((n_subjects, n_items))


def matched_weights(theta: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights under which able subjects meet hard items and weak ones easy items.

    Kang (2026), 5.3, "difficulty-biased missingness"; the formula is in the authors' code.
    """
    u, v = ((x - x.min()) / np.ptp(x) for x in (theta, b))
    return np.maximum((1 - np.abs(u[:, None] - v)) ** 2, _LEAST_WEIGHT)


def draw_mask(
    weights: NDArray[np.float64],
    n_observed: int,
    rng: np.random.Generator,
    given: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Draw which cells are observed: two items a subject, three subjects an item, then the rest."""
    n_given = 0 if given is None else len(given)
    mask = np.zeros(weights.shape, bool)
    if given is not None:
        mask[:n_given] = given
    n_items = weights.shape[1]
    free = np.arange(n_given, len(mask))
    for i in free:
        mask[i, _pick(weights[i], FEWEST_ITEMS, rng)] = True
    for j in range(n_items):
        lacking = FEWEST_SUBJECTS - mask[:, j].sum()
        if lacking > 0:
            mask[free[_pick(weights[free, j] * ~mask[free, j], lacking, rng)], j] = True
    left = n_observed - mask.sum()
    if left > 0:
        open_weights = (weights[free] * ~mask[free]).ravel()
        rows, columns = np.divmod(_pick(open_weights, left, rng), n_items)
        mask[free[rows], columns] = True
    return mask


def _pick(weights: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return rng.choice(len(weights), n, replace=False, p=weights / weights.sum())

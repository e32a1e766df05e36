"""Subjects and items whose estimates rest on the prior more than on responses."""

import numpy as np
from numpy.typing import NDArray

FEW_RESPONSES = 5
"""With fewer observed cells than this, a row or column is flagged."""

HARDLY_DISCRIMINATES = 0.25
"""An item whose discrimination is below this hardly tells subjects apart."""


def response_flags(
    successes: NDArray[np.integer], trials: NDArray[np.integer], axis: int
) -> list[str]:
    """Return why the estimate of each subject (axis 1) or item (axis 0) rests on the prior."""
    right = successes.sum(axis, dtype=np.int64)
    total = trials.sum(axis, dtype=np.int64)
    observed = np.count_nonzero(trials, axis)
    reasons = {
        "all right": right == total,
        "all wrong": right == 0,
        "few responses": observed < FEW_RESPONSES,
    }
    return [
        "; ".join(reason for reason, applies in reasons.items() if applies[k])
        for k in range(len(total))
    ]

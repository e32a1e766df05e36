"""Alarms of a review of an item bank, and control of false alarms."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

AlarmKind = Literal["anchor", "benchmark", "saturation", "novelty", "reference"]

FALSE_ALARMS = 0.05
"""Largest probability that a bank without drift raises any alarm of a kind."""


class Alarm(NamedTuple):
    """A finding that the maintainer of a bank should look at."""

    # An anchor or a whole benchmark is answered differently than calibrated; the best subjects get
    # nearly all of a benchmark right; it measures something that the suite's abilities do not
    # capture; it was calibrated with too few reference subjects.
    kind: AlarmKind
    benchmark: str
    item: str | None  # The anchor.
    sentence: str  # What was seen, and what to do.


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted for multiple testing (Holm 1979).

    >>> holm(np.array([0.01, 0.04, np.nan])).tolist()
    [0.02, 0.04, nan]
    """
    flat = p.ravel()
    order = np.argsort(flat)[: np.isfinite(flat).sum()]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(flat, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(flat[order] * factors), 1)
    return adjusted.reshape(p.shape)

"""What a review of an item bank warns of, and how many warnings may be false."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

AlarmKind = Literal["anchor", "benchmark", "saturation", "novelty", "reference"]

FALSE_ALARMS = 0.05
"""How often an honest bank may raise any alarm of a kind at all."""


class Alarm(NamedTuple):
    """Something that a bank's keeper should look at.

    Attributes
    ----------
    kind : {"anchor", "benchmark", "saturation", "novelty", "reference"}
        An anchor or a whole benchmark is answered otherwise than calibrated; the best subjects get
        nearly all of a benchmark right; it measures something that the suite's abilities do not
        hold; it was calibrated with too few reference subjects.
    benchmark : str
    item : str or None
        The anchor.
    sentence : str
        What was seen, and what to do.
    """

    kind: AlarmKind
    benchmark: str
    item: str | None
    sentence: str


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values that allow for all the others.

    Parameters
    ----------
    p : float array
        NaN where nothing was tested.

    Returns
    -------
    float array
        Rejecting what is at most α here rejects any true hypothesis with probability at most α.

    References
    ----------
    Holm 1979.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, np.nan])).tolist()
    [0.02, 0.04, nan]
    """
    flat = p.ravel()
    order = np.argsort(flat)[: np.isfinite(flat).sum()]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(flat, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(flat[order] * factors), 1)
    return adjusted.reshape(p.shape)

"""Spearman's ρ, of many rows at once."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def spearman(one: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return Spearman's ρ; tied values share the mean of their ranks."""
    x, y = (_unit(rankdata(values, axis=-1)) for values in (one, other))
    return y @ x


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = values - values.mean(-1, keepdims=True)
    norm = np.sqrt((centred**2).sum(-1, keepdims=True))
    return np.divide(centred, norm, out=np.full_like(centred, np.nan), where=norm > 0)

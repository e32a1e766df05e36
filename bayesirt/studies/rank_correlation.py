"""Spearman's ρ, of many rows at once."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def spearman(one: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return Spearman's ρ; tied values share the mean of their ranks.

    Parameters
    ----------
    one : float array, shape (subject,)
    other : float array, shape (..., subject)

    Returns
    -------
    float array, shape (...)
        NaN where all values of either are equal.

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([[3.0, 5.0, 9.0], [3.0, 2.0, 1.0]]))
    array([ 1., -1.])
    """
    x, y = (_unit(rankdata(values, axis=-1)) for values in (one, other))
    return y @ x


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = values - values.mean(-1, keepdims=True)
    norm = np.sqrt((centred**2).sum(-1, keepdims=True))
    return np.divide(centred, norm, out=np.full_like(centred, np.nan), where=norm > 0)

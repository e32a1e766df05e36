"""What chains say that do not agree: of each probability and interval, what all of them support.

Of draws that are not sound, a probability is the value nearest to one half between the chains'
lowest and highest, and an interval of ranks holds those of all chains.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[np.generic]]


def chains_of(draws: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the chains, or the halves of one that is alone.

    Parameters
    ----------
    draws : float array, shape (chain, draw, ...)

    Returns
    -------
    float array, shape (chain, draw, ...)
    """
    if len(draws) > 1 or draws.shape[1] < 2:
        return draws
    half = draws.shape[1] // 2
    return draws[:, : 2 * half].reshape(2, half, *draws.shape[2:])


def supported(each: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the value nearest to one half between the chains' lowest and highest probability.

    Parameters
    ----------
    each : iterable of float arrays
        Of each chain, all of one shape.

    Returns
    -------
    float array

    Examples
    --------
    >>> supported([np.array([1.0, 0.9, 0.1]), np.array([0.0, 0.7, 0.3])])
    array([0.5, 0.7, 0.3])
    """
    lowest, highest = _bounds(each)
    return np.clip(0.5, lowest, highest)


def supported_columns(
    chains: Sequence[NDArray[np.floating]] | NDArray[np.floating],
    columns_of: Callable[[NDArray[np.floating]], Columns],
) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a ranking as far as every chain supports them.

    Parameters
    ----------
    chains : sequence of float arrays, shape (draw, subject)
    columns_of : callable
        Makes `rank_columns` of one chain's draws.

    Returns
    -------
    dict of arrays, shape (subject,)
        Without `rank`, of which the median over all draws stays; empty without chains.
    """
    if not len(chains):
        return {}
    each = [columns_of(chain) for chain in chains]
    found: dict[str, NDArray[np.generic]] = {}
    for name in each[0]:
        values = [columns[name] for columns in each]
        if name.startswith("p_"):
            found[name] = supported(values)
        elif name == "tier" or name.endswith("_low"):
            found[name] = np.min(values, axis=0)
        elif name.endswith("_high"):
            found[name] = np.max(values, axis=0)
    return found


def _bounds(
    each: Iterable[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lowest = highest = None
    for values in each:
        lowest = values if lowest is None else np.minimum(lowest, values)
        highest = values if highest is None else np.maximum(highest, values)
    if lowest is None or highest is None:
        raise ValueError("no chain")
    return lowest, highest

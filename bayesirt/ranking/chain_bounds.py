"""Probabilities and intervals from chains that are not sound: what all chains support.

A chain that does not mix is a single opinion. So a probability is the value nearest to one half
between the chains' lowest and highest, and no more certain than that many opinions allow; an
interval of ranks covers those of all chains, or all ranks if parts of the posterior were missed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[np.generic]]


def supported(
    each: Iterable[NDArray[np.float64]], *, of_pairs: bool = False
) -> NDArray[np.float64]:
    """Return the probabilities that every chain supports.

    >>> supported([np.array([1.0, 0.7, 0.1]), np.array([0.0, 0.6, 0.3])])
    array([0.5, 0.6, 0.3])
    >>> supported([np.ones(1), np.ones(1)])
    array([0.75])
    """
    lowest, highest, n = np.array(np.inf), np.array(-np.inf), 0
    for values in each:
        lowest, highest, n = np.minimum(lowest, values), np.maximum(highest, values), n + 1
    most = (n + 1) / (n + 2)
    return np.clip(np.clip(0.5, lowest, highest), 1 - most if of_pairs else 0, most)


def supported_columns(
    chains: Sequence[NDArray[np.floating]] | NDArray[np.floating],
    columns_of: Callable[[NDArray[np.floating]], Columns],
    *,
    explored: bool,
) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a ranking as far as every chain supports them.

    `rank` is not among them, as it stays the median over all draws. Empty without chains.
    """
    if not len(chains):
        return {}
    each = [columns_of(chain) for chain in chains]
    n = chains[0].shape[1]
    bounds: dict[str, NDArray[np.generic]] = {}
    for name in each[0]:
        values = np.stack([columns[name] for columns in each])
        if name.startswith("p_"):
            bounds[name] = supported(values)
        elif name == "tier" or name.endswith("_low"):
            bounds[name] = values.min(0) if explored else np.ones(n, int)
        elif name.endswith("_high"):
            bounds[name] = values.max(0) if explored else np.full(n, n)
    return bounds

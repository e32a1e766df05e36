"""Tables filled up to a few shapes, so that code compiled for one table serves the next as well.

Further rows and columns hold no answers. Whatever is believed of their subjects and items is what
the population says, and neither the population nor anybody else learns from it.
"""

import numpy as np
from numpy.typing import ArrayLike

from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.host_arrays import host

_MOST_CELLS = 200_000
"""With so many, what fills up costs sweeps half a second of eight, and compiling takes nine."""


def filled_up(successes: ArrayLike, trials: ArrayLike) -> DenseLayout:
    """Return a small table with rows and columns added, at most an eighth of each."""
    layout = DenseLayout(host(successes), host(trials))
    if np.prod(layout.shape) > _MOST_CELLS:
        return layout
    room = [(0, _more(n)) for n in layout.shape]
    return DenseLayout(*(host(np.pad(x, room)) for x in layout))


def _more(n: int) -> int:
    """Return how far off the next usual size is, of eight to each doubling."""
    return -n % max(1, (1 << (n - 1).bit_length()) // 16)

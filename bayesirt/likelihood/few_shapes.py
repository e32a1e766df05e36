"""Tables padded to a few shapes, so that code compiled for one table can be reused for others.

The padding holds no answers. Its subjects and items follow the population and have no influence on
it or on others.
"""

import numpy as np
from numpy.typing import ArrayLike

from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.host_arrays import host

_MOST_CELLS = 200_000
"""Number of cells up to which tables are padded. At this size padding costs sweeps half a second of
eight, and compiling takes nine."""


def filled_up(successes: ArrayLike, trials: ArrayLike) -> DenseLayout:
    """Return a small table padded with rows and columns, at most an eighth of each."""
    layout = DenseLayout(host(successes), host(trials))
    if np.prod(layout.shape) > _MOST_CELLS:
        return layout
    room = [(0, _more(n)) for n in layout.shape]
    return DenseLayout(*(host(np.pad(x, room)) for x in layout))


def _more(n: int) -> int:
    """Return the padding up to the next standard size; there are eight sizes per doubling."""
    return -n % max(1, (1 << (n - 1).bit_length()) // 16)

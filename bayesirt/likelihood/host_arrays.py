"""NumPy arrays where JAX's are expected."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def host(values: ArrayLike, dtype: Any = None) -> Any:
    """Return a NumPy array for compiled functions: no program has to be made to put it there."""
    return np.asarray(values, dtype)

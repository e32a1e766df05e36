"""NumPy arrays as arguments of JAX functions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def host(values: ArrayLike, dtype: Any = None) -> Any:
    """Return a NumPy array for compiled functions, which avoids compiling a transfer."""
    return np.asarray(values, dtype)

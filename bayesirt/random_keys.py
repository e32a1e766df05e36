"""Random keys, also from integer seeds."""

from typing import TypeAlias

import jax
import numpy as np
from jax import Array

Key: TypeAlias = Array | int
"""Type of the `key` of public functions: ``jax.random.key(0)``, or 0."""


def as_key(key: Key) -> Array:
    """Return a key; an integer is used as its seed.

    >>> bool(as_key(3) == jax.random.key(3))
    True
    """
    return jax.random.key(key) if isinstance(key, int) else key


def host_random(key: Array) -> np.random.Generator:
    """Return a NumPy generator seeded with a key's bits; it needs no compilation.

    >>> host_random(jax.random.key(0)).permutation(3).shape
    (3,)
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))

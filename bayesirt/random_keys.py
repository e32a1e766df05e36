"""Random keys, or the whole numbers that stand for them."""

from typing import TypeAlias

import jax
import numpy as np
from jax import Array

Key: TypeAlias = Array | int
"""What the `key` of a public function may be: ``jax.random.key(0)``, or 0."""


def as_key(key: Key) -> Array:
    """Return a key; of a whole number, that with this seed.

    >>> bool(as_key(3) == jax.random.key(3))
    True
    """
    return jax.random.key(key) if isinstance(key, int) else key


def host_random(key: Array) -> np.random.Generator:
    """Return NumPy's random numbers with a key's bits for a seed: nothing has to be compiled.

    >>> host_random(jax.random.key(0)).permutation(3).shape
    (3,)
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))

"""Random keys, or the whole numbers that stand for them."""

from typing import TypeAlias

import jax
from jax import Array

Key: TypeAlias = Array | int
"""What the `key` of a public function may be: ``jax.random.key(0)``, or 0."""


def as_key(key: Key) -> Array:
    """Return a key; of a whole number, that with this seed.

    >>> bool(as_key(3) == jax.random.key(3))
    True
    """
    return jax.random.key(key) if isinstance(key, int) else key

"""Random numbers that are drawn many at a time, as each separate draw takes long to compile."""

from math import pi, prod

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

Shape = tuple[int, ...]


class RandomNumbers:
    """Random numbers from a key, which are used up in the order of the calls.

    At least `at_once` numbers are drawn at a time. A loop whose body takes numbers from outside of
    it would take the same ones each time: take them for all steps before the loop, or make new
    `RandomNumbers` within its body.
    """

    def __init__(self, key: Array, at_once: int = 0) -> None:
        self._key, self._at_once = key, at_once
        self._bits, self._used = jnp.zeros(0, jnp.uint32), 0

    def key(self) -> Array:
        """Return a key that is used nowhere else."""
        self._key, key = jax.random.split(self._key)
        return key

    def uniform(self, shape: Shape, dtype: DTypeLike) -> Float[Array, "..."]:
        """Return uniform numbers with 32 random bits, never 0."""
        n = prod(shape)
        if self._used + n > len(self._bits):
            self._bits = jax.random.bits(self.key(), (max(n, self._at_once),), jnp.uint32)
            self._used = 0
        bits = self._bits[self._used : self._used + n]
        self._used += n
        return ((bits.astype(dtype) + 0.5) * 2.0**-32).reshape(shape)

    def exponential(self, shape: Shape, dtype: DTypeLike) -> Float[Array, "..."]:
        """Return standard exponential numbers, which are finite."""
        return -jnp.log(self.uniform(shape, dtype))

    def normal(self, shape: Shape, dtype: DTypeLike) -> Float[Array, "..."]:
        """Return standard normal numbers (Box & Muller 1958).

        XLA would evaluate the inverse of the distribution function, which JAX uses, anew wherever
        one of its values is used.
        """
        n = prod(shape)
        pairs = (n + 1) // 2
        radius = jnp.sqrt(2 * self.exponential((pairs,), dtype))
        angle = 2 * pi * self.uniform((pairs,), dtype)
        both = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)])
        return both[:n].reshape(shape)

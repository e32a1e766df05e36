"""Counts of draws in which one subject ranks before another, for squares of many pairs."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int


@jax.jit
def wins_of_square(
    one: Int[Array, "draw subject"], other: Int[Array, "draw subject"]
) -> Int[Array, "subject subject"]:
    """Return in how many draws each rank of one block is before each rank of another."""

    def add(wins: Array, draw: tuple[Array, Array]) -> tuple[Array, None]:
        return wins + (draw[0][:, None] < draw[1]).astype(wins.dtype), None

    nothing = jnp.zeros((one.shape[1], other.shape[1]), one.dtype)
    return jax.lax.scan(add, nothing, (one, other))[0]

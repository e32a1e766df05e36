"""Simultaneous steps of many members, none of which increases its own loss."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Notes = TypeVar("Notes")


def limited(direction: Float[Array, "row k"], farthest: float = 1.0) -> Float[Array, "row k"]:
    """Shorten steps such that no parameter moves farther than `farthest`."""
    longest = jnp.abs(direction).max(1, keepdims=True)
    return direction * jnp.minimum(1, farthest / jnp.maximum(longest, farthest))


def without_rising(
    before: Float[Array, " member"],
    after: Callable[[Float[Array, " member"]], tuple[Float[Array, " member"], Notes]],
    notes: Notes,
    *,
    rounding: float,
    most_halvings: int,
) -> tuple[Float[Array, " member"], Notes, Array]:
    """Return each member's share of its step, the notes there, and the number of evaluations.

    `after` returns losses and notes at shares of the steps; `notes` has the structure of its notes.
    If a member's loss rises by more than rounding, its step is halved repeatedly, and finally set
    to 0.
    """
    most = before + rounding * jnp.abs(before)

    def attempt(carry: tuple[Array, Notes, Array, Array]) -> tuple[Array, Notes, Array, Array]:
        share, _, rose, tries = carry
        smaller = jnp.where(tries < most_halvings, share / 2, 0)
        share = jnp.where(rose, smaller, share)
        losses, notes = after(share)
        return share, notes, ~(losses <= most) & (share > 0), tries + 1

    twice = jnp.full_like(before, 2)  # halved before the first attempt
    untried = (twice, notes, jnp.ones_like(before, bool), jnp.array(0))
    share, notes, _, tries = jax.lax.while_loop(lambda carry: carry[2].any(), attempt, untried)
    return share, notes, tries

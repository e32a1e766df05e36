"""Multidimensional 2PL: EM steps extrapolated (SQUAREM)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_FIRST_LEAP, _SHORTEST_LEAP, _GROWTH = 4.0, 1.5, 2.0
_MOST_RISE = 1.0
"""Of the loss by a leap: an early one that overshoots a little still saves steps."""

EMStep = Callable[[Any, Any], tuple[Any, Any, Array]]


class EMState(NamedTuple):
    """Where the iteration stands.

    Attributes
    ----------
    parameters : pytree
        All that belongs to no single subject, free of bounds.
    beliefs : pytree
        What is thought of single subjects and items, given the parameters.
    loss : float
        Penalised, at parameters that `parameters` improves on.
    longest : float
        In steps, how far the next leap may go: farther after leaps that went well.
    """

    parameters: Any
    beliefs: Any
    loss: Float[Array, ""]
    longest: Float[Array, ""]


def first_state(em: EMStep, parameters: Any, beliefs: Any) -> EMState:
    """Return where the iteration starts."""
    loss = em(parameters, beliefs)[2]
    return EMState(parameters, beliefs, loss, jnp.asarray(_FIRST_LEAP, loss.dtype))


def squarem_step(em: EMStep, state: EMState) -> EMState:
    """Take two EM steps, extrapolate them, and settle by a third.

    Parameters
    ----------
    em : callable
        (parameters, beliefs) → parameters after the step, beliefs on their scale, and the loss
        before the step.
    state : EMState

    Returns
    -------
    EMState
        From the leap, unless the loss rises by more than 1 there.

    References
    ----------
    Varadhan & Roland 2008.
    """
    once, beliefs, _ = em(state.parameters, state.beliefs)
    twice, beliefs, before = em(once, beliefs)
    far, length = _LEAP(state.parameters, once, twice, state.longest)
    settled, there, at_leap = em(far, beliefs)
    if at_leap <= before + _MOST_RISE:
        longest = jnp.where(length < state.longest, 1.0, _GROWTH) * state.longest
        return EMState(settled, there, at_leap, longest)
    return EMState(twice, beliefs, before, jnp.maximum(length / 2, _SHORTEST_LEAP))


def _leap(first: Any, once: Any, twice: Any, longest: Array) -> tuple[Any, Array]:
    """Return first + 2 α r + α² v for the first step r and its change v, and α = |r| / |v|."""
    r = jax.tree.map(jnp.subtract, once, first)
    v = jax.tree.map(lambda two, one, step: two - one - step, twice, once, r)
    of_r, of_v = (sum(jnp.vdot(x, x) for x in jax.tree.leaves(step)) for step in (r, v))
    alpha = jnp.sqrt(of_r / jnp.maximum(of_v, jnp.finfo(longest.dtype).tiny))
    alpha = jnp.clip(alpha, 1, longest)
    return jax.tree.map(lambda x, r, v: x + 2 * alpha * r + alpha**2 * v, first, r, v), alpha


_LEAP: Any = jax.jit(_leap)

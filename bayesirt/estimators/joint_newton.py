"""Damped Newton steps: on items and abilities in turn to come near, then on both together."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators.cell_sums import CellSums, cell_sums
from bayesirt.estimators.joint_information import (
    JointPoint,
    JointPrior,
    factored,
    item_factors,
    joint_gradient,
    joint_information,
    own_information,
    solve,
    solve_items,
)
from bayesirt.likelihood.cell_sums import Layout
from bayesirt.likelihood.family import Family

_MOST_HALVINGS = 20
_ROUNDING = 8.0
_MOST_SWEEPS = 12
_NEAR = 1e-4


class JointState(NamedTuple):
    """Where the iteration stands."""

    point: JointPoint
    sums: CellSums  # At the point.
    loss: Float[Array, ""]  # Negative log joint density, up to a constant.


def init_joint(layout: Layout, family: Family, prior: JointPrior, point: JointPoint) -> JointState:
    """Return the state at a point."""
    sums = cell_sums(layout, family, *point.slopes())
    penalties = (p * jnp.sum(x**2) for p, x in zip(prior, point, strict=True))
    return JointState(point, sums, sums.subject_loss.sum() + 0.5 * sum(penalties))


def joint_start(layout: Layout, family: Family, prior: JointPrior, point: JointPoint) -> JointState:
    """Return the state to which steps on items and abilities in turn bring a point.

    Each side moves as if the other were known, which costs a pass over the data only, until both
    together lower the loss by at most 1e-4 of itself.
    """

    def sweep(carry: tuple[Array, Array, JointState]) -> tuple[Array, Array, JointState]:
        n, _, state = carry
        return n + 1, state.loss, _block_step(layout, family, prior, state)

    def far(carry: tuple[Array, Array, JointState]) -> Array:
        n, before, state = carry
        return (n < _MOST_SWEEPS) & (before - state.loss > _NEAR * jnp.abs(state.loss))

    state = init_joint(layout, family, prior, point)
    *_, state = jax.lax.while_loop(
        far, sweep, (jnp.array(0), jnp.full_like(state.loss, jnp.inf), state)
    )
    return state


def _block_step(layout: Layout, family: Family, prior: JointPrior, state: JointState) -> JointState:
    for moves_items in (True, False):
        gradient = joint_gradient(state.sums, prior, state.point)
        of_theta, of_items = own_information(state.sums, prior, state.point, 0.0)
        theta = gradient.theta / of_theta
        items = solve_items(item_factors(of_items), jnp.stack([gradient.log_a, gradient.b]))
        theta, items = (0 * theta, items) if moves_items else (theta, 0 * items)
        state = _downhill(layout, family, prior, state, JointPoint(theta, *items))
    return state


def joint_step(layout: Layout, family: Family, prior: JointPrior, state: JointState) -> JointState:
    """Take a Newton step; where the loss would rise, half of it, and so on, and at last none.

    Where the observed information is not positive definite, which happens far from the optimum
    only, the expected information takes its place.
    """
    return _downhill(layout, family, prior, state, _direction(layout, family, prior, state))


def _downhill(
    layout: Layout, family: Family, prior: JointPrior, state: JointState, direction: JointPoint
) -> JointState:
    slack = _ROUNDING * jnp.finfo(state.loss.dtype).eps * jnp.abs(state.loss)

    def attempt(carry: tuple[Array, JointState]) -> tuple[Array, JointState]:
        tries, _ = carry
        share = jnp.where(tries < _MOST_HALVINGS, 0.5**tries, 0)
        point = JointPoint(*(x + share * v for x, v in zip(state.point, direction, strict=True)))
        return tries + 1, init_joint(layout, family, prior, point)

    def rose(carry: tuple[Array, JointState]) -> Array:
        tries, found = carry
        return ~(found.loss <= state.loss + slack) & (tries <= _MOST_HALVINGS)

    _, found = jax.lax.while_loop(rose, attempt, attempt((jnp.array(0), state)))
    return found


def _direction(layout: Layout, family: Family, prior: JointPrior, state: JointState) -> JointPoint:
    gradient = joint_gradient(state.sums, prior, state.point)

    def attempt(carry: tuple[Array, JointPoint]) -> tuple[Array, JointPoint]:
        observed, _ = carry
        information = joint_information(
            layout, family, state.sums, prior, state.point, observed.astype(state.loss.dtype)
        )
        factors = factored(layout, information)
        return observed - 1, solve(layout, information, factors, gradient)

    def indefinite(carry: tuple[Array, JointPoint]) -> Array:
        observed, found = carry
        return (observed == 1) | (observed == 0) & ~jnp.isfinite(found.theta).all()

    _, direction = jax.lax.while_loop(indefinite, attempt, (jnp.array(1), gradient))
    return direction

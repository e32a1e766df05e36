"""Block-wise Newton steps that never increase the loss."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.estimators.cell_sums import CellSums, cell_sums, jitted_cell_sums, same_predictor
from bayesirt.estimators.step_halving import without_rising
from bayesirt.estimators.weak_prior import WeakPrior
from bayesirt.likelihood.cell_sums import ByRows
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.host_arrays import host

_MOST_HALVINGS = 12
_ROUNDING = 64.0

Point = tuple[Array, Array, Array]


class NewtonState(NamedTuple):
    """State of the iteration."""

    point: Point
    sums: CellSums  # At the point.
    loss: Float[Array, ""]
    passes: Array  # Passes over the data so far.


def init_newton(
    layout: ByRows,
    family: Family,
    prior: WeakPrior,
    point: Point,
    dtype: DTypeLike | None = None,
) -> NewtonState:
    """Return the initial state; `dtype` is passed to `cell_sums`."""
    sums = jitted_cell_sums(layout, family, *point, dtype=dtype)
    loss = host(sums.subject_loss).sum() + prior.loss(*map(host, point))
    return NewtonState(point, sums, host(loss, sums.subject_loss.dtype), host(1))


def newton_step(
    layout: ByRows,
    family: Family,
    prior: WeakPrior,
    state: NewtonState,
    dtype: DTypeLike | None = None,
) -> NewtonState:
    """Update all subjects at once, then all items at once, then move along the flat directions.

    Given the items, subjects are independent of each other, and vice versa. So each step is halved
    separately until its loss does not increase, except by rounding. The pass that checks one block
    also computes the sums for the other, so an iteration takes two passes.
    """
    (theta, a, d), sums, _, passes = state
    evaluate = partial(cell_sums, layout, family, dtype=dtype)
    halve = partial(
        without_rising,
        rounding=_ROUNDING * float(jnp.finfo(dtype or theta.dtype).eps),
        most_halvings=_MOST_HALVINGS,
    )

    def subject_loss(theta: Array, sums: CellSums) -> Array:
        return sums.subject_loss + 0.5 * prior.theta_precision * theta**2

    def item_loss(items: Array, sums: CellSums) -> Array:
        penalties = prior.a_precision * items[0] ** 2 + prior.d_precision * items[1] ** 2
        return sums.item_loss + 0.5 * penalties

    along_theta = (sums.theta_score - prior.theta_precision * theta) / jnp.maximum(
        sums.theta_information + prior.theta_precision, jnp.finfo(theta.dtype).tiny
    )

    def after_subjects(share: Array) -> tuple[Array, CellSums]:
        moved = theta + share * along_theta
        new_sums = evaluate(moved, a, d)
        return subject_loss(moved, new_sums), new_sums

    share, sums, used = halve(subject_loss(theta, sums), after_subjects, sums)
    new_theta, passes = theta + share * along_theta, passes + used
    items = jnp.stack([a, d])
    along_items = item_direction(items, sums, prior)

    def after_items(share: Array) -> tuple[Array, CellSums]:
        moved = items + share * along_items
        new_sums = evaluate(new_theta, *moved)
        return item_loss(moved, new_sums), new_sums

    share, sums, used = halve(item_loss(items, sums), after_items, sums)
    point, sums = _slide((new_theta, *(items + share * along_items)), sums, prior)
    loss = sums.subject_loss.sum() + prior.loss(*point)
    return NewtonState(point, sums, loss, passes + used)


def item_direction(
    items: Float[Array, "2 item"], sums: CellSums, prior: WeakPrior
) -> Float[Array, "2 item"]:
    """Return the step from (a, d) to the minimum of each item's quadratic over a ≥ 0."""
    a, d = items
    tiny = jnp.finfo(a.dtype).tiny
    g_a, g_d = sums.a_score - prior.a_precision * a, sums.d_score - prior.d_precision * d
    aa, ad, dd = sums.aa + prior.a_precision, sums.ad, sums.dd + prior.d_precision
    determinant = jnp.maximum(aa * dd - ad**2, tiny)
    step_a = jnp.maximum((dd * g_a - ad * g_d) / determinant, -a)
    step_d = (g_d - ad * step_a) / jnp.maximum(dd, tiny)
    return jnp.stack([step_a, step_d])


def _slide(point: Point, sums: CellSums, prior: WeakPrior) -> tuple[Point, CellSums]:
    """Minimise the prior along θ → s θ + c, which leaves the likelihood unchanged.

    Subjects without answers are not shifted.
    """
    theta, a, d = point
    has_answers = sums.subject_loss > 0
    weight = prior.theta_precision * has_answers.sum() + prior.d_precision * jnp.sum(a**2)
    pull = prior.d_precision * jnp.sum(a * d) - prior.theta_precision * jnp.sum(theta)
    shift = jnp.where(weight > 0, pull / jnp.where(weight > 0, weight, 1), 0)
    theta, d = theta + shift * has_answers, d - a * shift
    of_theta = prior.theta_precision * jnp.sum(theta**2)
    of_a = prior.a_precision * jnp.sum(a**2)
    movable = (of_theta > 0) & (of_a > 0)
    scale = jnp.where(movable, (of_a / jnp.where(movable, of_theta, 1)) ** 0.25, 1)
    return (scale * theta, a / scale, d), same_predictor(sums, scale * shift, scale)

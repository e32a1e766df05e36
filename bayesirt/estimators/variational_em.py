"""Gaussian variational EM for several abilities: the E-step and the iteration that models share.

The posteriors of abilities, and for some models of items, are approximated by the closest normal
distributions. A model defines its parameters, a population of abilities, a prior of items, and an
EM step that consists of `expectation`, `bayesirt.estimators.item_newton.item_step` and the best
populations given both.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.estimators.ability_beliefs import ability_steps, evidence
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.item_newton import (
    ItemEquations,
    item_equations,
    item_step,
    items_loss,
)
from bayesirt.estimators.iteration import Iterations, iterate, squarem_leap
from bayesirt.estimators.normal_beliefs import Beliefs, Items, Normal
from bayesirt.estimators.q_slots import Slots
from bayesirt.kept_programs import kept
from bayesirt.likelihood.cell_sums import DenseLayout

_LEAST_TOLERANCE = 1e-6
_FIRST_LEAP, _SHORTEST_LEAP, _GROWTH = 4.0, 1.5, 2.0
_MOST_RISE = 1.0
"""Largest rise of the loss after which a leap is kept: an early leap that overshoots a little still
saves steps."""

EMStep = Callable[[Any, Any], tuple[Any, ...]]
"""(parameters, beliefs) → parameters after the step, beliefs on their scale, the loss before the
step, and optional further values."""
Mend = Callable[[Any, Any], Any]
"""(parameters before a leap, after it) → valid parameters."""


class Expectation(NamedTuple):
    """Result of the E-step; the bound is on the marginal log likelihood."""

    beliefs: Beliefs
    equations: ItemEquations
    bound: Float[Array, ""]


def expectation(
    layout: DenseLayout,
    items: Items,
    population: Normal,
    beliefs: Beliefs,
    quadrature: Quadrature,
    slots: Slots | None = None,
) -> Expectation:
    """Return the E-step at some parameters, by two Newton steps from the previous abilities.

    With slots, items can be steep, so precisions move only half of the way.
    """
    abilities = ability_steps(
        layout,
        items,
        population,
        beliefs.abilities,
        quadrature,
        unknown=beliefs.unknown,
        half=slots is not None,
    )
    beliefs = beliefs._replace(abilities=abilities)
    equations = item_equations(layout, items, beliefs, quadrature, slots)
    return Expectation(
        beliefs, equations, evidence(abilities, population, equations.of_subjects).sum()
    )


class EMState(NamedTuple):
    """State of the iteration.

    Parameters are unconstrained and exclude those of single subjects. The loss is penalised and is
    that of the parameters before. `longest` is the largest length of a leap, in steps; it grows
    after successful leaps.
    """

    parameters: Any
    beliefs: Beliefs
    loss: Float[Array, ""]
    longest: float


def usual_tolerance(dtype: DTypeLike) -> float:
    """Return 1e-6, or what the number format allows."""
    return max(_LEAST_TOLERANCE, 4 * float(jnp.finfo(dtype).eps))


def climb(
    em: EMStep,
    parameters: Any,
    beliefs: Beliefs,
    *,
    tolerance: float,
    max_iterations: int,
    name: str,
    most_rise: float = np.inf,
    mend: Mend | None = None,
) -> tuple[EMState, Iterations]:
    """Repeat three EM steps until the loss hardly changes."""
    loss = em(parameters, beliefs)[2]
    return iterate(
        partial(_squarem_step, em, mend),
        EMState(parameters, beliefs, loss, _FIRST_LEAP),
        lambda s: s.loss,
        tol=tolerance,
        max_iterations=max_iterations,
        name=name,
        most_rise=most_rise,
    )


def _squarem_step(em: EMStep, mend: Mend | None, state: EMState) -> EMState:
    """Take two EM steps, extrapolate them, and take a third (Varadhan & Roland 2008).

    The leap is kept unless the loss rises by more than 1.
    """
    once, beliefs, *_ = em(state.parameters, state.beliefs)
    twice, beliefs, before, *_ = em(once, beliefs)
    far, length = squarem_leap(state.parameters, once, twice, state.longest)
    settled, leap_beliefs, at_leap, *_ = em(mend(twice, far) if mend else far, beliefs)
    if float(at_leap) <= float(before) + _MOST_RISE:
        longest = state.longest * (1.0 if length < state.longest else _GROWTH)
        return EMState(settled, leap_beliefs, at_leap, longest)
    return EMState(twice, beliefs, before, max(length / 2, _SHORTEST_LEAP))


def _normal_step(
    quadrature: Quadrature,
    layout: DenseLayout,
    items: Items,
    prior: Normal,
    population: Normal,
    beliefs: Beliefs,
) -> tuple[Items, Beliefs, Float[Array, ""]]:
    """Take one EM step of abilities and items, given normal populations of both.

    The returned loss is that before the step, without the prior of the populations.
    """
    now, equations, bound = expectation(layout, items, population, beliefs, quadrature)
    loss = items_loss(items, beliefs.unknown, prior) - bound
    covariance = equations.damped_covariance(prior, beliefs.unknown)
    best = item_step(layout, items.both, prior, now, quadrature, equations)
    return Items.of(best), Beliefs(now.abilities, covariance), loss


normal_step = kept(_normal_step, constants=1)

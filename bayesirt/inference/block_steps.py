"""The steps from which blocked moves are built; each leaves its target density invariant.

Given the items, subjects are independent of each other, and vice versa. So each member of a block
makes a Newton proposal and accepts or rejects it by itself, and one pass over the data serves all
members. Directions that do not change the likelihood, and single numbers that affect many members,
are updated along a line through all parameters.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bayesirt.estimators.symmetric_matrices import Root, root_of
from bayesirt.inference.random_numbers import RandomNumbers

Notes = TypeVar("Notes")

_WIDER, _FEW = 0.35, 4
"""Relative excess of a proposal's variance over the inverse precision, up to so many dimensions.
Otherwise a member in a tail flatter than its normal approximation would make too small steps and
stay there too long. In many dimensions a wide proposal is rejected too often."""
SHORT = 0.3
"""Length of a short step, relative to Newton's step."""
_FURTHEST = 0.8
"""Largest share by which `towards` may reduce a precision in any direction."""
_MODE_STEPS = 5
_LOGISTIC_TO_NORMAL = 0.5875
"""Scale of the logistic distribution closest to the standard normal."""


class Conditional(NamedTuple):
    """Conditional log densities of a block's members at one position, with derivatives."""

    value: Float[Array, " member"]  # Log density of each member given the rest, up to a constant.
    score: Float[Array, "member dim"]  # Its gradient, or a substitute.
    # Positive definite, near the negative second derivative.
    precision: Float[Array, "member dim dim"]


class NewtonProposal(NamedTuple):
    """Proposed positions of the members."""

    position: Float[Array, "member dim"]
    # Log density of the proposal given the current position, up to a constant.
    log_density: Float[Array, " member"]


class NewtonStep(NamedTuple, Generic[Notes]):
    """Result of one step."""

    position: Float[Array, "member dim"]
    accepted: Array  # shape (member,)
    notes: tuple[Notes, Notes]  # Notes of `evaluate` at the old and at the proposed position.


class Chance(NamedTuple):
    """The random numbers of one step."""

    noise: Float[Array, "member dim"]  # Standard normal.
    log_uniform: Float[Array, " member"]  # Logarithms of uniform random numbers.


def chance_for(numbers: RandomNumbers, position: Float[Array, "member dim"]) -> Chance:
    """Draw the random numbers of one step of a block."""
    noise = numbers.normal(position.shape, position.dtype)
    return Chance(noise, log_uniform(numbers, position[:, 0]))


def newton_move(
    chance: Chance,
    position: Float[Array, "member dim"],
    evaluate: Callable[[Float[Array, "member dim"]], tuple[Conditional, Notes]],
    *,
    current: tuple[Conditional, Notes] | None = None,
    gain: Callable[[Notes, Notes], Float[Array, " member"]] | None = None,
) -> NewtonStep[Notes]:
    """Make one Metropolis step of every member of a block at once.

    From x with score g and precision h it proposes x' ~ N(x + h⁻¹g, h⁻¹) and accepts with log ratio
    ℓ(x') - ℓ(x) + log N(x; x' + h'⁻¹g', h'⁻¹) - log N(x'; x + h⁻¹g, h⁻¹). Any g and any positive
    definite h leave exp ℓ invariant; good ones are accepted more often. Proposals whose ratio is
    NaN are rejected. Without `current`, the evaluation at x, both evaluations are made in a loop.
    """
    if current is None:
        (before, old_notes), (after, new_notes), proposal = _both(chance, position, evaluate)
    else:
        before, old_notes = current
        proposal = propose(chance.noise, position, before)
        after, new_notes = evaluate(proposal.position)
    ratio = after.value - before.value + log_return(position, proposal, after)
    if gain is not None:
        ratio += gain(old_notes, new_notes)
    accepted = chance.log_uniform < ratio
    moved = choose(accepted, proposal.position, position)
    return NewtonStep(moved, accepted, (old_notes, new_notes))


def _both(
    chance: Chance,
    position: Float[Array, "member dim"],
    evaluate: Callable[[Float[Array, "member dim"]], tuple[Conditional, Notes]],
) -> tuple[tuple[Conditional, Notes], tuple[Conditional, Notes], NewtonProposal]:
    """Return evaluations at the position and at a proposal; in a loop they are compiled once."""

    def advance(position: Array, _: None) -> tuple[Array, Any]:
        evaluated = evaluate(position)
        proposal = propose(chance.noise, position, evaluated[0])
        return proposal.position, (evaluated, proposal)

    evaluated, proposals = jax.lax.scan(advance, position, length=2)[1]
    first, second = (jax.tree.map(lambda x, k=k: x[k], evaluated) for k in range(2))
    return first, second, jax.tree.map(lambda x: x[0], proposals)


def shortened(conditional: Conditional, shares: Float[Array, " member"]) -> Conditional:
    """Modify a conditional such that `newton_move` proposes short steps, with less noise.

    Score g / (2 - ε) and precision h / (2ε - ε²) propose N(x + ε h⁻¹g, (2ε - ε²) h⁻¹), which leaves
    a normal density invariant. If a density is far from normal, full steps may hardly ever leave
    its tail; short ones do.
    """
    complement = (2 - shares)[:, None]
    score, precision = conditional.score / complement, conditional.precision
    return conditional._replace(
        score=score, precision=precision / (shares[:, None] * complement)[:, :, None]
    )


def newton_step(conditional: Conditional) -> Float[Array, "member dim"]:
    """Return Newton's step h⁻¹g of each member."""
    root = root_of(conditional.precision)
    return root.solve_transposed(root.solve(conditional.score))


def towards(precision: Float[Array, "member dim dim"], other: Array) -> Array:
    """Move a precision towards another as far as it is sure to stay positive definite."""
    root, difference = root_of(precision), other - precision
    for _ in range(2):
        difference = jax.vmap(root.solve, -1, -2)(difference)
    size = jnp.sqrt((difference**2).sum((-2, -1), keepdims=True))
    return precision + jnp.minimum(1, _FURTHEST / size) * (other - precision)


def propose(
    noise: Float[Array, "member dim"],
    position: Float[Array, "member dim"],
    conditional: Conditional,
) -> NewtonProposal:
    """Return each member's proposal for the given standard normal noise."""
    root = root_of(conditional.precision)
    noise = _width(noise) ** 0.5 * noise
    step = root.solve_transposed(root.solve(conditional.score) + noise)
    return NewtonProposal(position + step, _log_normal(root, noise))


def log_return(
    position: Float[Array, "member dim"], proposal: NewtonProposal, proposed: Conditional
) -> Float[Array, " member"]:
    """Return log N(x; x' + h'⁻¹g', h'⁻¹) - log N(x'; x + h⁻¹g, h⁻¹) of each member."""
    root = root_of(proposed.precision)
    back = root.times_transposed(position - proposal.position) - root.solve(proposed.score)
    return _log_normal(root, back) - proposal.log_density


def normal_draw(
    numbers: RandomNumbers,
    log_density: Callable[[Float[Array, "..."]], Float[Array, "..."]],
    here: Array,
) -> Float[Array, "..."]:
    """Draw exactly from quadratic log densities: a Gibbs step."""
    slope, curvature = derivatives(log_density, here)
    noise = numbers.normal(here.shape, here.dtype)
    return here - slope / curvature + noise / jnp.sqrt(-curvature)


def joint_normal_draw(
    numbers: RandomNumbers, score: Float[Array, " dim"], precision: Float[Array, "dim dim"]
) -> Float[Array, " dim"]:
    """Draw a step from a multivariate normal density: a Gibbs step."""
    root = root_of(precision)
    noise = numbers.normal(score.shape, score.dtype)
    return root.solve_transposed(root.solve(score) + noise)


def quadratic_draw(
    numbers: RandomNumbers, log_density: Callable[[Array], Array], like: Float[Array, " dim"]
) -> Float[Array, " dim"]:
    """Draw a step from a quadratic log density of a vector: a Gibbs step."""
    origin = jnp.zeros_like(like)
    score, curvature = jax.grad(log_density)(origin), jax.hessian(log_density)(origin)
    return joint_normal_draw(numbers, score, -curvature)


def log_concave_move(
    numbers: RandomNumbers,
    log_density: Callable[[Float[Array, "..."]], Float[Array, "..."]],
    origin: Float[Array, "..."],
) -> tuple[Float[Array, "..."], Array]:
    """Make a Metropolis step along lines with strictly log-concave densities.

    The proposal does not depend on the current position. It is a logistic distribution about the
    mode; its tails are heavier than the density's, so that the chain does not get stuck.
    """
    above, below, chance = numbers.exponential((3, *origin.shape), origin.dtype)

    def to_the_mode(_: int, found: tuple[Array, Array]) -> tuple[Array, Array]:
        slope, curvature = derivatives(log_density, found[0])
        return found[0] - slope / curvature, curvature

    mode, curvature = jax.lax.fori_loop(0, _MODE_STEPS, to_the_mode, (origin, origin))
    scale = _LOGISTIC_TO_NORMAL / jnp.sqrt(-curvature)
    proposal = mode + scale * (jnp.log(above) - jnp.log(below))

    def log_weight(t: Array) -> Array:
        return log_density(t) - _log_logistic((t - mode) / scale)

    new_weight, old_weight = jax.vmap(log_weight)(jnp.stack([proposal, jnp.zeros_like(mode)]))
    ratio = new_weight - old_weight
    accepted = -chance < ratio
    return jnp.where(accepted, proposal, 0), accepted


def newton_line_move(
    numbers: RandomNumbers,
    log_density: Callable[[Float[Array, ""]], Float[Array, ""]],
    least: float,
) -> tuple[Float[Array, ""], Array]:
    """Make one Newton-Metropolis step along a line; the density need not be log-concave."""
    present = jnp.zeros((1, 1))

    def evaluate(position: Array) -> tuple[Conditional, None]:
        t = position[0, 0]
        slope, curvature = derivatives(log_density, t)
        precision = jnp.maximum(-curvature, least)
        return Conditional(
            log_density(t)[None], slope[None, None], precision[None, None, None]
        ), None

    step = newton_move(chance_for(numbers, present), present, evaluate)
    return step.position[0, 0], step.accepted[0]


def follow_trajectory(
    numbers: RandomNumbers,
    here: Float[Array, " dim"],
    log_density: Callable[[Array], Array],
    *,
    step: float | Array,
    n_steps: int,
) -> tuple[Float[Array, " dim"], Bool[Array, ""]]:
    """Make one Hamiltonian Monte Carlo step with unit masses.

    Duane et al. 1987; Neal 2011.
    """
    ascend = jax.value_and_grad(log_density)
    size = step * (1 + numbers.uniform((), here.dtype)) / 2
    momentum = numbers.normal(here.shape, here.dtype)
    before, slope = ascend(here)

    def leap(_: Array | int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        position, momentum, _, slope = state
        momentum += size / 2 * slope
        position = position + size * momentum
        value, slope = ascend(position)
        return position, momentum + size / 2 * slope, value, slope

    start = (here, momentum, before, slope)
    end, arrived, after, _ = jax.lax.fori_loop(0, n_steps, leap, start)
    ratio = after - before + ((momentum**2).sum() - (arrived**2).sum()) / 2
    accepted = log_uniform(numbers, ratio) < ratio
    return jnp.where(accepted, end, here), accepted


def derivatives(
    log_density: Callable[[Float[Array, "..."]], Float[Array, "..."]], t: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Return first and second derivatives of an elementwise function."""
    ones = jnp.ones_like(t)

    def slope(t: Array) -> Array:
        return jax.jvp(log_density, (t,), (ones,))[1]

    return jax.jvp(slope, (t,), (ones,))


def log_uniform(numbers: RandomNumbers, like: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return finite logarithms of uniform draws with an array's shape and dtype."""
    return -numbers.exponential(like.shape, like.dtype)


def choose(accepted: Array, proposed: Array, current: Array) -> Array:
    """Return the proposed members where accepted, else the current ones."""
    chosen = accepted.reshape(accepted.shape + (1,) * (proposed.ndim - accepted.ndim))
    return jnp.where(chosen, proposed, current)


def _log_logistic(t: Array) -> Array:
    return -t - 2 * jax.nn.softplus(-t)


def _log_normal(root: Root, whitened: Array) -> Array:
    return root.log_determinant() - 0.5 / _width(whitened) * (whitened**2).sum(-1)


def _width(noise: Array) -> float:
    return 1 + _WIDER * _FEW / max(noise.shape[-1], _FEW)

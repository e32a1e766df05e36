"""The moves of the blocked kernel for every response model: blocks, populations and lines.

Priors are evaluated from the NumPyro model alone: log densities site by site, and derivatives by
automatic differentiation. So the same moves sample every model with every option. A model may add
further moves (`TwoWay.own_moves`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import (
    SHORT,
    Conditional,
    chance_for,
    choose,
    log_concave_move,
    log_uniform,
    newton_line_move,
    newton_move,
    newton_step,
    quadratic_draw,
    shortened,
    towards,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.subject_moves import move_subjects
from bayesirt.inference.two_way import TwoWay
from bayesirt.likelihood.passes import ItemSums, Passes
from bayesirt.models import Line

_LOG_SIGMA_PRECISION = 1.0
"""Least precision of the proposal for log σ, as its log density has no curvature towards -∞."""
_FEW_SHORT = 0.25
"""Proportion of items that take short steps, if the model uses them."""
_FARTHEST = 1.5
"""Largest Newton step for which the information halfway is evaluated."""
_LEAST_OF_A_SUBJECT = 0.25
"""Least precision, per subject, of the proposal along a line that is not normal."""


def moves_of(way: TwoWay, data: Any, *, dtype: DTypeLike = jnp.float32) -> list[Move]:
    """Return the moves of one sweep over a model's posterior."""
    before, after = way.own_moves(data, dtype)
    return [*before, partial(move_blocks, way, data, dtype), *after, *population_moves(way)]


def population_moves(way: TwoWay) -> list[Move]:
    """Return the moves that do not depend on any observed data."""
    lines: list[Move] = [
        partial(move_along, way, line) for line in way.model.lines if not line.normal
    ]
    return [partial(draw_centres, way), partial(move_spreads, way), *lines]


def move_blocks(
    way: TwoWay, data: Any, dtype: DTypeLike, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move all subjects, then all items, then (for some models) hyperparameters with the items.

    The statistics are acceptance rates and the log likelihood of the answers.
    """
    passes = way.passes(data, sites, dtype)
    theta, items = way.theta(sites), way.coefficients_of(sites)
    chance, normals = chance_for(numbers, theta), way.normals(sites, data)
    step = move_subjects(passes, chance, theta, items, normals)
    sites = way.after_subjects(numbers, way.with_theta(sites, step.theta), data)
    statistics = {"acceptance_theta": step.accepted.mean(dtype=theta.dtype)}
    sites, sums, statistics["acceptance_items"] = move_items(
        way, passes, numbers, sites, step.sums, _shares(way, numbers, sites)
    )
    if way.interweaves:
        sites, sums, statistics["acceptance_interweaving"] = move_with_items(
            way, passes, numbers, sites, sums
        )
    return sites, statistics | {"log_likelihood": sums.log_likelihood.sum()}


def _shares(way: TwoWay, numbers: RandomNumbers, sites: Position) -> Float[Array, " item"] | None:
    """Return the length of each item's step relative to Newton's, if some are short."""
    if not way.short_steps:
        return None
    short = numbers.uniform(sites["d"].shape, sites["d"].dtype) <= _FEW_SHORT
    return jnp.where(short, SHORT, jnp.ones((), sites["d"].dtype))


def move_items(
    way: TwoWay,
    passes: Passes,
    numbers: RandomNumbers,
    sites: Position,
    sums: ItemSums,
    shares: Float[Array, " item"] | None = None,
) -> tuple[Position, ItemSums, Array]:
    """Move every item; if a factor involves all items, accept or reject all of them together.

    With one ability, the precision of a proposal is about that halfway along Newton's step, as for
    subjects. The steps of single items are reversible for the density without the common factors,
    so they serve as a proposal for the density with them; the acceptance ratio is that of the
    factors. With pivots, the coordinates are the log slope and the intercept at the pivot.
    """
    items, pivots = way.packed(sites), way.pivots(passes, sites)

    def coefficients(place: Array) -> Array:
        return way.coefficients(sites, _from_pivots(place, pivots))

    def at(place: Array, sums: ItemSums) -> Conditional:
        density = item_conditional(way, sites, _from_pivots(place, pivots), sums)
        if pivots is None:
            return density
        axes = jnp.eye(place.shape[1], dtype=place.dtype)
        turn = _slopes_along_axes(axes, partial(_from_pivots, pivots=pivots), place)
        return Conditional(
            density.value, _chained(turn, density.score), _sandwich(turn, density.precision)
        )

    def conditional(place: Array, sums: ItemSums) -> Conditional:
        density = at(place, sums)
        if sums.information_slope is not None:
            half = place + jnp.clip(newton_step(density), -_FARTHEST, _FARTHEST) / 2
            change = (coefficients(half) - coefficients(place))[:, :2]
            growth = (sums.information_slope * change[:, None, None]).sum(-1)
            grown = sums.information.at[:, :2, :2].add(growth)
            half_precision = at(half, sums._replace(information=grown)).precision
            density = density._replace(precision=towards(density.precision, half_precision))
        return density if shares is None else shortened(density, shares)

    def evaluate(place: Array) -> tuple[Conditional, ItemSums]:
        new_sums = passes.item_sums(way.theta(sites), coefficients(place))
        return conditional(place, new_sums), new_sums

    place = _to_pivots(items, pivots)
    step = newton_move(
        way.chance(numbers, items), place, evaluate, current=(conditional(place, sums), sums)
    )
    to = choose(step.accepted, _from_pivots(step.position, pivots), items)
    moved = sites | way.unpacked(sites, to)
    ratio = way.terms(moved).common - way.terms(sites).common
    accepted = step.accepted & (log_uniform(numbers, ratio) < ratio)
    sums = jax.tree.map(partial(choose, accepted), step.notes[1], step.notes[0])
    moved = sites | way.unpacked(sites, choose(accepted, to, items))
    return moved, sums, accepted.mean(dtype=items.dtype)


def _to_pivots(items: Array, pivots: Array | None) -> Array:
    """Replace intercepts, which follow log slopes, by those at pivots; this keeps the volume."""
    return items if pivots is None else _from_pivots(items, -pivots)


def _from_pivots(place: Array, pivots: Array | None) -> Array:
    if pivots is None:
        return place
    is_intercept = jnp.arange(place.shape[1]) == 1
    return place - is_intercept * (jnp.exp(place[:, 0]) * pivots)[:, None]


def item_conditional(
    way: TwoWay, sites: Position, items: Float[Array, "item dim"], sums: ItemSums
) -> Conditional:
    """Return each item's conditional log density, score and precision, given hyperparameters.

    The precision is JᵀIJ for the Jacobian J of the coefficients, plus the precision of the priors,
    which are normal in the standardised values.
    """
    along = partial(_slopes_along_axes, jnp.eye(items.shape[1], dtype=items.dtype))
    jacobian = along(partial(way.coefficients, sites), items)
    slope = along(partial(way.of_items, sites), items)
    standard = along(partial(way.standard_items, sites), items)
    of_prior = jnp.moveaxis((standard[:, None] * standard).sum(2), -1, 0)
    least = jnp.finfo(items.dtype).eps * jnp.eye(items.shape[1], dtype=items.dtype)
    jacobian = jacobian[..., : sums.score.shape[-1]]  # without coefficients that are held fixed
    value = sums.log_likelihood + way.of_items(sites, items)
    return Conditional(
        value,
        _chained(jacobian, sums.score) + slope.T,
        _sandwich(jacobian, sums.information) + of_prior + least,
    )


def carried(
    way: TwoWay, sites: Position, hyper: Float[Array, " hyper"], names: Sequence[str] = ()
) -> tuple[Position, Array]:
    """Change hyperparameters and move items along; return the sites and the log Jacobian.

    Each item keeps its standardised value. The names default to `TwoWay.hyper_sites`.
    """
    names = names or way.hyper_sites(sites)
    moved = sites | dict(zip(names, hyper, strict=True))
    log_jacobian = jnp.zeros((), hyper.dtype)
    for name in sorted(way.populations(sites)):  # slopes before intercepts, which lean on them
        if f"sigma_{name}" in names:
            growth = moved[f"sigma_{name}"] - sites[f"sigma_{name}"]
            deviations = sites[name] - way.centre(sites, name)
            moved = moved | {name: way.centre(moved, name) + jnp.exp(growth) * deviations}
            log_jacobian += len(sites[name]) * growth
    return moved, log_jacobian


def move_with_items(
    way: TwoWay, passes: Passes, numbers: RandomNumbers, sites: Position, sums: ItemSums
) -> tuple[Position, ItemSums, Array]:
    """Move the hyperparameters and carry the items along, as `carried` does.

    The Jacobian cancels the change of the items' prior density, so that only the likelihood, the
    priors of the hyperparameters and common factors remain.
    """
    names = way.hyper_sites(sites)
    old_hyper = jnp.stack([sites[name] for name in names])[None]
    axes = jnp.eye(old_hyper.shape[1], dtype=old_hyper.dtype)
    eps = jnp.finfo(old_hyper.dtype).eps
    spread = [name.startswith("sigma") for name in names]
    least = jnp.where(jnp.array(spread), _LOG_SIGMA_PRECISION, eps).astype(old_hyper.dtype)

    def coefficients(hyper: Array) -> Array:
        return way.coefficients_of(carried(way, sites, hyper[0])[0])

    def log_prior(hyper: Array) -> Array:
        terms = way.terms(carried(way, sites, hyper[0])[0])
        return sum((terms.each[name] for name in names), terms.common)

    def conditional(hyper: Array, sums: ItemSums) -> Conditional:
        jacobian = _slopes_along_axes(axes, coefficients, hyper)[..., : sums.score.shape[-1]]
        slope, curvature = _derivatives_along_axes(axes, log_prior, hyper)
        score = jnp.tensordot(jacobian, sums.score, 2) + slope
        half = _half_of(jacobian, sums.information)
        learnt = (half[:, None] * jacobian).sum((2, 3))  # faster than a matrix product
        precision = learnt + jnp.diag(jnp.maximum(-curvature, least))
        return Conditional(log_prior(hyper)[None], score[None], precision[None])

    def evaluate(hyper: Array) -> tuple[Conditional, ItemSums]:
        new_sums = passes.item_sums(way.theta(sites), coefficients(hyper))
        return conditional(hyper, new_sums), new_sums

    def gain(old: ItemSums, new: ItemSums) -> Array:
        return (new.log_likelihood - old.log_likelihood).sum()[None]

    current = conditional(old_hyper, sums), sums
    chance = chance_for(numbers, old_hyper)
    step = newton_move(chance, old_hyper, evaluate, current=current, gain=gain)
    sums = jax.tree.map(partial(jnp.where, step.accepted[0]), step.notes[1], step.notes[0])
    return carried(way, sites, step.position[0])[0], sums, step.accepted[0].astype(old_hyper.dtype)


def draw_centres(
    way: TwoWay, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Draw the means and regression coefficients of populations, and the levels of subjects.

    All are jointly normal given the rest: a Gibbs step.
    """
    names, levels = way.means(sites), [line for line in way.model.lines if line.normal]
    steps = {name: jnp.zeros_like(sites[name]) for name in names}
    steps |= {line.name: jnp.zeros(line.shape, sites["theta"].dtype) for line in levels}
    if not steps:
        return sites, {}
    origin, unravel = ravel_pytree(steps)

    def moved(t: Array) -> Position:
        step = unravel(t)
        new_sites = sites | {name: sites[name] + step[name] for name in names}
        for line in levels:
            new_sites = way.along(line, new_sites, step[line.name])[0]
        return new_sites

    def log_density(t: Array) -> Array:
        return way.terms(moved(t)).total()

    return moved(quadratic_draw(numbers, log_density, origin)), {}


def move_spreads(
    way: TwoWay, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move log σ of each population given its values and centre."""
    names = way.spreads(sites)
    if not names:
        return sites, {}

    def moved(t: Array) -> Position:
        return sites | {f"sigma_{x}": sites[f"sigma_{x}"] + t[k] for k, x in enumerate(names)}

    def log_density(t: Array) -> Array:
        terms = way.terms(moved(t)).each
        return jnp.stack([terms[name].sum() + terms[f"sigma_{name}"] for name in names])

    variances = [jnp.mean((sites[x] - way.centre(sites, x)) ** 2) for x in names]
    origin = [0.5 * jnp.log(s) - sites[f"sigma_{x}"] for s, x in zip(variances, names, strict=True)]
    t, accepted = log_concave_move(numbers, log_density, jnp.stack(origin))
    return moved(t), {"acceptance_sigma": accepted.mean(dtype=t.dtype)}


def move_along(
    way: TwoWay, line: Line, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Move along a line on which no predictor changes, so that only priors matter."""

    def log_density(t: Array) -> Array:
        moved, log_jacobian = way.along(line, sites, t)
        return way.terms(moved).total() + log_jacobian

    least = _LEAST_OF_A_SUBJECT * len(sites["theta"])
    t, accepted = newton_line_move(numbers, log_density, least)
    return way.along(line, sites, t)[0], {f"acceptance_{line.name}": accepted.astype(t.dtype)}


def _slopes_along_axes(
    axes: Array, function: Callable[[Array], Array], values: Float[Array, "member dim"]
) -> Array:
    """Return first derivatives along each axis, in a leading dimension."""

    def along(axis: Array) -> Array:
        return jax.jvp(function, (values,), (jnp.broadcast_to(axis, values.shape),))[1]

    return jax.vmap(along)(axes)


def _derivatives_along_axes(
    axes: Array, function: Callable[[Array], Array], values: Float[Array, "member dim"]
) -> tuple[Array, Array]:
    """Return first and second derivatives along each axis, in a leading dimension."""

    def along(axis: Array) -> tuple[Array, Array]:
        tangent = (jnp.broadcast_to(axis, values.shape),)
        return jax.jvp(lambda v: jax.jvp(function, (v,), tangent)[1], (values,), tangent)

    return jax.vmap(along)(axes)


def _chained(
    jacobian: Float[Array, "dim item coefficient"], score: Float[Array, "item coefficient"]
) -> Array:
    """Return Jᵀ s of each item, shape (item, dim)."""
    return (jacobian * score).sum(-1).T


def _sandwich(
    jacobian: Float[Array, "dim item coefficient"],
    information: Float[Array, "item coefficient coefficient"],
) -> Array:
    """Return JᵀIJ of each item, shape (item, dim, dim)."""
    half = _half_of(jacobian, information)
    return jnp.moveaxis((half[:, None] * jacobian).sum(-1), -1, 0)


def _half_of(jacobian: Array, information: Array) -> Float[Array, "dim item coefficient"]:
    """Return JᵀI of each item."""
    return (information * jacobian[:, :, None, :]).sum(-1)

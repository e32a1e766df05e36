"""The moves of the 2PL for the blocked kernel: blocks, hyperparameters, and what η cannot see.

Priors come from the NumPyro model alone: log densities site by site, derivatives by automatic
differentiation, so that every option of `Priors` is sampled by the same moves.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import (
    Conditional,
    chance_for,
    choose,
    joint_normal_draw,
    log_concave_move,
    log_uniform,
    newton_move,
    normal_draw,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.cluster_moves import ClusteredPrior, cluster_moves, two_pl_prior
from bayesirt.inference.row_shards import RowShards
from bayesirt.inference.two_pl_passes import ItemSums, OfItems, Passes
from bayesirt.inference.two_pl_sites import (
    AnswersPrior,
    TwoPLPrior,
    carried,
    hierarchical_sites,
    leans,
    scaled,
    shifted,
)
from bayesirt.likelihood import Layout
from bayesirt.models import TWO_PL, Priors, ResponseModel

Line = Callable[[Any, Position, Array], tuple[Position, Array]]
ItemConditional = Callable[[Any, Position, Array, ItemSums], Conditional]

_LOG_SIGMA_PRECISION = 1.0
"""Least precision of a proposed log σ: its prior is flat towards 0, where σ says nothing more."""
_OVER = 0.01


def two_pl_moves(
    layout: Layout | RowShards,
    priors: Priors,
    *,
    clusters: tuple[int, ...] = (),
    model: ResponseModel = TWO_PL,
    interweave: bool = True,
    dtype: DTypeLike = jnp.float32,
) -> list[Move]:
    """Return the moves of one sweep over the posterior of a model of one ability.

    Parameters
    ----------
    layout : Layout or RowShards
    priors : Priors
    clusters : tuple of int
        Position of each subject's cluster; empty where subjects do not come in clusters.
    model : ResponseModel
    interweave : bool
        Also move the hyperparameters with the items' standardised values held, which pays where
        an item's responses say less about it than the other items do: with 25 subjects it gives
        16 times the effective draws of σ_a. It costs one evaluation of the data more than three.
    dtype : dtype
        Of what is computed for each cell of a matrix.

    Returns
    -------
    list of callables
        Each (key, position) → (position, statistics).
    """
    prior = two_pl_prior(priors, clusters, model)
    hierarchical = priors.kind == "hierarchical"
    passes = Passes(layout, model.family, dtype)
    moves = cluster_moves(prior, passes) if isinstance(prior, ClusteredPrior) else []
    moves.append(partial(move_blocks, prior, passes, interweave=interweave and hierarchical))
    if hierarchical:
        moves += [partial(draw_means, prior), partial(move_spreads, prior)]
    moves.append(partial(draw_shift, prior))
    if priors.slopes != "rasch":
        moves.append(partial(move_scale, prior))
    return moves


def move_blocks(
    prior: AnswersPrior, passes: Passes, key: Array, sites: Position, *, interweave: bool
) -> tuple[Position, Statistics]:
    """Move all subjects, then all items, then perhaps the hyperparameters with the items.

    Parameters
    ----------
    prior : AnswersPrior
    passes : Passes
    key : jax.random.key
    sites : dict of float arrays
    interweave : bool

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Shares accepted, and the log likelihood.
    """
    keys = jax.random.split(key, 3)
    a, d, *further = prior.coefficients(sites, prior.packed(sites)).T
    chance = chance_for(keys[0], sites["theta"][:, None])
    log_prior = jax.tree_util.Partial(prior.of_theta, sites)
    own = prior.own_of_subjects(sites)
    step = passes.move_subjects(chance, sites["theta"], a, d, log_prior, own, tuple(further))
    sites = sites | {"theta": step.theta}
    statistics = {"acceptance_theta": step.accepted.mean(dtype=step.theta.dtype)}
    sites, sums, statistics["acceptance_items"] = move_items(
        prior, passes, keys[1], sites, step.sums
    )
    if interweave:
        sites, sums, statistics["acceptance_interweaving"] = move_with_items(
            prior, passes, keys[2], sites, sums
        )
    return sites, statistics | {"log_likelihood": sums.log_likelihood.sum()}


def move_items(
    prior: AnswersPrior,
    passes: OfItems,
    key: Array,
    sites: Position,
    sums: ItemSums,
    *,
    conditional: ItemConditional | None = None,
) -> tuple[Position, ItemSums, Array]:
    """Move every item; all of them or none where a factor ties them together.

    `conditional` is by default `item_conditional`, which suits priors whose precision is diagonal.
    Steps of single items are reversible for the density without the common factors, so they
    are a proposal for the density with them, and only the factors' ratio is left to check.
    """
    step_key, common_key = jax.random.split(key)
    conditional = conditional or item_conditional

    def evaluate(items: Array) -> tuple[Conditional, ItemSums]:
        found = passes.item_sums(sites["theta"], prior.coefficients(sites, items))
        return conditional(prior, sites, items, found), found

    items = prior.packed(sites)
    current = conditional(prior, sites, items, sums), sums
    chance = prior.chance(step_key, items)
    step = newton_move(chance, items, evaluate, current=current)
    moved = sites | prior.unpacked(sites, step.position)
    ratio = prior.terms(moved).common - prior.terms(sites).common
    accepted = step.accepted & (log_uniform(common_key, ratio) < ratio)
    sums = jax.tree.map(partial(choose, accepted), step.notes[1], step.notes[0])
    moved = sites | prior.unpacked(sites, choose(accepted, step.position, items))
    return moved, sums, accepted.mean(dtype=items.dtype)


def item_conditional(
    prior: AnswersPrior, sites: Position, items: Float[Array, "item dim"], sums: ItemSums
) -> Conditional:
    """Return what each item knows about its own unconstrained sites.

    Parameters
    ----------
    prior : AnswersPrior
    sites : dict of float arrays
        With the hyperparameters.
    items : float array, shape (item, dim)
    sums : ItemSums
        At these items.

    Returns
    -------
    Conditional
        The precision is JᵀIJ for the Jacobian J of (a, d), with the prior's own.
    """
    along = partial(_derivatives_along_axes, jnp.eye(items.shape[1], dtype=items.dtype))
    jacobian, _ = along(partial(prior.coefficients, sites), items)
    slope, curvature = along(partial(prior.of_items, sites), items)
    of_prior = _diagonal(curvature)
    if leans(sites):
        both = jnp.ones((1, items.shape[1]), items.dtype)
        _, together = _derivatives_along_axes(both, partial(prior.of_items, sites), items)
        of_prior = _with_lean(curvature, (curvature.sum(0) - together[0]) / 2)
    precision = _sandwich(jacobian, sums.information) + of_prior
    value = sums.log_likelihood + prior.of_items(sites, items)
    return Conditional(value, _chained(jacobian, sums.score) + slope.T, precision)


def move_with_items(
    prior: AnswersPrior, passes: OfItems, key: Array, sites: Position, sums: ItemSums
) -> tuple[Position, ItemSums, Array]:
    """Move the hyperparameters and carry the items along, as `carried` does."""
    names = prior.hyper_sites(sites)
    here = jnp.stack([sites[name] for name in names])[None]
    axes = jnp.eye(here.shape[1], dtype=here.dtype)
    eps = jnp.finfo(here.dtype).eps
    spread = [name.startswith("sigma") for name in names]
    least = jnp.where(jnp.array(spread), _LOG_SIGMA_PRECISION, eps).astype(here.dtype)

    def coefficients(hyper: Array) -> Array:
        moved = carried(prior, sites, hyper[0])[0]
        return prior.coefficients(moved, prior.packed(moved))

    def log_prior(hyper: Array) -> Array:
        moved, log_jacobian = carried(prior, sites, hyper[0])
        return prior.terms(moved).total() + log_jacobian

    def conditional(hyper: Array, sums: ItemSums) -> Conditional:
        jacobian, _ = _derivatives_along_axes(axes, coefficients, hyper)
        slope, curvature = _derivatives_along_axes(axes, log_prior, hyper)
        score = _chained(jacobian, sums.score).sum(0) + slope
        precision = _sandwich(jacobian, sums.information).sum(0) + _diagonal(curvature, least)
        return Conditional(log_prior(hyper)[None], score[None], precision[None])

    def evaluate(hyper: Array) -> tuple[Conditional, ItemSums]:
        found = passes.item_sums(sites["theta"], coefficients(hyper))
        return conditional(hyper, found), found

    def gain(old: ItemSums, new: ItemSums) -> Array:
        return (new.log_likelihood - old.log_likelihood).sum()[None]

    current = conditional(here, sums), sums
    step = newton_move(chance_for(key, here), here, evaluate, current=current, gain=gain)
    sums = jax.tree.map(partial(jnp.where, step.accepted[0]), step.notes[1], step.notes[0])
    return carried(prior, sites, step.position[0])[0], sums, step.accepted[0].astype(here.dtype)


def draw_means(
    prior: AnswersPrior, key: Array, sites: Position, *, names: Sequence[str] | None = None
) -> tuple[Position, Statistics]:
    """Draw μ of sites given their values: a Gibbs step, as all is normal.

    Parameters
    ----------
    prior : AnswersPrior
    key : jax.random.key
    sites : dict of float arrays
    names : sequence of str, optional
        Of the sites; by default slopes and intercepts.

    Returns
    -------
    sites : dict of float arrays
    statistics : dict
        Empty.
    """
    names = names or hierarchical_sites(sites)
    if leans(sites):
        key, lean_key = jax.random.split(key)
        sites = _draw_lean(prior, lean_key, sites)
        names = [name for name in names if name != "d"]

    def moved(t: Array) -> Position:
        return sites | {f"mu_{name}": sites[f"mu_{name}"] + t[k] for k, name in enumerate(names)}

    def log_density(t: Array) -> Array:
        own = prior.terms(moved(t)).each
        return jnp.stack([own[name].sum() + own[f"mu_{name}"] for name in names])

    present = jnp.zeros(len(names), sites["theta"].dtype)
    return moved(normal_draw(key, log_density, present)), {}


def _draw_lean(prior: AnswersPrior, key: Array, sites: Position) -> Position:
    """Draw where intercepts have their centre, and how it leans on slopes: μ_d and μ_b."""

    def moved(t: Array) -> Position:
        return sites | {"mu_d": sites["mu_d"] + t[0], "mu_b": sites["mu_b"] + t[1]}

    def log_density(t: Array) -> Array:
        own = prior.terms(moved(t)).each
        return own["d"].sum() + own["mu_d"] + own["mu_b"]

    here = jnp.zeros(2, sites["theta"].dtype)
    score, curvature = jax.grad(log_density)(here), jax.hessian(log_density)(here)
    return moved(joint_normal_draw(key, score, -curvature))


def move_spreads(
    prior: AnswersPrior, key: Array, sites: Position, *, names: Sequence[str] | None = None
) -> tuple[Position, Statistics]:
    """Move log σ of sites given their values and μ; parameters are those of `draw_means`."""
    names = names or hierarchical_sites(sites)

    def moved(t: Array) -> Position:
        return sites | {
            f"sigma_{name}": sites[f"sigma_{name}"] + t[k] for k, name in enumerate(names)
        }

    def log_density(t: Array) -> Array:
        own = prior.terms(moved(t)).each
        return jnp.stack([own[name].sum() + own[f"sigma_{name}"] for name in names])

    observed = [0.5 * jnp.log(jnp.mean((sites[x] - prior.centre(sites, x)) ** 2)) for x in names]
    origin = jnp.stack([o - sites[f"sigma_{x}"] for o, x in zip(observed, names, strict=True)])
    t, accepted = log_concave_move(key, log_density, origin)
    return moved(t), {"acceptance_sigma": accepted.mean(dtype=t.dtype)}


def draw_shift(
    prior: AnswersPrior, key: Array, sites: Position, *, line: Line = shifted
) -> tuple[Position, Statistics]:
    """Draw a place on a line along which all is normal and no response sees a difference.

    Parameters
    ----------
    prior : AnswersPrior
    key : jax.random.key
    sites : dict of float arrays
    line : callable
        (prior, sites, t) → (sites, log Jacobian); by default along the abilities' common level.

    Returns
    -------
    sites : dict of float arrays
    statistics : dict
        Empty.
    """

    def log_density(t: Array) -> Array:
        return prior.terms(line(prior, sites, t)[0]).total()

    t = normal_draw(key, log_density, jnp.zeros((), sites["theta"].dtype))
    return line(prior, sites, t)[0], {}


def move_scale(prior: TwoPLPrior, key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Move the common spread of abilities, which η does not see."""

    def log_density(t: Array) -> Array:
        moved, log_jacobian = scaled(prior, sites, t)
        return prior.terms(moved).total() + log_jacobian

    origin = -0.5 * jnp.log(jnp.mean(sites["theta"] ** 2))
    t, accepted = log_concave_move(key, log_density, origin)
    return scaled(prior, sites, t)[0], {"acceptance_scale": accepted.astype(t.dtype)}


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
    half = (information * jacobian[:, :, None, :]).sum(-1)
    return jnp.moveaxis((half[:, None] * jacobian).sum(-1), -1, 0)


def _with_lean(
    curvature: Float[Array, "dim item"], mixed: Float[Array, " item"]
) -> Float[Array, "item dim dim"]:
    """Return the prior's precision of slope and intercept, of which one leans on the other.

    `mixed` is the entry beside the diagonal. The slope's own precision is no less than what its
    lean on the intercept makes of it, so the matrix is positive definite.
    """
    eps = jnp.finfo(curvature.dtype).eps
    of_d = jnp.maximum(-curvature[1], eps)
    of_a = jnp.maximum(-curvature[0], mixed**2 / of_d * (1 + _OVER) + eps)
    precision = _diagonal(jnp.stack([-of_a, -of_d, *curvature[2:]]))
    return precision.at[:, 0, 1].set(mixed).at[:, 1, 0].set(mixed)


def _diagonal(
    curvature: Float[Array, "dim ..."], least: Float[Array, " dim"] | None = None
) -> Array:
    """Return the prior's precision as diagonal matrices, never below the least."""
    if least is None:
        least = jnp.full_like(curvature, jnp.finfo(curvature.dtype).eps)
    precision = jnp.maximum(-curvature, least)
    return jnp.moveaxis(precision, 0, -1)[..., None] * jnp.eye(
        len(precision), dtype=precision.dtype
    )

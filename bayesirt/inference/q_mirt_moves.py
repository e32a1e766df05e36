"""The moves of the Q-matrix model for the blocked kernel.

Subjects move with all their abilities at once, items with all their discriminations. What no
response sees - the level and the spread of each ability - is moved with everything that keeps the
predictors. Correlations move twice: given the abilities, along trajectories that cost no pass over
the data, and with the abilities, which pays where few items say little of each.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array

from bayesirt.families import LOGIT, Family
from bayesirt.inference.block_steps import (
    Conditional,
    chance_for,
    derivatives,
    joint_normal_draw,
    newton_move,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.hamiltonian import follow
from bayesirt.inference.q_mirt_passes import QMirtPasses
from bayesirt.inference.q_mirt_sites import (
    QMirtPrior,
    correlation_site,
    levels_shifted,
    scales_stretched,
)
from bayesirt.inference.q_mirt_turns import turn_abilities
from bayesirt.inference.two_pl_moves import draw_means, move_items, move_spreads, move_with_items
from bayesirt.inference.two_pl_passes import SubjectStep
from bayesirt.likelihood import DenseLayout

_STEPS = 8
_STEP = 0.9
"""Length of a leapfrog step for the correlations, in units of √subjects and of dim¼: transformed
as NumPyro does, they are Fisher's z of partial correlations, with a standard error of about one
over √subjects each, whatever they are."""


def q_mirt_moves(
    layout: DenseLayout,
    prior: QMirtPrior,
    *,
    family: Family = LOGIT,
    dtype: DTypeLike = jnp.float32,
) -> list[Move]:
    """Return the moves of one sweep over the posterior of the Q-matrix model.

    Parameters
    ----------
    layout : DenseLayout
    prior : QMirtPrior
    family : Family
    dtype : dtype
        Of what is computed for each cell.

    Returns
    -------
    list of callables
        Each (key, position) → (position, statistics).
    """
    passes = QMirtPasses(layout, prior.pattern, family, dtype)
    return [
        partial(move_blocks, prior, passes),
        partial(draw_means, prior, names=["a"]),
        partial(move_spreads, prior, names=["a", "d", "beta"]),
        partial(draw_levels, prior),
        partial(move_scales, prior),
        partial(move_correlations, prior),
        partial(move_with_abilities, prior, passes),
        partial(turn_abilities, prior),
    ]


def move_blocks(
    prior: QMirtPrior, passes: QMirtPasses, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move all subjects, then all items, then the items' hyperparameters with them.

    Parameters
    ----------
    prior : QMirtPrior
    passes : QMirtPasses
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Shares accepted, and the log likelihood.
    """
    keys = jax.random.split(key, 3)
    step = step_of_subjects(prior, passes, keys[0], sites)
    sites = sites | {"theta": step.theta}
    statistics = {"acceptance_theta": step.accepted.mean(dtype=step.theta.dtype)}
    sites, sums, statistics["acceptance_items"] = move_items(
        prior, passes, keys[1], sites, step.sums
    )
    sites, sums, statistics["acceptance_interweaving"] = move_with_items(
        prior, passes, keys[2], sites, sums
    )
    return sites, statistics | {"log_likelihood": sums.log_likelihood.sum()}


def step_of_subjects(
    prior: QMirtPrior, passes: QMirtPasses, key: Array, sites: Position
) -> SubjectStep:
    """Make a step of every subject with all its abilities, given items and correlations.

    Parameters
    ----------
    prior : QMirtPrior
    passes : QMirtPasses
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    SubjectStep
    """
    theta, known = sites["theta"], jnp.linalg.inv(prior.correlation(sites))
    chance = chance_for(key, theta)
    return passes.move_subjects(chance, theta, jnp.exp(sites["a"]), sites["d"], known)


def draw_levels(prior: QMirtPrior, key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Draw the abilities' levels, β and μ_d together: a Gibbs step, as all is normal.

    Parameters
    ----------
    prior : QMirtPrior
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict
        Empty.

    Notes
    -----
    In the directions of `levels_shifted`, the intercepts' distances from their centre change by
    -(slopes, Q, 1) t: a regression, to which the priors of θ, β and μ_d add a precision each.
    """
    pattern, values = prior.pattern, prior.terms(sites).values
    slopes = pattern.slopes(values["a"])
    needs = jnp.asarray(pattern.needs, slopes.dtype)
    design = jnp.concatenate([slopes, needs, jnp.ones((len(slopes), 1))], 1) / values["sigma_d"]
    away = (values["d"] - prior.centre(sites, "d")) / values["sigma_d"]
    known = jnp.linalg.inv(prior.correlation(sites))

    def own(t: Array) -> Array:
        each = prior.terms(sites | {"beta": sites["beta"] + t[:-1], "mu_d": sites["mu_d"] + t[-1]})
        return jnp.append(each.each["beta"], each.each["mu_d"])

    slope, curvature = derivatives(own, jnp.zeros(pattern.n_abilities + 1, slopes.dtype))
    score = design.T @ away + jnp.concatenate([-known @ values["theta"].sum(0), slope])
    of_priors = jax.scipy.linalg.block_diag(len(values["theta"]) * known, jnp.diag(-curvature))
    t = joint_normal_draw(key, score, design.T @ design + of_priors)
    return levels_shifted(pattern, sites, t), {}


def move_scales(prior: QMirtPrior, key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Move the spreads of all abilities, and μ_a with them, which η does not see.

    Parameters
    ----------
    prior : QMirtPrior
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Whether it was accepted.

    Notes
    -----
    With e = exp(t), the abilities' log density is -eᵀMe/2 + n Σt for M = Ω⁻¹ ∘ ΘᵀΘ, whose
    Hessian is -diag(e) M diag(e) - diag(e ∘ Me); the slopes' is quadratic.
    """
    pattern, theta = prior.pattern, sites["theta"]
    together = jnp.linalg.inv(prior.correlation(sites)) * (theta.T @ theta)
    sigma = jnp.exp(sites["sigma_a"])
    away = (sites["a"] - sites["mu_a"]) / sigma
    counts = jnp.asarray(pattern.needs.sum(0), theta.dtype)
    crossed = jnp.concatenate([jnp.diag(counts), counts[None]])
    design = jnp.concatenate([crossed, jnp.append(counts, counts.sum())[:, None]], 1) / sigma**2
    pulled = jnp.zeros(pattern.n_abilities, theta.dtype).at[pattern.ability].add(away) / sigma
    pulled = jnp.append(pulled, pulled.sum())

    def of_mean(t: Array) -> Array:
        return prior.terms(sites | {"mu_a": sites["mu_a"] + t}).each["mu_a"]

    def evaluate(position: Array) -> tuple[Conditional, None]:
        t = position[0]
        e = jnp.exp(t[:-1])
        weighed = e * (together @ e)
        slope, curvature = derivatives(of_mean, t[-1])
        value = len(theta) * t[:-1].sum() - weighed.sum() / 2 + of_mean(t[-1])
        value += pulled @ t - t @ design @ t / 2
        score = pulled - design @ t + jnp.append(len(theta) - weighed, slope)
        own = jnp.append(jnp.maximum(weighed, 0), -curvature)
        outer = jnp.pad(e[:, None] * together * e, (0, 1))
        return Conditional(value[None], score[None], (design + outer + jnp.diag(own))[None]), None

    present = jnp.zeros((1, pattern.n_abilities + 1), theta.dtype)
    step = newton_move(chance_for(key, present), present, evaluate)
    moved, _ = scales_stretched(pattern, sites, step.position[0])
    return moved, {"acceptance_scales": step.accepted[0].astype(theta.dtype)}


def move_correlations(
    prior: QMirtPrior, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move the correlations given the abilities: one trajectory of Hamiltonian dynamics."""
    name = correlation_site(sites)
    if name is None:
        return sites, {}
    here = sites[name]
    products, n_subjects = sites["theta"].T @ sites["theta"], len(sites["theta"])

    def log_density(value: Array) -> Array:
        terms = prior.terms(sites | {name: value})
        root = jnp.linalg.cholesky(terms.values["correlation"])
        seen = jax.scipy.linalg.cho_solve((root, True), products)
        return (
            terms.each[name].sum()
            - n_subjects * jnp.log(jnp.diag(root)).sum()
            - jnp.trace(seen) / 2
        )

    step = _STEP / (jnp.sqrt(n_subjects + 1.0) * here.size**0.25)
    end = follow(key, here, log_density, step=step, n_steps=_STEPS)
    moved = sites | {name: end.position}
    return moved, {"acceptance_correlations": end.accepted.astype(here.dtype)}


def move_with_abilities(
    prior: QMirtPrior, passes: QMirtPasses, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move the correlations and carry the abilities along, their independent parts held.

    Parameters
    ----------
    prior : QMirtPrior
    passes : QMirtPasses
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Whether it was accepted.

    Notes
    -----
    With θ = L z and z held, only L's prior and the responses speak. Their information about what L
    is made of is that about the abilities, in the directions in which these go.
    """
    name = correlation_site(sites)
    if name is None:
        return sites, {}
    a, d = jnp.exp(sites["a"]), sites["d"]

    def root(value: Array) -> Array:
        return jnp.linalg.cholesky(prior.correlation(sites | {name: value}))

    parts = jax.scipy.linalg.solve_triangular(root(sites[name]), sites["theta"].T, lower=True)

    def carried_abilities(value: Array) -> Array:
        return (root(value) @ parts).T

    def log_prior(value: Array) -> Array:
        return prior.terms(sites | {name: value}).each[name].sum()

    def evaluate(position: Array) -> tuple[Conditional, Array]:
        value = position[0]
        along = jax.jacfwd(carried_abilities)(value)
        sums = passes.subject_sums(carried_abilities(value), a, d)
        of_prior, slope = jax.value_and_grad(log_prior)(value)
        score = slope + jnp.einsum("ik,ikp->p", sums.score, along)
        learnt = jnp.einsum("ikp,ikl,ilq->pq", along, sums.information, along)
        precision = learnt + jnp.eye(len(value))
        return Conditional(of_prior[None], score[None], precision[None]), sums.log_likelihood

    def gain(old: Array, new: Array) -> Array:
        return (new - old).sum()[None]

    here = sites[name][None]
    step = newton_move(chance_for(key, here), here, evaluate, gain=gain)
    value = step.position[0]
    moved = sites | {name: value, "theta": carried_abilities(value)}
    return moved, {"acceptance_with_abilities": step.accepted[0].astype(value.dtype)}

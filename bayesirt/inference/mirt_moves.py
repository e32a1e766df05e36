"""The moves of MIRT for the blocked kernel: blocks, exact draws, and what η cannot see.

Subjects move with all their abilities at once, items with all their slopes. The slopes' population
is drawn exactly given them. The abilities' levels, scales and angles, which η does not see, are
drawn anew with everything that keeps η; rotations need no move, as the prior does not see them
either.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpyro.distributions import Wishart, WishartCholesky

from bayesirt.families import LOGIT, Family
from bayesirt.inference.block_steps import (
    Conditional,
    chance_for,
    joint_normal_draw,
    log_uniform,
    shortened,
)
from bayesirt.inference.blocked import Move, Position, Statistics
from bayesirt.inference.mirt_sites import (
    TO_PRECISION,
    MirtPrior,
    axes_changed,
    levels_shifted,
    whole_pattern,
)
from bayesirt.inference.q_mirt_passes import QMirtPasses
from bayesirt.inference.two_pl_moves import move_items, move_spreads
from bayesirt.inference.two_pl_passes import ItemSums
from bayesirt.likelihood import DenseLayout
from bayesirt.models.mirt import MU_A_SD, MU_D_SD, USUAL_SPREAD

_SHORT_STEP = 0.3
"""Which share of Newton's step half of the members of a block take. With 400 subjects, 693 items
and five abilities it gives more than ten times the effective draws of the slowest item and, with no
least information in their proposals, of the slowest subject, and about as many of most."""


def mirt_moves(
    layout: DenseLayout,
    n_abilities: int,
    *,
    family: Family = LOGIT,
    dtype: DTypeLike = jnp.float32,
) -> list[Move]:
    """Return the moves of one sweep over MIRT's posterior.

    Parameters
    ----------
    layout : DenseLayout
    n_abilities : int
    family : Family
    dtype : dtype
        Of what is computed for each cell.

    Returns
    -------
    list of callables
        Each (key, position) → (position, statistics).
    """
    prior = MirtPrior()
    pattern = whole_pattern(layout.shape[1], n_abilities)
    passes = QMirtPasses(layout, pattern, family, dtype, least_share=0.0)
    return [
        partial(move_blocks, prior, passes),
        draw_slope_population,
        partial(move_spreads, prior, names=["d"]),
        draw_levels,
        draw_axes,
    ]


def move_blocks(
    prior: MirtPrior, passes: QMirtPasses, key: Array, sites: Position
) -> tuple[Position, Statistics]:
    """Move all subjects, then all items.

    Parameters
    ----------
    prior : MirtPrior
    passes : QMirtPasses
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Shares accepted, and the log likelihood.
    """
    of_subjects, of_items, of_shares = jax.random.split(key, 3)
    theta, a, d = (sites[name] for name in ("theta", "a", "d"))
    shares = some_short(of_shares, jnp.append(theta[:, 0], d))
    standard = jnp.eye(a.shape[1], dtype=a.dtype)
    step = passes.move_subjects(
        chance_for(of_subjects, theta), theta, a.ravel(), d, standard, shares[: len(theta)]
    )
    conditional = partial(item_conditional, shares=shares[len(theta) :])
    sites, sums, accepted = move_items(
        prior, passes, of_items, sites | {"theta": step.theta}, step.sums, conditional=conditional
    )
    return sites, {
        "acceptance_theta": step.accepted.mean(dtype=theta.dtype),
        "acceptance_items": accepted,
        "log_likelihood": sums.log_likelihood.sum(),
    }


def item_conditional(
    prior: MirtPrior,
    sites: Position,
    items: Array,
    sums: ItemSums,
    *,
    shares: Float[Array, " item"],
) -> Conditional:
    """Return what each item knows about its slopes and intercept, given their population.

    Parameters
    ----------
    prior : MirtPrior
    sites : dict of float arrays
        With the population.
    items : float array, shape (item, ability + 1)
    sums : ItemSums
        At these items.
    shares : float array, shape (item,)
        Of Newton's step, as `shortened` takes them.

    Returns
    -------
    Conditional
    """
    centre, precision = prior.of_population(sites)
    off = items - centre
    pulled = off @ precision
    value = sums.log_likelihood - (pulled * off).sum(1) / 2
    whole = Conditional(value, sums.score - pulled, sums.information + precision)
    return shortened(whole, shares)


def some_short(key: Array, like: Float[Array, " member"]) -> Float[Array, " member"]:
    """Return which shares of Newton's step to take: of every second one, by chance, a short one."""
    whole = jax.random.bernoulli(key, 0.5, like.shape)
    return jnp.where(whole, jnp.ones_like(like), _SHORT_STEP)


def draw_slope_population(key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Draw μ_a, then Λ: Gibbs steps.

    Parameters
    ----------
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict
        Empty.

    Notes
    -----
    μ_a | a, Λ is normal with precision JΛ + I, and Λ | a, μ_a ~ Wishart(K + 2 + J, rate
    s² I + Σ_j (a_j - μ_a)(a_j - μ_a)ᵀ).
    """
    of_mean, of_precision = jax.random.split(key)
    a, mu = sites["a"], sites["mu_a"]
    (n_items, n), identity = a.shape, jnp.eye(a.shape[1], dtype=a.dtype)
    precision = TO_PRECISION(sites["precision_a"])
    score = precision @ (a - mu).sum(0) - mu / MU_A_SD**2
    mu = mu + joint_normal_draw(of_mean, score, n_items * precision + identity / MU_A_SD**2)
    rate = USUAL_SPREAD**2 * identity + (a - mu).T @ (a - mu)
    drawn = Wishart(n + 2.0 + n_items, rate_matrix=rate).sample(of_precision)
    return sites | {"mu_a": mu, "precision_a": TO_PRECISION.inv(drawn)}, {}


def draw_levels(key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Draw the abilities' levels and μ_d together: a Gibbs step, as all is normal.

    Parameters
    ----------
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict
        Empty.

    Notes
    -----
    In the directions of `levels_shifted` the intercepts' distances from μ_d change by -(a, 1) t: a
    regression, to which the priors of θ and μ_d add a precision each.
    """
    a, sigma = sites["a"], jnp.exp(sites["sigma_d"])
    design = jnp.concatenate([a, jnp.ones_like(a[:, :1])], 1) / sigma
    away = (sites["d"] - sites["mu_d"]) / sigma
    pulled = jnp.append(sites["theta"].sum(0), sites["mu_d"] / MU_D_SD**2)
    own = jnp.full_like(pulled, len(sites["theta"])).at[-1].set(MU_D_SD**-2)
    t = joint_normal_draw(key, design.T @ away - pulled, design.T @ design + jnp.diag(own))
    return levels_shifted(sites, t), {}


def draw_axes(key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Draw the abilities' scales and angles anew, the slopes' population moved along.

    Parameters
    ----------
    key : jax.random.key
    sites : dict of float arrays

    Returns
    -------
    sites : dict of float arrays
    statistics : dict of float scalars
        Whether it was accepted.

    Notes
    -----
    Along θ → M θ of `axes_changed`, M lower triangular, all Jacobians and priors but that of μ_a
    make |M|^(N+K+1) exp(-tr M (ΘᵀΘ + s²Λ) Mᵀ / 2). With ΘᵀΘ + s²Λ = L Lᵀ and in the measure that
    the group of such M leaves as it is, M L is the Cholesky factor of a Wishart matrix with
    N + K + 1 degrees of freedom (generalised Gibbs). The prior of μ_a accepts or refuses.

    References
    ----------
    Liu & Sabatti 2000.
    """
    draw_key, accept_key = jax.random.split(key)
    theta, mu = sites["theta"], sites["mu_a"]
    n_subjects, n = theta.shape
    products = theta.T @ theta + USUAL_SPREAD**2 * TO_PRECISION(sites["precision_a"])
    identity = jnp.eye(n, dtype=theta.dtype)
    drawn = WishartCholesky(n_subjects + n + 1.0, scale_tril=identity).sample(draw_key)
    root = jnp.linalg.cholesky(products)
    matrix = jax.scipy.linalg.solve_triangular(root, drawn.T, trans=1, lower=True).T
    moved = axes_changed(sites, matrix)
    ratio = ((mu**2).sum() - (moved["mu_a"] ** 2).sum()) / (2 * MU_A_SD**2)
    accepted = log_uniform(accept_key, ratio) < ratio
    kept = jax.tree.map(partial(jnp.where, accepted), moved, sites)
    return kept, {"acceptance_axes": accepted.astype(theta.dtype)}

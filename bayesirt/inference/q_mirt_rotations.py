"""Rotations of nested abilities, which the data of a Q-matrix do not identify.

If every item that needs one ability also needs a second one, a part of the second can be added to
the first and compensated by the items' discriminations without changing any predictor. Only the
priors and the correlations depend on it, and correlations that move by themselves mix slowly along
this direction.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from numpyro.distributions import LKJCholesky, biject_to

from bayesirt.inference.block_steps import log_uniform
from bayesirt.inference.blocked import Position, Statistics
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.two_way import abilities_by
from bayesirt.likelihood.loadings import Loadings
from bayesirt.models.mirt import MU_B_SD

_NARROWEST, _WIDEST = 0.02, 1.0
"""Bounds on the standard deviation of an angle, in radians; one is drawn for each turn."""


_ROUNDS = 4
"""Turns of each pair per sweep; they need no pass over the data."""


class Turning(NamedTuple):
    """The quantities that turns change."""

    correlation: Float[Array, "ability ability"]
    slopes: Float[Array, "item ability"]  # Discriminations, 0 where an ability is not needed.
    # Matrix by which the abilities have been multiplied from the left.
    change: Float[Array, "ability ability"]


def nested_pairs(needs: Loadings) -> NDArray[np.intp]:
    """Return pairs of abilities such that each item that needs the first also needs the second."""
    matrix = needs.needs.astype(int)
    inside = matrix.T @ matrix == matrix.sum(0)[:, None]
    np.fill_diagonal(inside, False)
    return np.argwhere(inside)


def turned(
    needs: Loadings, sites: Position, state: Turning, pair: Array, angle: Array
) -> tuple[Turning, Float[Array, ""]]:
    """Turn an ability away from another one by an angle, in the plane of the two.

    Abilities are unit vectors whose cosines are the correlations. With φ the angle between the two,
    θ_k becomes α θ_k + β θ_l with α = sin(φ + angle) / sin φ. The Jacobian of the subjects cancels
    with their density; the terms of μ_b, which is transformed like the abilities, are included
    here. LKJ(1) is uniform in the K - 1 correlations of θ_k, each of which stretches by α.
    """
    k, other = pair[0], pair[1]
    cosine = state.correlation[k, other]
    between = jnp.arccos(cosine)
    alpha = jnp.sin(between + angle) / jnp.sin(between)
    beta = jnp.cos(between + angle) - alpha * cosine
    row = (alpha * state.correlation[k] + beta * state.correlation[other]).at[k].set(1)
    change = alpha * state.change[k] + beta * state.change[other]
    needed = jnp.asarray(needs.needs)[:, k]
    slopes, others = state.slopes[:, k], state.slopes[:, other]
    new_slopes, new_others = slopes / alpha, others - slopes * beta / alpha

    def log_prior(a: Array) -> Array:
        z = (jnp.log(jnp.where(needed, a, 1)) - sites["mu_a"]) / jnp.exp(sites["sigma_a"])
        return jnp.where(needed, -(z**2) / 2, 0).sum()

    stretch = jnp.where(needed, jnp.log(others / new_others), 0).sum()
    gained = sum(map(log_prior, (new_slopes, new_others))) - sum(map(log_prior, (slopes, others)))
    mu_b = state.change[k] @ sites["mu_b"], change @ sites["mu_b"]
    gained += (mu_b[0] ** 2 - mu_b[1] ** 2) / (2 * MU_B_SD**2)
    log_ratio = gained + stretch + needs.n_abilities * jnp.log(alpha)
    possible = (alpha > 0) & jnp.where(needed, new_others > 0, True).all()
    new = Turning(
        state.correlation.at[k].set(row).at[:, k].set(row),
        state.slopes.at[:, k].set(new_slopes).at[:, other].set(new_others),
        state.change.at[k].set(change),
    )
    return new, jnp.where(possible, log_ratio, -jnp.inf)


def turn_abilities(
    way: Any, numbers: RandomNumbers, sites: Position
) -> tuple[Position, Statistics]:
    """Turn each ability towards or away from those that all of its items also need."""
    needs = way.needs
    pairs = np.tile(nested_pairs(needs), (_ROUNDS, 1))
    if "root" not in sites or not len(pairs):
        return sites, {}
    start = Turning(
        way.correlation(sites),
        needs.slopes(needs.in_slots(jnp.exp(sites["a"]))),
        jnp.eye(needs.n_abilities, dtype=sites["theta"].dtype),
    )
    narrow, wide = np.log([_NARROWEST, _WIDEST])
    like = jnp.zeros(len(pairs), start.slopes.dtype)
    widths = jnp.exp(narrow + (wide - narrow) * numbers.uniform(like.shape, like.dtype))
    angles = widths * numbers.normal(like.shape, like.dtype)
    turns = jnp.asarray(pairs), angles, log_uniform(numbers, like)
    end, accepted = jax.lax.scan(partial(_one_turn, needs, sites), start, turns)
    moved = turned_sites(needs, sites, end)
    return moved, {"acceptance_turns": accepted.mean(dtype=sites["theta"].dtype)}


def turned_sites(needs: Loadings, sites: Position, end: Turning) -> Position:
    """Return the sites after all turns."""
    unconstrained = biject_to(LKJCholesky(needs.n_abilities, 1).support)
    return sites | {
        **abilities_by(sites, end.change),
        "mu_b": end.change @ sites["mu_b"],
        "a": jnp.log(end.slopes[needs.item, needs.ability]),
        "root": unconstrained._inverse(jnp.linalg.cholesky(end.correlation)),
    }


def _one_turn(
    needs: Loadings, sites: Position, state: Turning, turn: tuple[Array, Array, Array]
) -> tuple[Turning, Array]:
    pair, angle, chance = turn
    new, ratio = turned(needs, sites, state, pair, angle)
    accepted = chance < ratio
    new_state = jax.tree.map(lambda there, here: jnp.where(accepted, there, here), new, state)
    return new_state, accepted

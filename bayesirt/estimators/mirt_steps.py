"""Multidimensional 2PL: what answers say of each subject and of each item, in turn.

As in `bayesirt.estimators.q_mirt_steps` each subject's abilities have a normal approximate
posterior; here every item may need every ability, with slopes of either sign.
"""

import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.estimators.mirt_parts import (
    Beliefs,
    Items,
    Normal,
    Unknown,
    first_unknown,
    from_root,
    packed,
    pairs,
    to_root,
    twice_off_diagonal,
    unpacked,
)
from bayesirt.estimators.q_mirt_steps import Abilities, Quadrature, inverse
from bayesirt.families import LOGIT, CellTerms
from bayesirt.likelihood import DenseLayout

__all__ = [
    "Beliefs",
    "ItemEquations",
    "Items",
    "Normal",
    "Unknown",
    "abilities_given",
    "ability_steps",
    "evidence",
    "expected_terms",
    "first_unknown",
    "from_root",
    "item_equations",
    "item_step",
    "items_loss",
    "packed",
    "pairs",
    "predictor",
    "squares",
    "to_root",
    "twice_off_diagonal",
    "unpacked",
    "usual_quadrature",
]

_FARTHEST = 1.0
"""How far one step moves a parameter at most."""
_MOST_HALVINGS = 6
_ROUNDING = 8.0
_ABILITY_STEPS, _LAST_ABILITY_STEPS = 2, 5
_FEW_NODES, _NODES = 3, 5
_LARGE = 1 << 18
"""More cells than this are computed in 32 bits."""
_MANY_ITEMS = 200
"""From here on little is left of abilities to integrate over, and few nodes do."""


def usual_quadrature(layout: DenseLayout, n_nodes: int | None) -> Quadrature:
    """Return how expectations over a cell's linear predictor are computed by default.

    Parameters
    ----------
    layout : DenseLayout
    n_nodes : int, optional

    Returns
    -------
    Quadrature
        5 nodes, or 3 from 200 items on; 32 bits beyond a quarter of a million cells.
    """
    large = layout.trials.size > _LARGE
    if n_nodes is None:
        n_nodes = _FEW_NODES if layout.shape[1] >= _MANY_ITEMS else _NODES
    return Quadrature(n_nodes, jnp.float32 if large else jnp.result_type(float).type)


def predictor(
    items: Items, abilities: Abilities, unknown: Unknown = None
) -> tuple[Float[Array, "subject item"], Float[Array, "subject item"]]:
    """Return mean and variance of each cell's linear predictor, over abilities and items.

    Parameters
    ----------
    items : Items
    abilities : Abilities
    unknown : float array, shape (item, ability + 1, ability + 1), optional
        Covariance of each item's (a, d); by default items are as good as known.

    Returns
    -------
    mean, variance : float array, shape (subject, item)
    """
    squared = pairs(items.a, 2.0)
    if unknown is not None:
        squared += twice_off_diagonal(unknown[:, :-1, :-1])
    variance = packed(abilities.covariance) @ squared.T
    if unknown is not None:
        ones = jnp.ones_like(abilities.mean[:, :1])
        with_one = jnp.concatenate([abilities.mean, ones], 1)
        variance += pairs(with_one, 1.0) @ twice_off_diagonal(unknown).T
    return abilities.mean @ items.a.T + items.d, jnp.maximum(variance, 0)


def expected_terms(
    layout: DenseLayout,
    items: Items,
    abilities: Abilities,
    quadrature: Quadrature,
    unknown: Unknown = None,
) -> CellTerms:
    """Return each cell's log likelihood, score and information, expected over the abilities.

    Parameters
    ----------
    layout : DenseLayout
    items : Items
    abilities : Abilities
    quadrature : Quadrature
    unknown : float array, shape (item, ability + 1, ability + 1), optional
        Of items: expectations are over them too.

    Returns
    -------
    CellTerms
        Each of shape (subject, item); 0 where there were no trials.
    """
    n_nodes, dtype = quadrature
    mean, variance = predictor(items, abilities, unknown)
    eta, spread = mean.astype(dtype), jnp.sqrt(variance).astype(dtype)
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    shares = [float(weight) for weight in weights / weights.sum()]
    at_nodes = [
        LOGIT.terms(eta + float(point) * spread, layout.successes, layout.trials)
        for point in points
    ]
    columns = zip(*at_nodes, strict=True)
    return CellTerms(*(sum(map(operator.mul, shares, terms)) for terms in columns))


def ability_steps(
    layout: DenseLayout,
    items: Items,
    population: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
    n_steps: int = _ABILITY_STEPS,
    unknown: Unknown = None,
) -> Abilities:
    """Take Newton steps on every subject's abilities, all subjects at once.

    Parameters
    ----------
    layout : DenseLayout
    items : Items
    population : Normal
    abilities : Abilities
    quadrature : Quadrature
    n_steps : int
    unknown : float array, shape (item, ability + 1, ability + 1), optional
        As in `expected_terms`.

    Returns
    -------
    Abilities
        With covariances (AᵀE[W]A + Ω⁻¹)⁻¹.

    Notes
    -----
    Items that are not known, with covariances C, have E a aᵀ = â âᵀ + C_aa in place of â âᵀ, and
    E s a = â E s - C_a (θ, 1) E w (Stein 1981).
    """
    n = items.a.shape[1]
    squared = pairs(items.a, 1.0)
    if unknown is not None:
        squared += packed(unknown[:, :n, :n])

    def step(_: int, found: Abilities) -> Abilities:
        terms = expected_terms(layout, items, found, quadrature, unknown)
        score = terms.score @ items.a - (found.mean - population.centre) @ population.precision
        information = unpacked(terms.information @ squared, n)
        if unknown is not None:
            pull = unpacked(terms.information @ packed(unknown[:, :n, :n]), n)
            score -= jnp.einsum("ikl,il->ik", pull, found.mean)
            score -= terms.information @ unknown[:, :n, n]
        covariance = inverse(information + population.precision)
        direction = jnp.einsum("ikl,il->ik", covariance, score)
        return Abilities(found.mean + _limited(direction), covariance)

    return jax.lax.fori_loop(0, n_steps, step, abilities)


def _limited(direction: Float[Array, "row k"]) -> Float[Array, "row k"]:
    longest = jnp.abs(direction).max(1, keepdims=True)
    return direction * jnp.minimum(1, _FARTHEST / jnp.maximum(longest, _FARTHEST))


class ItemEquations(NamedTuple):
    """Newton's equations of each item's slopes, and of d as the last one.

    Attributes
    ----------
    score : float array, shape (item, ability + 1)
        Of the expected log likelihood, without the prior.
    information : float array, shape (item, ability + 1, ability + 1)
        Of a complete observation, as if abilities were known to their posteriors; no prior.
    of_items : float array, shape (item,)
        Expected log likelihood.
    of_subjects : float array, shape (subject,)
        Expected log likelihood.
    """

    score: Float[Array, "item parameter"]
    information: Float[Array, "item parameter parameter"]
    of_items: Float[Array, " item"]
    of_subjects: Float[Array, " subject"]

    def covariance(self, prior: Normal) -> Float[Array, "item parameter parameter"]:
        """Return the inverse of the information with the prior."""
        return inverse(self.information + prior.precision)

    def damped_covariance(
        self, prior: Normal, before: Float[Array, "item parameter parameter"]
    ) -> Float[Array, "item parameter parameter"]:
        """Return half the way to `covariance`, the whole of which may be too far.

        Notes
        -----
        The less is known of an item, the less its answers are expected to tell where that is little
        already: whole steps can go to and fro for ever.
        """
        return (before + self.covariance(prior)) / 2


def item_equations(
    layout: DenseLayout,
    items: Items,
    abilities: Abilities,
    quadrature: Quadrature,
    unknown: Unknown = None,
) -> ItemEquations:
    """Return Newton's equations of every item.

    Notes
    -----
    E s θ = m E s - V a E w for a normal ability θ ~ N(m, V) (Stein 1981), so the score of a slope
    needs only expected scores and information.
    """
    terms = expected_terms(layout, items, abilities, quadrature, unknown)
    mean, weights, n = abilities.mean, terms.information.T, abilities.mean.shape[1]
    spread = unpacked(weights @ packed(abilities.covariance), n)
    squares = spread + unpacked(weights @ pairs(mean, 1.0), n)
    of_a = terms.score.T @ mean - jnp.einsum("jkl,jl->jk", spread, items.a)
    edge = (weights @ mean)[:, :, None]
    corner = weights.sum(1, dtype=mean.dtype)[:, None, None]
    return ItemEquations(
        Items(of_a, terms.score.sum(0, dtype=mean.dtype)).both,
        jnp.block([[squares, edge], [jnp.swapaxes(edge, 1, 2), corner]]),
        terms.log_likelihood.sum(0, dtype=mean.dtype),
        terms.log_likelihood.sum(1, dtype=mean.dtype),
    )


def item_step(
    layout: DenseLayout,
    items: Items,
    prior: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
    equations: ItemEquations,
    unknown: Unknown = None,
) -> Items:
    """Take a Newton step on every item, none longer than 1.

    Notes
    -----
    An item whose own loss would rise goes half as far, and so on, and at last nowhere: where
    slopes are steep, few nodes say little about curvature.
    """
    score = equations.score - (items.both - prior.centre) @ prior.precision
    direction = _limited(jnp.einsum("jkl,jl->jk", equations.covariance(prior), score))

    def own_loss(moved: Items, log_likelihood: Array) -> Array:
        return squares(moved, prior) / 2 - log_likelihood

    before = own_loss(items, equations.of_items)
    slack = _ROUNDING * float(jnp.finfo(quadrature.dtype).eps) * jnp.abs(before)

    def attempt(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tries, share, rose = carry
        share = jnp.where(rose, jnp.where(tries < _MOST_HALVINGS, share / 2, 0), share)
        moved = Items.of(items.both + share[:, None] * direction)
        terms = expected_terms(layout, moved, abilities, quadrature, unknown)
        after = own_loss(moved, terms.log_likelihood.sum(0, dtype=before.dtype))
        return tries + 1, share, ~(after <= before + slack) & (share > 0)

    untried = jnp.array(0), jnp.full_like(before, 2), jnp.ones_like(before, bool)
    _, share, _ = jax.lax.while_loop(lambda carry: carry[2].any(), attempt, untried)
    return Items.of(items.both + share[:, None] * direction)


def squares(items: Items, prior: Normal) -> Float[Array, " item"]:
    """Return (ξ - c)ᵀP(ξ - c) of each item's parameters ξ."""
    off = items.both - prior.centre
    return jnp.einsum("jk,kl,jl->j", off, prior.precision, off)


def items_loss(
    items: Items, covariance: Float[Array, "item parameter parameter"], prior: Normal
) -> Float[Array, ""]:
    """Return the divergence of normal beliefs about items from the prior, up to a constant."""
    volumes = jnp.linalg.slogdet(covariance)[1] + jnp.linalg.slogdet(prior.precision)[1]
    own = squares(items, prior) + jnp.einsum("kl,jkl->j", prior.precision, covariance)
    return (own - volumes).sum() / 2


def evidence(
    abilities: Abilities, population: Normal, log_likelihood: Float[Array, " subject"]
) -> Float[Array, " subject"]:
    """Return a lower bound of each subject's marginal log likelihood.

    Parameters
    ----------
    abilities : Abilities
    population : Normal
    log_likelihood : float array, shape (subject,)
        Expected over the abilities.

    Returns
    -------
    float array, shape (subject,)
    """
    off, precision = abilities.mean - population.centre, population.precision
    own = jnp.einsum("ik,kl,il->i", off, precision, off)
    own += jnp.einsum("kl,ikl->i", precision, abilities.covariance)
    volume = jnp.linalg.slogdet(abilities.covariance)[1] + jnp.linalg.slogdet(precision)[1]
    return log_likelihood + (volume - own + off.shape[1]) / 2


def abilities_given(
    layout: DenseLayout,
    items: Items,
    population: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
) -> tuple[Abilities, Float[Array, ""]]:
    """Return abilities as if items were known, and a bound of the marginal log likelihood."""
    abilities = ability_steps(layout, items, population, abilities, quadrature, _LAST_ABILITY_STEPS)
    terms = expected_terms(layout, items, abilities, quadrature)
    of_subjects = terms.log_likelihood.sum(1, dtype=items.d.dtype)
    return abilities, evidence(abilities, population, of_subjects).sum()

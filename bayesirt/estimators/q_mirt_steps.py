"""Fine-grained abilities: what answers say of each subject and of each item, in turn.

Each subject's abilities have a normal approximate posterior. A linear predictor is then normal
too, and expectations of what a cell says are sums over a few nodes.
"""

import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from bayesirt.families import LOGIT, CellTerms
from bayesirt.likelihood import DenseLayout
from bayesirt.q_matrix import QMatrix

_FARTHEST = 1.0
"""How far one step moves a parameter at most."""
_MOST_HALVINGS = 6
_ROUNDING = 8.0


class Quadrature(NamedTuple):
    """How expectations over a cell's linear predictor are computed.

    Attributes
    ----------
    n_nodes : int
        Of Gauss-Hermite quadrature.
    dtype : dtype
        Of what is computed for each cell and node; sums have that of the parameters.
    """

    n_nodes: int
    dtype: DTypeLike


class Slots(NamedTuple):
    """The abilities that each item needs, side by side, filled up to the longest.

    Attributes
    ----------
    ability : int array, shape (item, slot)
        Position of the ability; 0 where the slot is empty.
    taken : bool array, shape (item, slot)
    pair : int array, shape (item, slot, slot)
        Where two abilities stand among all pairs.
    any_ability : array, shape (ability,)
        Empty in content; its length is the number of abilities.
    """

    ability: Int[Array, "item slot"]
    taken: Bool[Array, "item slot"]
    pair: Int[Array, "item slot slot"]
    any_ability: Array

    @property
    def n_abilities(self) -> int:
        """Number of abilities."""
        return len(self.any_ability)

    def loadings(self, log_a: Float[Array, "item slot"]) -> Float[Array, "item ability"]:
        """Return slopes as a matrix, 0 where an item does not need an ability."""
        slopes = jnp.where(self.taken, jnp.exp(log_a), 0)
        rows = jnp.arange(len(slopes))[:, None]
        matrix = jnp.zeros((len(slopes), self.n_abilities), slopes.dtype)
        return matrix.at[rows, self.ability].add(slopes)

    def of_pairs(self, pairs: Float[Array, "item pair"]) -> Float[Array, "item slot slot"]:
        """Return the values of those pairs of abilities that an item needs, any in other slots."""
        flat = self.pair.reshape(len(self.pair), -1)
        return jnp.take_along_axis(pairs, flat, 1).reshape(self.pair.shape)

    def over_items(self, values: Float[Array, "item slot"]) -> Float[Array, " ability"]:
        """Return the sum of values over the items that need each ability."""
        matrix = jnp.zeros(self.n_abilities, values.dtype)
        return matrix.at[self.ability].add(jnp.where(self.taken, values, 0))

    def over_abilities(self, values: Float[Array, " ability"]) -> Float[Array, " item"]:
        """Return the sum of values over the abilities that each item needs."""
        return jnp.where(self.taken, values[self.ability], 0).sum(1)


def slots_of(q: QMatrix) -> Slots:
    """Return the abilities that each item needs, row after row as in `QMatrix.loadings`."""
    width = int(q.needs.sum(1).max())
    ability = np.argsort(~q.needs, axis=1, kind="stable")[:, :width]
    taken = np.arange(width) < q.needs.sum(1)[:, None]
    ability = np.where(taken, ability, 0)
    pair = _place_of_pairs(q.n_abilities)[ability[:, :, None], ability[:, None, :]]
    return Slots(
        jnp.asarray(ability),
        jnp.asarray(taken),
        jnp.asarray(pair),
        jnp.zeros(q.n_abilities, jnp.int8),
    )


class Abilities(NamedTuple):
    """Normal approximations to the posteriors of the subjects' abilities.

    Attributes
    ----------
    mean : float array, shape (subject, ability)
        In standard deviations of the population.
    covariance : float array, shape (subject, ability, ability)
    """

    mean: Float[Array, "subject ability"]
    covariance: Float[Array, "subject ability ability"]


class Items(NamedTuple):
    """Parameters of the items.

    Attributes
    ----------
    log_a : float array, shape (item, slot)
        0 in slots that are not taken.
    d : float array, shape (item,)
    """

    log_a: Float[Array, "item slot"]
    d: Float[Array, " item"]


class ItemPriors(NamedTuple):
    """What items are expected to be, given all others.

    Attributes
    ----------
    log_a_mean, log_a_precision : float
    d_mean : float array, shape (item,)
    d_precision : float
    """

    log_a_mean: Float[Array, ""]
    log_a_precision: Float[Array, ""]
    d_mean: Float[Array, " item"]
    d_precision: Float[Array, ""]


def expected_terms(
    layout: DenseLayout,
    slots: Slots,
    items: Items,
    abilities: Abilities,
    quadrature: Quadrature,
) -> CellTerms:
    """Return each cell's log likelihood, score and information, expected over the abilities.

    Parameters
    ----------
    layout : DenseLayout
    slots : Slots
    items : Items
    abilities : Abilities
    quadrature : Quadrature

    Returns
    -------
    CellTerms
        Each of shape (subject, item); 0 where there were no trials.
    """
    etas, shares = predictors_at_nodes(slots, items, abilities, quadrature)
    at_nodes = [LOGIT.terms(eta, layout.successes, layout.trials) for eta in etas]
    columns = zip(*at_nodes, strict=True)
    return CellTerms(*(sum(map(operator.mul, shares, terms)) for terms in columns))


def predictors_at_nodes(
    slots: Slots, items: Items, abilities: Abilities, quadrature: Quadrature
) -> tuple[list[Float[Array, "subject item"]], list[float]]:
    """Return each cell's linear predictor at the nodes, and the nodes' shares.

    Parameters
    ----------
    slots : Slots
    items : Items
    abilities : Abilities
    quadrature : Quadrature

    Returns
    -------
    etas : list of float arrays, shape (subject, item)
    shares : list of float
        They sum to 1.
    """
    n_nodes, dtype = quadrature
    a = slots.loadings(items.log_a)
    eta = (abilities.mean @ a.T + items.d).astype(dtype)
    variance = _packed(abilities.covariance) @ _pairs(a, 2.0).T
    spread = jnp.sqrt(jnp.maximum(variance, 0)).astype(dtype)
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    shares = [float(weight) for weight in weights / weights.sum()]
    return [eta + float(point) * spread for point in points], shares


def _pairs(x: Float[Array, "row ability"], twice: float) -> Float[Array, "row pair"]:
    """Return products x_k x_l for l ≤ k, those of different abilities `twice`."""
    k, m = np.tril_indices(x.shape[1])
    return x[:, k] * x[:, m] * jnp.where(k == m, 1.0, twice).astype(x.dtype)


def _packed(matrices: Float[Array, "row ability ability"]) -> Float[Array, "row pair"]:
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m]


def _unpacked(pairs: Float[Array, "row pair"], size: int) -> Float[Array, "row ability ability"]:
    return pairs[:, _place_of_pairs(size)]


def _place_of_pairs(size: int) -> NDArray[np.intp]:
    """Return where each pair of abilities stands among the packed ones."""
    k, m = np.tril_indices(size)
    place = np.zeros((size, size), np.intp)
    place[k, m] = place[m, k] = np.arange(len(k))
    return place


def inverse(matrices: Float[Array, "... k k"]) -> Float[Array, "... k k"]:
    """Return the inverse of positive definite matrices; NaN where they are not."""
    identity = jnp.broadcast_to(jnp.eye(matrices.shape[-1], dtype=matrices.dtype), matrices.shape)
    factor = jnp.linalg.cholesky(matrices)
    root = jax.lax.linalg.triangular_solve(factor, identity, left_side=True, lower=True)
    return jnp.swapaxes(root, -1, -2) @ root


def ability_step(
    layout: DenseLayout,
    slots: Slots,
    items: Items,
    precision: Float[Array, "ability ability"],
    abilities: Abilities,
    quadrature: Quadrature,
) -> Abilities:
    """Take a Newton step on every subject's abilities, all subjects at once.

    Parameters
    ----------
    layout, slots, items
    precision : float array, shape (ability, ability)
        Of the population: the inverse of its correlation matrix.
    abilities : Abilities
    quadrature : Quadrature

    Returns
    -------
    Abilities
        With covariances on their way to (AᵀWA + Ω⁻¹)⁻¹.

    Notes
    -----
    Precisions go half of the way: where items are steep, W depends so much on the covariance that
    whole steps would swing to and fro.
    """
    terms = expected_terms(layout, slots, items, abilities, quadrature)
    a = slots.loadings(items.log_a)
    score = terms.score @ a - abilities.mean @ precision
    information = _unpacked(terms.information @ _pairs(a, 1.0), a.shape[1])
    covariance = inverse((information + precision + inverse(abilities.covariance)) / 2)
    step = jnp.einsum("ikl,il->ik", covariance, score)
    longest = jnp.abs(step).max(1, keepdims=True)
    step = step * jnp.minimum(1, _FARTHEST / jnp.maximum(longest, _FARTHEST))
    return Abilities(abilities.mean + step, covariance)


class ItemEquations(NamedTuple):
    """Newton's equations of each item's log slopes, and of d as the last one.

    Attributes
    ----------
    score : float array, shape (item, slot + 1)
        Of the expected log likelihood with the priors; 0 in slots that are not taken.
    covariance : float array, shape (item, slot + 1, slot + 1)
        Inverse of the information, as if abilities were known to their posteriors.
    log_likelihood : float array, shape (subject,)
        Expected.
    """

    score: Float[Array, "item parameter"]
    covariance: Float[Array, "item parameter parameter"]
    log_likelihood: Float[Array, " subject"]


def item_equations(
    layout: DenseLayout,
    slots: Slots,
    items: Items,
    priors: ItemPriors,
    abilities: Abilities,
    quadrature: Quadrature,
) -> ItemEquations:
    """Return Newton's equations of every item.

    Notes
    -----
    E s θ = μ E s - V a E w for a normal ability (Stein 1981), so the score of a slope needs only
    expected scores and information.
    """
    terms = expected_terms(layout, slots, items, abilities, quadrature)
    mean, weights = abilities.mean, terms.information.T
    spread = slots.of_pairs(weights @ _packed(abilities.covariance))
    squares = spread + slots.of_pairs(weights @ _pairs(mean, 1.0))
    slopes = jnp.where(slots.taken, jnp.exp(items.log_a), 0)
    of_means = jnp.take_along_axis(terms.score.T @ mean, slots.ability, 1)
    of_log_a = slopes * (of_means - jnp.einsum("jkl,jl->jk", spread, slopes))
    of_log_a -= jnp.where(slots.taken, priors.log_a_precision, 0) * (
        items.log_a - priors.log_a_mean
    )
    of_d = terms.score.sum(0, dtype=mean.dtype) - priors.d_precision * (items.d - priors.d_mean)
    block = slopes[:, :, None] * slopes[:, None, :] * squares
    diagonal = jnp.where(slots.taken, priors.log_a_precision, 1)
    block += diagonal[:, :, None] * jnp.eye(block.shape[1], dtype=block.dtype)
    edge = slopes * jnp.take_along_axis(weights @ mean, slots.ability, 1)
    corner = weights.sum(1, dtype=mean.dtype) + priors.d_precision
    information = jnp.concatenate(
        [
            jnp.concatenate([block, edge[:, :, None]], 2),
            jnp.concatenate([edge, corner[:, None]], 1)[:, None, :],
        ],
        1,
    )
    return ItemEquations(
        jnp.concatenate([of_log_a, of_d[:, None]], 1),
        inverse(information),
        terms.log_likelihood.sum(1, dtype=mean.dtype),
    )


def item_step(
    layout: DenseLayout,
    slots: Slots,
    items: Items,
    priors: ItemPriors,
    abilities: Abilities,
    quadrature: Quadrature,
    equations: ItemEquations,
) -> Items:
    """Take a Newton step on every item, none longer than 1.

    Notes
    -----
    An item whose own loss would rise goes half as far, and so on, and at last nowhere: where
    slopes are steep, few nodes say little about curvature.
    """
    direction = jnp.einsum("jkl,jl->jk", equations.covariance, equations.score)
    longest = jnp.abs(direction).max(1, keepdims=True)
    direction = direction * jnp.minimum(1, _FARTHEST / jnp.maximum(longest, _FARTHEST))

    def moved(share: Array) -> Items:
        step = share[:, None] * direction
        return Items(items.log_a + step[:, :-1], items.d + step[:, -1])

    def own_loss(items: Items) -> Array:
        terms = expected_terms(layout, slots, items, abilities, quadrature)
        of_log_a = jnp.where(slots.taken, (items.log_a - priors.log_a_mean) ** 2, 0).sum(1)
        squares = priors.log_a_precision * of_log_a
        squares += priors.d_precision * (items.d - priors.d_mean) ** 2
        return squares / 2 - terms.log_likelihood.sum(0, dtype=squares.dtype)

    before = own_loss(items)
    slack = _ROUNDING * float(jnp.finfo(quadrature.dtype).eps) * jnp.abs(before)

    def attempt(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tries, share, rose = carry
        share = jnp.where(rose, jnp.where(tries < _MOST_HALVINGS, share / 2, 0), share)
        rose = ~(own_loss(moved(share)) <= before + slack) & (share > 0)
        return tries + 1, share, rose

    untried = jnp.array(0), jnp.full_like(before, 2), jnp.ones_like(before, bool)
    _, share, _ = jax.lax.while_loop(lambda carry: carry[2].any(), attempt, untried)
    return moved(share)

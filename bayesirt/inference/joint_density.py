"""The joint density of abilities, items and the items' means, with its derivatives.

The model is the 2PL, or LaRT with its speeds integrated out: then the family is another one, and
each ability has a normal prior of its own. Items are described by the coordinates on which the
model puts normal priors, and their spreads σ are held fixed: the density has no joint mode over
the spreads. Everything else is free.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.estimators.cell_sums import CellSums, cell_sums
from bayesirt.inference.cell_pieces import CellPieces, Piece
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.family import Family
from bayesirt.models import Priors

_LEAST_SLOPE = 0.05
_MOST_DIFFICULT = 4.0
_OF_SUBJECTS = ("subject_loss", "theta_score", "theta_information")


class Point(NamedTuple):
    """Values of all parameters, a step between two of them, or a gradient."""

    theta: Float[Array, " subject"]  # Abilities.
    items: Float[Array, "item coordinate"]  # Such as (log a, d).
    means: Float[Array, " mean"]  # (μ_a, μ_d), or μ_d alone, or nothing where the priors are fixed.


class AbilityPrior(NamedTuple):
    """The normal priors of the abilities."""

    mean: float | Float[Array, " subject"]
    precision: float | Float[Array, " subject"]


STANDARD = AbilityPrior(0.0, 1.0)
"""N(0, 1), the 2PL's."""


class Coordinates(NamedTuple):
    """What describes an item."""

    # The item parameters, in order; their means and spreads are ``mu_`` and ``sigma_`` of them.
    names: tuple[str, ...]
    # Coordinates, shape (..., coordinate) → (a, d), each of shape (...).
    to_items: Callable[[Array], tuple[Array, Array]]
    from_items: Callable[[Array, Array], Array]  # (a, d) → coordinates, kept within reason.
    # Where the priors are learned, prior standard deviations of the means, and of the half-normal
    # spreads; else the spreads themselves.
    scales: tuple[float, ...]
    learned: bool
    logarithmic: bool = False  # Whether the first is a log slope.


class Expansion(NamedTuple):
    """Second-order expansion of the log joint density, but for the cross terms of the cells."""

    gradient: Point  # Uphill.
    theta_curvature: Float[Array, " subject"]
    item_curvature: Float[Array, "item coordinate coordinate"]  # Negative second derivatives.
    jacobian: Float[Array, "item 2 coordinate"]  # ∂(a, d)/∂u.


def _positive(u: Array) -> tuple[Array, Array]:
    return jnp.exp(u[..., 0]), u[..., 1]


def _free(u: Array) -> tuple[Array, Array]:
    return u[..., 0], u[..., 1]


def _rasch(u: Array) -> tuple[Array, Array]:
    return jnp.ones_like(u[..., 0]), u[..., 0]


def _difficulty(u: Array) -> tuple[Array, Array]:
    a = jnp.exp(u[..., 0])
    return a, -a * u[..., 1]


def _from_positive(a: Array, d: Array) -> Array:
    return jnp.stack([jnp.log(jnp.maximum(a, _LEAST_SLOPE)), d], -1)


def _from_free(a: Array, d: Array) -> Array:
    return jnp.stack([a, d], -1)


def _from_rasch(a: Array, d: Array) -> Array:
    return d[..., None] + 0 * a[..., None]


def _from_difficulty(a: Array, d: Array) -> Array:
    a = jnp.maximum(a, _LEAST_SLOPE)
    return jnp.stack([jnp.log(a), jnp.clip(-d / a, -_MOST_DIFFICULT, _MOST_DIFFICULT)], -1)


def item_coordinates(priors: Priors) -> Coordinates:
    """Return the coordinates on which the priors are normal."""
    if priors.kind == "fixed":
        return Coordinates(("a", "b"), _difficulty, _from_difficulty, (0.5, 2.0), False)
    if priors.slopes == "rasch":
        return Coordinates(("d",), _rasch, _from_rasch, (2.0,), True)
    if priors.slopes == "free":
        return Coordinates(("a", "d"), _free, _from_free, (0.5, 2.0), True)
    return Coordinates(("a", "d"), _positive, _from_positive, (0.5, 2.0), True, logarithmic=True)


def sums_at(pieces: CellPieces, family: Family, coordinates: Coordinates, point: Point) -> CellSums:
    """Return the sums over the cells at a point, one piece after another."""
    a, d = coordinates.to_items(point.items)
    found = [
        _piece_sums(
            family, piece.successes, piece.trials, *own_values(pieces, piece, point.theta, a, d)
        )
        for piece in pieces
    ]
    stacked = CellSums(*(jnp.stack(parts) for parts in zip(*found, strict=True)))
    cut = [(name in _OF_SUBJECTS) == (pieces.axis == 0) for name in CellSums._fields]
    return CellSums(
        *(
            parts.reshape(-1)[: pieces.n_units] if along else parts.sum(0)
            for parts, along in zip(stacked, cut, strict=True)
        )
    )


def own_values(pieces: CellPieces, piece: Piece, theta: Array, *items: Array) -> tuple[Array, ...]:
    """Return the values of the subjects and of the items that a piece holds."""
    if pieces.axis == 0:
        return theta[piece.unit], *items
    return theta, *(values[piece.unit] for values in items)


@partial(jax.jit, static_argnums=0)
def _piece_sums(
    family: Family, successes: Array, trials: Array, theta: Array, a: Array, d: Array
) -> CellSums:
    return cell_sums(DenseLayout(successes, trials), family, theta, a, d)


def item_derivatives(coordinates: Coordinates, items: Array) -> tuple[Array, Array]:
    """Return ∂(a, d)/∂u, shape (item, 2, coordinate), and ∂²(a, d)/∂u², with one axis more."""

    def both(u: Array) -> Array:
        return jnp.stack(coordinates.to_items(u))

    return jax.vmap(jax.jacfwd(both))(items), jax.vmap(jax.hessian(both))(items)


def loss_at(
    coordinates: Coordinates,
    spread: Array,
    tilt: Point,
    point: Point,
    sums: CellSums,
    before: AbilityPrior = STANDARD,
) -> float:
    """Return the negative log joint density, up to terms that only the spreads change."""
    theta, items, means = (np.asarray(x, np.float64) for x in point)
    centre = means if coordinates.learned else 0.0
    mean, precision = (np.asarray(x, np.float64) for x in before)
    prior = np.sum(precision * (theta - mean) ** 2) + np.sum(
        ((items - centre) / np.asarray(spread)) ** 2
    )
    if coordinates.learned:
        prior += np.sum((means / np.asarray(coordinates.scales)) ** 2)
    tilted = sum(
        np.vdot(np.asarray(t, np.float64), x)
        for t, x in zip(tilt, (theta, items, means), strict=True)
    )
    return float(np.sum(np.asarray(sums.subject_loss, np.float64)) + 0.5 * prior - tilted)


@partial(jax.jit, static_argnames=("coordinates", "observed"))
def expand(
    coordinates: Coordinates,
    spread: Float[Array, " coordinate"],
    tilt: Point,
    point: Point,
    sums: CellSums,
    before: AbilityPrior = STANDARD,
    *,
    observed: bool,
) -> Expansion:
    """Expand the log joint density around a point.

    With η = a(u) θ + d(u), a piece of the information of u is Jᵀ A J - Σ_k g_k ∂²(a, d)_k/∂u²,
    where A is the information of (a, d), g its score and J = ∂(a, d)/∂u.
    """
    precision = 1 / spread**2
    centre = point.means if coordinates.learned else jnp.zeros_like(spread)
    jacobian, bend = item_derivatives(coordinates, point.items)
    score = jnp.stack([sums.a_score, sums.d_score], -1)
    information = jnp.stack([sums.aa, sums.ad, sums.ad, sums.dd], -1).reshape(-1, 2, 2)
    curvature = jnp.einsum("jpk,jpq,jql->jkl", jacobian, information, jacobian)
    if observed:
        curvature -= jnp.einsum("jp,jpkl->jkl", score, bend)
    away = precision * (point.items - centre)
    of_means = point.means
    if coordinates.learned:
        of_means = away.sum(0) - point.means / jnp.square(jnp.asarray(coordinates.scales))
    gradient = Point(
        sums.theta_score - before.precision * (point.theta - before.mean),
        jnp.einsum("jpk,jp->jk", jacobian, score) - away,
        of_means,
    )
    return Expansion(
        jax.tree.map(jnp.add, gradient, tilt),
        sums.theta_information + before.precision,
        curvature + jnp.diag(precision),
        jacobian,
    )

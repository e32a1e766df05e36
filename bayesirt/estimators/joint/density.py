"""The joint density of abilities, items and the items' means, with its derivatives.

The model has one ability: the 2PL, an extension of it with further item parameters, or LaRT with
its speeds integrated out, which gives each ability a different normal prior. Clustered subjects are
normal about their cluster's ability, which is treated as a further mean. Items are described by
coordinates with normal priors. Their spreads σ are held fixed, because the density has no joint
mode over the spreads; everything else is free.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesirt.estimators.joint.cell_pieces import CellPieces
from bayesirt.estimators.marginal import usual_items
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.loadings import Loadings
from bayesirt.likelihood.passes import ItemSums, Passes, SubjectSums
from bayesirt.models import Priors, ResponseModel

_LEAST_SLOPE = 0.05
_MOST_DIFFICULT = 4.0


class JointPoint(NamedTuple):
    """Values of all parameters, a step between two of them, or a gradient."""

    theta: Float[Array, " subject"]  # Abilities.
    items: Float[Array, "item coordinate"]  # Such as (log a, d).
    # Means of the coordinates (none if the priors are fixed), then abilities of clusters.
    means: Float[Array, " mean"]


class AbilityPrior(NamedTuple):
    """The normal priors of the abilities."""

    mean: float | Float[Array, " subject"]
    precision: float | Float[Array, " subject"]
    # With clusters, whose abilities are added to the mean: each subject's cluster index, and the
    # variance between clusters.
    cluster: Int[Array, " subject"] | None = None
    between: float | Float[Array, ""] = 0.0

    def away(self, theta: Any, gamma: Any) -> Any:
        """Return the differences of abilities from their prior means."""
        differences = theta - self.mean
        return differences if self.cluster is None else differences - gamma[self.cluster]


STANDARD = AbilityPrior(0.0, 1.0)
"""N(0, 1), the prior of the 2PL."""


class Sums(NamedTuple):
    """Sums over cells at a point."""

    subjects: SubjectSums
    items: ItemSums  # For the coefficients a, d and the family's further parameters.


class Coordinates(NamedTuple):
    """The coordinates of an item."""

    # Names of the item parameters; their means and spreads have the prefixes ``mu_`` and
    # ``sigma_``.
    names: tuple[str, ...]
    # Coordinates, shape (..., coordinate) → a, d and the rest, each of shape (...).
    to_items: Callable[[Array], tuple[Array, ...]]
    # a, d and, if known, the rest → coordinates, limited to reasonable values.
    from_items: Callable[..., Array]
    # Scales of the spreads' half-normal priors, or the spreads themselves if they are fixed.
    scales: tuple[float, ...]
    learned: bool  # Whether there are means.
    # Centres and standard deviations of the means' normal priors.
    centres: tuple[float, ...]
    sds: tuple[float, ...]
    known: tuple[bool, ...]  # Which spreads are fixed.
    logarithmic: bool = False  # Whether the first is a log slope.

    @property
    def n_means(self) -> int:
        """Number of coordinates that have a mean."""
        return len(self.names) if self.learned else 0

    def parted(self, means: Any) -> tuple[Any, Any]:
        """Return the coordinates' means (0 if there are none) and the abilities of clusters."""
        item_means = means[: self.n_means]
        return (item_means if self.learned else 0.0), means[self.n_means :]


class Expansion(NamedTuple):
    """Second-order expansion of the log joint density, without cross terms between sides."""

    gradient: JointPoint  # Of the log density.
    theta_curvature: Float[Array, " subject"]
    item_curvature: Float[Array, "item coordinate coordinate"]  # Negative second derivatives.
    jacobian: Float[Array, "item coefficient coordinate"]  # ∂(a, d, ...)/∂u.


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


@cache
def item_coordinates(model: ResponseModel) -> Coordinates:
    """Return the coordinates on which a model's priors are normal."""
    base = _of_slope_and_intercept(model.priors)
    if not model.family.further:
        return base
    usual = usual_items(model)
    free = [name in model.usual for name in model.family.further]
    n, transforms = len(base.names), usual.to_values[2:]
    given = [float(to(x)) for to, x in zip(transforms, usual.centres[2:, 0], strict=True)]

    def to_items(u: Array) -> tuple[Array, ...]:
        a, d = base.to_items(u[..., :n])
        at = iter(range(n, u.shape[-1]))
        others = (
            to(u[..., next(at)]) if learned else jnp.full_like(a, value)
            for to, learned, value in zip(transforms, free, given, strict=True)
        )
        return a, d, *others

    def from_items(a: Array, d: Array, *further: Array) -> Array:
        others = [
            to.inv(further[k]) if further else jnp.full_like(d, usual.centres[k + 2, 0])
            for k, to in enumerate(transforms)
            if free[k]
        ]
        return jnp.concatenate([base.from_items(a, d), *(x[..., None] for x in others)], -1)

    names = tuple(model.usual)
    means = [model.prior_of(f"mu_{name}") for name in names]
    spreads = [model.prior_of(f"sigma_{name}") for name in names]
    return Coordinates(
        (*base.names, *names),
        to_items,
        from_items,
        base.scales
        + tuple(
            model.usual[name][1] if prior is None else float(prior.scale)
            for name, prior in zip(names, spreads, strict=True)
        ),
        base.learned,
        base.centres + tuple(float(prior.loc) for prior in means),
        base.sds + tuple(float(prior.scale) for prior in means),
        base.known + tuple(prior is None for prior in spreads),
        base.logarithmic,
    )


def _of_slope_and_intercept(priors: Priors) -> Coordinates:
    if priors.kind == "fixed":
        spreads, functions = (0.5, 2.0), (_difficulty, _from_difficulty)
        return Coordinates(
            ("a", "b"), *functions, spreads, False, (0.0, 0.0), spreads, (True, True)
        )
    if priors.slopes == "rasch":
        return Coordinates(("d",), _rasch, _from_rasch, (2.0,), True, (0.0,), (2.0,), (False,))
    positive = priors.slopes == "positive"
    functions = (_positive, _from_positive) if positive else (_free, _from_free)
    return Coordinates(
        ("a", "d"), *functions, (0.5, 2.0), True, (0.0, 0.0), (0.5, 2.0), (False,) * 2, positive
    )


def sums_at(
    pieces: CellPieces, family: Family, coordinates: Coordinates, point: JointPoint
) -> Sums:
    """Return the sums over cells at a point, computed piece by piece."""
    piece_sums = [
        _piece_sums(
            family, coordinates, piece.successes, piece.trials,
            *own_values(pieces.axis, piece.unit, point.theta, point.items),
        )
        for piece in pieces
    ]  # fmt: skip
    if len(piece_sums) == 1:
        return piece_sums[0]

    def together(along: bool, *parts: Array) -> Array:
        if not along:
            return jnp.stack(parts).sum(0)
        return jnp.concatenate(parts)[: pieces.n_units]

    subjects, of_items = zip(*piece_sums, strict=True)
    return Sums(
        jax.tree.map(partial(together, pieces.axis == 0), *subjects),
        jax.tree.map(partial(together, pieces.axis == 1), *of_items),
    )


@partial(jax.jit, static_argnums=0)
def own_values(axis: int, unit: Array, theta: Array, *items: Array) -> tuple[Array, ...]:
    """Return the values of the subjects and items in a piece."""
    if axis == 0:
        return theta[unit], *items
    return theta, *(values[unit] for values in items)


@partial(jax.jit, static_argnums=(0, 1))
def _piece_sums(
    family: Family,
    coordinates: Coordinates,
    successes: Array,
    trials: Array,
    theta: Array,
    items: Array,
) -> Sums:
    coefficients = jnp.stack(coordinates.to_items(items), -1)
    layout, loadings = DenseLayout(successes, trials), Loadings(len(items), 1)
    passes = Passes(layout, family, loadings, theta.dtype)
    return Sums(*passes.both_sums(theta[:, None], coefficients))


def item_derivatives(coordinates: Coordinates, items: Array) -> tuple[Array, Array]:
    """Return ∂(a, d, ...)/∂u, shape (item, coefficient, coordinate), and its derivative in u."""

    def together(u: Array) -> Array:
        return jnp.stack(coordinates.to_items(u))

    return jax.vmap(jax.jacfwd(together))(items), jax.vmap(jax.hessian(together))(items)


def loss_at(
    coordinates: Coordinates,
    spread: Array,
    tilt: JointPoint,
    point: JointPoint,
    sums: Sums,
    before: AbilityPrior = STANDARD,
) -> float:
    """Return the negative log joint density, up to terms that depend on the spreads only."""
    theta, items, means = (np.asarray(x, np.float64) for x in point)
    centre, gamma = coordinates.parted(means)
    differences = np.asarray(before.away(theta, gamma), np.float64)
    prior = np.sum(np.asarray(before.precision, np.float64) * differences**2)
    prior += np.sum(((items - centre) / np.asarray(spread)) ** 2)
    if len(gamma):
        prior += np.sum(gamma**2) / float(before.between)
    if coordinates.learned:
        prior += np.sum(((centre - coordinates.centres) / np.asarray(coordinates.sds)) ** 2)
    tilted = sum(
        np.vdot(np.asarray(t, np.float64), x)
        for t, x in zip(tilt, (theta, items, means), strict=True)
    )
    log_likelihood = np.sum(np.asarray(sums.subjects.log_likelihood, np.float64))
    return float(0.5 * prior - tilted - log_likelihood)


@partial(jax.jit, static_argnames=("coordinates", "observed"))
def expand(
    coordinates: Coordinates,
    spread: Float[Array, " coordinate"],
    tilt: JointPoint,
    point: JointPoint,
    sums: Sums,
    before: AbilityPrior = STANDARD,
    *,
    observed: bool,
) -> Expansion:
    """Expand the log joint density around a point.

    With z(u) = (a, d, ...), the information about u is Jᵀ A J - Σ_k g_k ∂²z_k/∂u², where A is the
    information about z, g its score and J = ∂z/∂u. The second term is included if `observed`.
    """
    precision = 1 / spread**2
    centre, gamma = coordinates.parted(point.means)
    jacobian, bend = item_derivatives(coordinates, point.items)
    score = sums.items.score
    curvature = jnp.einsum("jpk,jpq,jql->jkl", jacobian, sums.items.information, jacobian)
    if observed:
        curvature -= jnp.einsum("jp,jpkl->jkl", score, bend)
    item_pull = precision * (point.items - centre)
    pull = before.precision * before.away(point.theta, gamma)
    of_means = gamma
    if before.cluster is not None:
        of_means = jax.ops.segment_sum(pull, before.cluster, len(gamma)) - gamma / before.between
    if coordinates.learned:
        from_centres = centre - jnp.asarray(coordinates.centres)
        centre_pull = item_pull.sum(0) - from_centres / jnp.square(jnp.asarray(coordinates.sds))
        of_means = jnp.concatenate([centre_pull, of_means])
    gradient = JointPoint(
        sums.subjects.score[:, 0] - pull,
        jnp.einsum("jpk,jp->jk", jacobian, score) - item_pull,
        of_means,
    )
    return Expansion(
        jax.tree.map(jnp.add, gradient, tilt),
        sums.subjects.information[:, 0, 0] + before.precision,
        curvature + jnp.diag(precision),
        jacobian,
    )

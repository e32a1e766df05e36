"""The curvature of the joint density as an arrow matrix with its larger side eliminated."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.cells import Cells
from bayesirt.estimators import lapack
from bayesirt.estimators.joint.arrow_system import Arrow, CrossPiece, Floats
from bayesirt.estimators.joint.cell_pieces import CellPieces, cut_cells
from bayesirt.estimators.joint.density import (
    STANDARD,
    AbilityPrior,
    Coordinates,
    Expansion,
    JointPoint,
    Sums,
    item_coordinates,
    own_values,
    sums_at,
)
from bayesirt.likelihood.family import Family
from bayesirt.models import ResponseModel


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Responses and priors, cut along the side to be eliminated."""

    pieces: CellPieces
    coordinates: Coordinates
    # For passes that build and use the arrow matrix; sums and factorisations are not affected.
    dtype: Any
    family: Family
    before: AbilityPrior = STANDARD

    @property
    def eliminates_items(self) -> bool:
        """Whether items are the larger side."""
        return self.pieces.axis == 1

    @property
    def n_kept(self) -> int:
        """Number of parameters on the kept side, excluding the means."""
        others = self.pieces.cells.shape[1 - self.pieces.axis]
        return others if self.eliminates_items else others * len(self.coordinates.names)

    def sums(self, point: JointPoint) -> Sums:
        """Return the sums over the cells at a point."""
        return sums_at(self.pieces, self.family, self.coordinates, point)

    def split(self, point: JointPoint) -> tuple[Floats, Floats]:
        """Return the kept side with the means, shape (kept,), and the rest, shape (unit, own)."""
        theta, items, means = (np.asarray(x, np.float64) for x in point)
        if self.eliminates_items:
            return np.concatenate([theta, means]), items
        return np.concatenate([items.ravel(), means]), theta[:, None]

    def join(self, kept: Floats, own: Floats) -> JointPoint:
        """Invert `split`."""
        sides, means = np.split(kept, [self.n_kept])
        if self.eliminates_items:
            return JointPoint(*map(jnp.asarray, (sides, own, means)))
        items = sides.reshape(-1, len(self.coordinates.names))
        return JointPoint(*map(jnp.asarray, (own[:, 0], items, means)))


def joint_problem(
    cells: Cells,
    model: ResponseModel,
    *,
    before: AbilityPrior = STANDARD,
    dtype: Any = None,
    eliminate: Literal["subjects", "items"] | None = None,
    piece_size: int | None = None,
) -> JointProblem:
    """Set up a problem."""
    coordinates = item_coordinates(model)
    n_subjects, n_items = cells.shape
    if eliminate is None:
        larger = n_items * len(coordinates.names) >= n_subjects
        eliminate = "items" if larger else "subjects"
    pieces = cut_cells(cells, 1 if eliminate == "items" else 0, piece_size)
    dtype = jnp.dtype(dtype or jnp.zeros(()).dtype)
    return JointProblem(pieces, coordinates, dtype, model.family, before)


def arrow_at(
    problem: JointProblem, spread: Array, point: JointPoint, expansion: Expansion, *, observed: bool
) -> Arrow:
    """Return the negative Hessian of the log joint density at a point."""
    items = np.asarray(expansion.item_curvature, np.float64)
    subjects = np.asarray(expansion.theta_curvature, np.float64)[:, None, None]
    means = np.diag(np.asarray(means_curvature(problem, spread, point), np.float64))
    of_items = partial(_item_border, spread, problem.coordinates.n_means, len(means))
    of_subjects = partial(_subject_border, problem, len(means))
    if problem.eliminates_items:
        kept, own, kept_border, own_border = subjects, items, of_subjects, of_items
    else:
        kept, own, kept_border, own_border = items, subjects, of_items, of_subjects
    factor = _inverse_factors(own).astype(problem.dtype)

    def pieces() -> Iterator[CrossPiece]:
        return _cross_pieces(problem, point, expansion, factor, own_border, observed)

    return Arrow(kept, kept_border(np.arange(len(kept))), means, factor, pieces)


def means_curvature(problem: JointProblem, spread: Array, point: JointPoint) -> Array:
    """Return the curvature of each mean, given everything else."""
    coordinates, before = problem.coordinates, problem.before
    curvature = len(point.items) / spread**2 + jnp.asarray(coordinates.sds) ** -2
    curvature = curvature[: coordinates.n_means]
    if before.cluster is None:
        return curvature
    n_clusters = len(point.means) - coordinates.n_means
    precision = jnp.broadcast_to(before.precision, before.cluster.shape)
    of_clusters = jax.ops.segment_sum(precision, before.cluster, n_clusters)
    return jnp.concatenate([curvature, of_clusters + 1 / before.between])


def _item_border(spread: Array, n_own: int, n_means: int, unit: NDArray[np.intp]) -> Floats:
    """Return the cross terms of items and means, shape (unit, coordinate, mean)."""
    border = np.zeros((len(spread), n_means))
    border[:, :n_own] = -np.diag(np.asarray(spread, np.float64) ** -2)[:, :n_own]
    return np.broadcast_to(border, (len(unit), *border.shape))


def _subject_border(problem: JointProblem, n_means: int, unit: NDArray[np.intp]) -> Floats:
    """Return the cross terms of subjects and means, shape (unit, 1, mean)."""
    border = np.zeros((len(unit), 1, n_means))
    before = problem.before
    if before.cluster is not None:
        at = problem.coordinates.n_means + np.asarray(before.cluster)[unit]
        precision = np.broadcast_to(before.precision, np.shape(before.cluster))
        border[np.arange(len(unit)), 0, at] = -precision[unit]
    return border


def _inverse_factors(blocks: Floats) -> Array:
    """Return L⁻¹ of each block; NaN where a block is not positive definite."""
    return lapack.inv_triangular(lapack.cholesky(jnp.asarray(blocks)))


def _cross_pieces(
    problem: JointProblem,
    point: JointPoint,
    expansion: Expansion,
    factor: Array,
    own_border: Callable[[NDArray[np.intp]], Floats],
    observed: bool,
) -> Iterator[CrossPiece]:
    dtype = problem.dtype
    values = _values(problem, point, expansion)
    for piece in problem.pieces:
        unit_values = own_values(problem.pieces.axis, piece.unit, *values)
        own_factor = jnp.take(factor, piece.unit, 0, mode="clip")
        whitened = _whitened(
            problem.family,
            problem.eliminates_items,
            observed,
            (piece.successes, piece.trials),
            unit_values,
            jnp.asarray(np.moveaxis(own_border(piece.unit), 2, 0), dtype),
            own_factor,
            piece.live,
        )
        yield CrossPiece(int(piece.unit[0]), int(piece.live.sum()), own_factor, whitened)


def _values(problem: JointProblem, point: JointPoint, expansion: Expansion) -> list[Array]:
    """Return abilities, ∂z/∂u and the coefficients z of items, in the problem's dtype."""
    items = problem.coordinates.to_items(point.items)
    return [x.astype(problem.dtype) for x in (point.theta, expansion.jacobian, *items)]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _whitened(
    family: Family,
    eliminates_items: bool,
    observed: bool,
    cells: tuple[Array, Array],
    values: tuple[Array, ...],
    border: Float[Array, "mean unit own"],
    own_factor: Float[Array, "unit own own"],
    live: Array,
) -> Float[Array, "kept unit own"]:
    """Return W of a piece: (a Σ_k w_0k J_k - s J_a) L⁻ᵀ with J_0 = J_a θ + J_d, and the border."""
    theta, jacobian, a, d, *further = values
    terms = family.every(theta[:, None] * a + d, *cells, *further)
    weight, *mixed = ((w * a)[..., None] for w in terms.information[0])
    cross = weight * (theta[:, None, None] * jacobian[:, 0] + jacobian[:, 1])
    for w, slopes in zip(mixed, jnp.moveaxis(jacobian[:, 2:], 1, 0), strict=True):
        cross += w * slopes
    if observed:
        cross -= terms.score[0][..., None] * jacobian[:, 0]
    if not eliminates_items:
        cross = cross.transpose(1, 2, 0).reshape(-1, len(theta), 1)
    rows = jnp.concatenate([cross, jnp.where(live[:, None], border, 0)])
    return (rows[:, :, None, :] * own_factor).sum(-1)


def information_noise(
    problem: JointProblem,
    spread: Array,
    point: JointPoint,
    expansion: Expansion,
    key: Array,
    n: int,
) -> tuple[Array, Array]:
    """Draw noise whose covariance is the expected information, without forming the matrix.

    It is Σ_ij √w_ij ε_ij ∂η_ij plus corresponding terms of the priors, with ε ~ N(0, 1).
    """
    keys, before = jax.random.split(key, 5), problem.before
    theta = jax.random.normal(keys[0], (len(point.theta), n), problem.dtype)
    theta *= jnp.sqrt(jnp.asarray(before.precision, problem.dtype)).reshape(-1, 1)
    item_noise = jax.random.normal(keys[1], (*point.items.shape, n), problem.dtype)
    item_noise /= spread[:, None].astype(problem.dtype)
    items, means = item_noise, jnp.zeros((0, n), problem.dtype)
    if problem.coordinates.learned:
        noise = jax.random.normal(keys[2], (len(spread), n), problem.dtype)
        means = noise / jnp.asarray(problem.coordinates.sds, problem.dtype)[:, None] - items.sum(0)
    if before.cluster is not None:
        noise = jax.random.normal(keys[4], (len(point.means) - len(means), n), problem.dtype)
        within = jax.ops.segment_sum(theta, before.cluster, len(noise))
        means = jnp.concatenate([means, noise / jnp.sqrt(before.between) - within])
    values = _values(problem, point, expansion)
    for piece in problem.pieces:
        draws = jax.random.split(jax.random.fold_in(keys[3], int(piece.unit[0])), n)
        mine = own_values(problem.pieces.axis, piece.unit, *values)
        of_theta, of_items = _piece_noise(
            problem.family, piece.successes, piece.trials, mine, draws
        )
        if problem.eliminates_items:
            theta, items = theta + of_theta, items.at[piece.unit].add(of_items)
        else:
            theta, items = theta.at[piece.unit].add(of_theta), items + of_items
    if problem.eliminates_items:
        return jnp.concatenate([theta, means]), items
    return jnp.concatenate([items.reshape(-1, n), means]), theta[:, None]


@partial(jax.jit, static_argnums=0)
def _piece_noise(
    family: Family, successes: Array, trials: Array, values: tuple[Array, ...], keys: Array
) -> tuple[Array, Array]:
    theta, jacobian, a, d, *further = values
    information = family.every(theta[:, None] * a + d, successes, trials, *further).information
    root = _root(information)

    def one(key: Array) -> tuple[Array, Array]:
        white = jax.random.normal(key, (len(root), len(theta), len(a)), a.dtype)
        noise, *others = (sum(map(operator.mul, row, white)) for row in root)
        along = jnp.stack([theta @ noise, *(x.sum(0) for x in (noise, *others))], -1)
        return noise @ a, jnp.einsum("jp,jpk->jk", along, jacobian)

    of_theta, of_items = jax.lax.map(one, keys)
    return of_theta.T, jnp.moveaxis(of_items, 0, -1)


def _root(information: tuple[tuple[Array, ...], ...]) -> list[list[Array]]:
    """Return the lower Cholesky factor of each cell's information, 0 if it is uninformative."""
    root: list[list[Array]] = []
    for i, row in enumerate(information):
        root.append([])
        for j in range(i + 1):
            entry = row[j] - sum(root[i][k] * root[j][k] for k in range(j))
            if j == i:
                root[i].append(jnp.sqrt(jnp.maximum(entry, 0)))
            else:
                pivot = root[j][j]
                root[i].append(jnp.where(pivot > 0, entry / jnp.where(pivot > 0, pivot, 1), 0))
    return root

"""The curvature of the joint density as an arrow matrix, the larger side eliminated."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.data.cells import Cells
from bayesirt.inference.arrow_system import Arrow, CrossPiece, Floats
from bayesirt.inference.cell_pieces import CellPieces, cut_cells
from bayesirt.inference.joint_density import (
    STANDARD,
    AbilityPrior,
    Coordinates,
    Expansion,
    Point,
    Sums,
    item_coordinates,
    own_values,
    sums_at,
)
from bayesirt.likelihood.family import Family
from bayesirt.models import ResponseModel


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Responses and priors, cut along the side that will be eliminated."""

    pieces: CellPieces
    coordinates: Coordinates
    # Of the passes that build and use the arrow matrix; sums and factorisations keep theirs.
    dtype: Any
    family: Family
    before: AbilityPrior = STANDARD

    @property
    def eliminates_items(self) -> bool:
        """Whether items are the larger side."""
        return self.pieces.axis == 1

    @property
    def n_kept(self) -> int:
        """Number of parameters on the kept side, without the means."""
        others = self.pieces.cells.shape[1 - self.pieces.axis]
        return others if self.eliminates_items else others * len(self.coordinates.names)

    def sums(self, point: Point) -> Sums:
        """Return the sums over the cells at a point."""
        return sums_at(self.pieces, self.family, self.coordinates, point)

    def split(self, point: Point) -> tuple[Floats, Floats]:
        """Return the kept side with the means, shape (kept,), and the rest, shape (unit, own)."""
        theta, items, means = (np.asarray(x, np.float64) for x in point)
        if self.eliminates_items:
            return np.concatenate([theta, means]), items
        return np.concatenate([items.ravel(), means]), theta[:, None]

    def join(self, kept: Floats, own: Floats) -> Point:
        """Return what `split` split."""
        n_means = len(self.coordinates.names) if self.coordinates.learned else 0
        sides, means = np.split(kept, [len(kept) - n_means])
        if self.eliminates_items:
            return Point(*map(jnp.asarray, (sides, own, means)))
        items = sides.reshape(-1, len(self.coordinates.names))
        return Point(*map(jnp.asarray, (own[:, 0], items, means)))


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
    problem: JointProblem, spread: Array, point: Point, expansion: Expansion, *, observed: bool
) -> Arrow:
    """Return the negative Hessian of the log joint density at a point."""
    items = np.asarray(expansion.item_curvature, np.float64)
    subjects = np.asarray(expansion.theta_curvature, np.float64)[:, None, None]
    means, border = _of_means(problem.coordinates, spread, len(items))
    if problem.eliminates_items:
        kept, own = subjects, items
        kept_border, own_border = np.zeros((len(kept), 1, len(means))), border
    else:
        kept, own = items, subjects
        kept_border = np.broadcast_to(border.T, (len(kept), *border.T.shape))
        own_border = np.zeros((len(means), 1))
    factor = _inverse_factors(own).astype(problem.dtype)

    def pieces() -> Iterator[CrossPiece]:
        return _cross_pieces(problem, point, expansion, factor, own_border, observed)

    return Arrow(kept, kept_border, means, factor, pieces)


def _of_means(coordinates: Coordinates, spread: Array, n_items: int) -> tuple[Floats, Floats]:
    """Return the means' own curvature and their cross term with any one item."""
    size = len(spread)
    if not coordinates.learned:
        return np.zeros((0, 0)), np.zeros((0, size))
    precision = 1 / np.asarray(spread, np.float64) ** 2
    return np.diag(n_items * precision + 1 / np.square(coordinates.sds)), -np.diag(precision)


def _inverse_factors(blocks: Floats) -> Array:
    """Return L⁻¹ of each block; NaN where a block is not positive definite."""
    factors = jnp.linalg.cholesky(jnp.asarray(blocks))
    identity = jnp.broadcast_to(jnp.eye(blocks.shape[-1]), factors.shape)
    return jax.scipy.linalg.solve_triangular(factors, identity, lower=True)


def _cross_pieces(
    problem: JointProblem,
    point: Point,
    expansion: Expansion,
    factor: Array,
    own_border: Floats,
    observed: bool,
) -> Iterator[CrossPiece]:
    dtype = problem.dtype
    values = _values(problem, point, expansion)
    border = jnp.asarray(own_border, dtype)
    for piece in problem.pieces:
        own = own_values(problem.pieces, piece, *values)
        own_factor = factor[piece.unit]
        whitened = _whitened(
            problem.family,
            problem.eliminates_items,
            observed,
            (piece.successes, piece.trials),
            own,
            border,
            own_factor,
            piece.live,
        )
        yield CrossPiece(int(piece.unit[0]), int(piece.live.sum()), own_factor, whitened)


def _values(problem: JointProblem, point: Point, expansion: Expansion) -> list[Array]:
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
    border: Array,
    own_factor: Float[Array, "unit own own"],
    live: Array,
) -> Float[Array, "kept unit own"]:
    """Return W of a piece: (a Σ_k w_0k J_k - s J_a) L⁻ᵀ, J_0 = J_a θ + J_d, and the border's."""
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
    own = own_factor.shape[1]
    shared = jnp.broadcast_to(border[:, None], (len(border), len(live), own))
    rows = jnp.concatenate([cross, jnp.where(live[:, None], shared, 0)])
    return (rows[:, :, None, :] * own_factor).sum(-1)


def information_noise(
    problem: JointProblem, spread: Array, point: Point, expansion: Expansion, key: Array, n: int
) -> tuple[Array, Array]:
    """Draw noise whose covariance is the expected information, without forming the matrix.

    Σ_ij √w_ij ε_ij ∂η_ij and the like from each prior's term, with ε ~ N(0, 1) for each.
    """
    keys = jax.random.split(key, 4)
    theta = jax.random.normal(keys[0], (len(point.theta), n), problem.dtype)
    theta *= jnp.sqrt(jnp.asarray(problem.before.precision, problem.dtype)).reshape(-1, 1)
    away = jax.random.normal(keys[1], (*point.items.shape, n), problem.dtype)
    items = away / spread[:, None].astype(problem.dtype)
    means = jnp.zeros((0, n), problem.dtype)
    if problem.coordinates.learned:
        own = jax.random.normal(keys[2], (len(spread), n), problem.dtype)
        means = own / jnp.asarray(problem.coordinates.sds, problem.dtype)[:, None] - items.sum(0)
    values = _values(problem, point, expansion)
    for piece in problem.pieces:
        draws = jax.random.split(jax.random.fold_in(keys[3], int(piece.unit[0])), n)
        mine = own_values(problem.pieces, piece, *values)
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
        noise, *beside = (sum(map(operator.mul, row, white)) for row in root)
        along = jnp.stack([theta @ noise, *(x.sum(0) for x in (noise, *beside))], -1)
        return noise @ a, jnp.einsum("jp,jpk->jk", along, jacobian)

    of_theta, of_items = jax.lax.map(one, keys)
    return of_theta.T, jnp.moveaxis(of_items, 0, -1)


def _root(information: tuple[tuple[Array, ...], ...]) -> list[list[Array]]:
    """Return the lower Cholesky factor of each cell's information, 0 where it says nothing."""
    root: list[list[Array]] = []
    for i, row in enumerate(information):
        root.append([])
        for j in range(i + 1):
            rest = row[j] - sum(root[i][k] * root[j][k] for k in range(j))
            if j == i:
                root[i].append(jnp.sqrt(jnp.maximum(rest, 0)))
            else:
                pivot = root[j][j]
                root[i].append(jnp.where(pivot > 0, rest / jnp.where(pivot > 0, pivot, 1), 0))
    return root

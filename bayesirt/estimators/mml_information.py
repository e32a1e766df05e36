"""Observed information of all items together, abilities integrated out (Louis 1982).

It is what seen abilities would tell, a 2 x 2 block for each item, less what is lost by not seeing
them: the sum over subjects of the posterior covariance of the score. In polynomials of θ that are
orthonormal under a subject's posterior, this covariance is a sum of squares of which the first
few suffice: the score is a smooth function of θ, and the posterior is narrow on long tests.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri

from bayesirt.data.cells import Cells, SparseCells
from bayesirt.estimators.mml_grid import log_joint_of, weights_of
from bayesirt.estimators.weak_prior import WeakPrior
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT

_PIECE_CELLS = 1 << 20
_NEGLIGIBLE = 1e-8
"""Share of what is lost: later polynomials say less."""

_USUAL_DIRECTIONS = 3
"""Polynomials that long tests need."""

Matrix = NDArray[np.float64]


class ItemCovariance(NamedTuple):
    """Of each item's estimate."""

    # shape (item,). Variances of a and d, and their covariance.
    of_a: Matrix
    of_d: Matrix
    of_both: Matrix


def own_covariance(information: ArrayLike, prior: WeakPrior) -> ItemCovariance:
    """Return the covariance as if abilities were seen: a lower bound."""
    aa, ad, dd = _with_prior(information, prior)
    determinant = aa * dd - ad**2
    return ItemCovariance(dd / determinant, aa / determinant, -ad / determinant)


def observed_covariance(
    cells: Cells,
    grid: Float[Array, " node"],
    items: Float[Array, "2 item"],
    information: ArrayLike,
    prior: WeakPrior,
    *,
    most_directions: int,
) -> ItemCovariance:
    """Return the covariance from the observed information.

    With D the items' own blocks and C one column for each subject and polynomial, the matrix is D -
    C Cᵀ. It is inverted on the smaller side: that of the items, or that of the columns by
    Woodbury's formula.

    Louis 1982.
    """
    own = _with_prior(information, prior)
    pieces = _pieces(cells, grid, items, own, most_directions)
    n_subjects, n_items = cells.shape
    if _USUAL_DIRECTIONS * n_subjects < 2 * n_items:
        least = min(prior.a_precision, prior.d_precision) / own.max()
        return _by_columns(own, pieces, least)
    return _by_items(own, pieces, min(prior.a_precision, prior.d_precision))


def n_held(n_subjects: int, n_items: int) -> int:
    """Return about how many rows the matrix has that `observed_covariance` inverts."""
    return min(_USUAL_DIRECTIONS * n_subjects, 2 * n_items)


def _with_prior(information: ArrayLike, prior: WeakPrior) -> Matrix:
    added = [[prior.a_precision], [0], [prior.d_precision]]
    return np.asarray(information, np.float64) + np.array(added)


def _by_items(own: Matrix, pieces: Iterator[Matrix], least: float) -> ItemCovariance:
    n = own.shape[1]
    matrix = np.zeros((2 * n, 2 * n))
    for piece in pieces:
        matrix -= piece.T @ piece
    at = np.arange(n)
    matrix[at, at] += own[0]
    matrix[n + at, n + at] += own[2]
    matrix[at, n + at] += own[1]
    matrix[n + at, at] += own[1]
    inverse = _inverse(matrix, least)
    both = np.diag(inverse)
    return ItemCovariance(both[:n], both[n:], np.diag(inverse[n:, :n]))


def _inverse(matrix: Matrix, least: float) -> Matrix:
    """Return the inverse, its lower half, of a symmetric matrix, eigenvalues raised to `least`."""
    least = max(least, np.finfo(float).eps * np.abs(matrix).sum(1).max())
    factor, failed = dpotrf(matrix, lower=1)
    if not failed:
        inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
        if 2 * (np.tril(inverse) ** 2).sum() < least**-2:  # no eigenvalue is below `least`
            return inverse
    values, vectors = eigh(matrix)
    return (vectors / np.maximum(values, least)) @ vectors.T


def _by_columns(own: Matrix, pieces: Iterator[Matrix], least: float) -> ItemCovariance:
    """Return L⁻ᵀ (I + Z (I - Zᵀ Z)⁻¹ Zᵀ) L⁻¹ with D = L Lᵀ and Z = L⁻¹ C, only its own blocks."""
    aa, ad, dd = own
    first = np.sqrt(aa)
    below = ad / first
    last = np.sqrt(dd - below**2)
    columns = []
    for piece in pieces:
        of_a, of_d = np.split(piece, 2, axis=1)
        of_a = of_a / first
        columns.append(np.concatenate([of_a, (of_d - below * of_a) / last], axis=1))
    whitened = np.concatenate(columns)
    known = _solved(np.eye(len(whitened)) - whitened @ whitened.T, whitened, least)
    far_a, far_d = np.split(known, 2, axis=1)
    one, two, three = 1 + (far_a**2).sum(0), (far_a * far_d).sum(0), 1 + (far_d**2).sum(0)
    p, q, r = 1 / first, -below / (first * last), 1 / last
    return ItemCovariance(
        p**2 * one + 2 * p * q * two + q**2 * three, r**2 * three, r * (p * two + q * three)
    )


def _solved(matrix: Matrix, right: Matrix, least: float) -> Matrix:
    """Return F with Fᵀ F = rightᵀ matrix⁻¹ right, eigenvalues raised to `least`."""
    try:
        return solve_triangular(cholesky(matrix, lower=True), right, lower=True)
    except np.linalg.LinAlgError:
        values, vectors = eigh(matrix)
        return (vectors / np.sqrt(np.maximum(values, least))).T @ right


def _pieces(
    cells: Cells, grid: Array, items: Array, own: Matrix, most_directions: int
) -> Iterator[Matrix]:
    """Yield rows of Cᵀ, shape (row, 2 item), for some subjects and one polynomial at a time."""
    n_subjects, n_items = cells.shape
    n_rows = max(1, _PIECE_CELLS // max(n_items, len(grid)))
    diagonal = np.concatenate([own[0], own[2]])
    for start in range(0, n_subjects, n_rows):
        successes, trials = _rows(cells, start, min(start + n_rows, n_subjects))
        layout = DenseLayout(jnp.asarray(successes), jnp.asarray(trials))
        before, now, root = _first_polynomials(layout, grid, items)
        total = 0.0
        for _ in range(most_directions):
            piece = np.asarray(_coefficients(layout, grid, items, root, now), np.float64)
            yield piece
            size = float((piece**2 / diagonal).sum())
            total += size
            if size <= _NEGLIGIBLE * total:
                break
            before, now = now, _next_polynomial(grid, before, now)


def _rows(cells: Cells, start: int, stop: int) -> tuple[NDArray[np.integer], ...]:
    """Return successes and trials of some subjects as matrices."""
    if not isinstance(cells, SparseCells):
        successes, trials = cells.matrices()
        return successes[start:stop], trials[start:stop]
    listed = cells.listed()
    inside = slice(*np.searchsorted(listed.subject, (start, stop)))
    at = listed.subject[inside] - start, listed.item[inside]
    found = []
    for values in (listed.successes, listed.trials):
        matrix = np.zeros((stop - start, cells.shape[1]), values.dtype)
        matrix[at] = values[inside]
        found.append(matrix)
    return tuple(found)


@jax.jit
def _first_polynomials(
    layout: DenseLayout, grid: Array, items: Array
) -> tuple[Array, Array, Array]:
    """Return √weight times the polynomials of degree 0 and 1 at each node, and √weight."""
    failure = LOGIT.terms(grid[:, None] * items[0] + items[1], jnp.zeros(()), jnp.ones(()))
    softplus = layout.trials @ -failure.log_likelihood.T
    root = jnp.sqrt(weights_of(log_joint_of(layout, softplus, grid, items))[0])
    return root, _next_polynomial(grid, jnp.zeros_like(root), root), root


@jax.jit
def _next_polynomial(grid: Array, before: Array, now: Array) -> Array:
    """Return θ times a polynomial, made orthogonal to it and to the one before, of length 1."""
    following = grid * now
    for _ in range(2):
        for other in (now, before):
            following -= (following * other).sum(1, keepdims=True) * other
    length = jnp.sqrt((following**2).sum(1, keepdims=True))
    return following / jnp.maximum(length, jnp.finfo(length.dtype).tiny)


@jax.jit
def _coefficients(
    layout: DenseLayout, grid: Array, items: Array, root: Array, polynomial: Array
) -> Array:
    """Return the posterior covariance of the score in (a, d) with a polynomial of θ."""
    p = -LOGIT.terms(grid[:, None] * items[0] + items[1], jnp.zeros(()), jnp.ones(())).score
    weights = root * polynomial
    of_a = layout.successes * (weights @ grid)[:, None] - layout.trials * ((weights * grid) @ p)
    return jnp.concatenate([of_a, -(layout.trials * (weights @ p))], axis=1)

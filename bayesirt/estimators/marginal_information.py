"""Observed information of all items together, with abilities integrated out (Louis 1982).

It is the information with observed abilities, a block for each item, minus the missing information:
the sum over subjects of the covariance of all items' score over the ability's posterior. With
quadrature nodes this is a sum of squares.
"""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from bayesirt.data.cells import Cells
from bayesirt.estimators.joint.cell_pieces import cut_cells
from bayesirt.likelihood.family import Family

_PIECE_NUMBERS = 1 << 22
_LEAST_LEFT = 1e-3
"""Least share of the complete-data information that is taken to remain."""

Matrix = NDArray[np.float64]


def observed_covariance(
    own: Float[Array, "item coefficient coefficient"], lost: Iterator[Matrix], *, by_items: bool
) -> Matrix:
    """Return each item's block of (D - C Cᵀ)⁻¹.

    D has the blocks `own`; rows of Cᵀ, shape (row, item, coefficient), come piece by piece. With
    D = L Lᵀ and Z = L⁻¹ C, the blocks of I + Z (I - Zᵀ Z)⁻¹ Zᵀ are needed. They are computed on the
    side of the items, which does not store rows, or on the side of the rows.
    """
    root = np.linalg.inv(np.linalg.cholesky(np.asarray(own, np.float64)))
    n_items, size, _ = root.shape
    white = (np.einsum("rjc,jdc->rjd", x, root).reshape(len(x), -1) for x in lost)
    if by_items:
        rest = np.eye(n_items * size)
        for piece in white:
            rest -= piece.T @ piece
        far = _root_of_inverse(rest)
    else:
        flat = np.concatenate(list(white))
        far = _root_of_inverse(np.eye(len(flat)) - flat @ flat.T) @ flat
    far = far.reshape(-1, n_items, size)
    inside = np.einsum("rjc,rjd->jcd", far, far) + (0 if by_items else np.eye(size))
    return np.einsum("jdc,jde,jef->jcf", root, inside, root)


def _root_of_inverse(matrix: Matrix) -> Matrix:
    """Return F with Fᵀ F the inverse; too small eigenvalues are raised."""
    try:
        factor = cholesky(matrix, lower=True)
        if np.diag(factor).min() ** 2 > _LEAST_LEFT:
            return solve_triangular(factor, np.eye(len(matrix)), lower=True)
    except np.linalg.LinAlgError:
        pass
    values, vectors = eigh(matrix)
    return (vectors / np.sqrt(np.maximum(values, _LEAST_LEFT))).T


def score_roots(
    cells: Cells,
    family: Family,
    nodes: Float[Array, "subject node"],
    weights: Float[Array, "subject node"],
    coefficients: tuple[Float[Array, " item"], ...],
    rates: Float[Array, "coefficient item"],
) -> Iterator[Matrix]:
    """Yield √w times the centred score at each node, for some subjects at a time.

    `rates` are derivatives of the coefficients with respect to the items' sites.
    """
    size = max(1, _PIECE_NUMBERS // (cells.shape[1] * nodes.shape[1] * len(rates)))
    for piece in cut_cells(cells, 0, size):
        quadrature = nodes[piece.unit], jnp.where(piece.live[:, None], weights[piece.unit], 0)
        roots = _roots(family, (piece.successes, piece.trials), *quadrature, coefficients, rates)
        yield np.asarray(roots, np.float64).reshape(-1, *roots.shape[2:])


@partial(jax.jit, static_argnums=0)
def _roots(
    family: Family,
    cells: tuple[Array, Array],
    nodes: Array,
    weights: Array,
    coefficients: tuple[Array, ...],
    rates: Array,
) -> Float[Array, "node subject item coefficient"]:
    a, d, *further = coefficients

    def score_at(theta: Array) -> Array:
        terms = family.every(theta[:, None] * a + d, *cells, *further)
        return jnp.stack([terms.score[0] * theta[:, None], *terms.score], -1) * rates.T

    scores = jax.vmap(score_at)(nodes.T)
    root = jnp.sqrt(weights.T)[:, :, None, None]
    return root * (scores - (root**2 * scores).sum(0))

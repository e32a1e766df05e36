"""Linear algebra of an arrow matrix by eliminating its larger side.

The matrix is [[K, C], [Cᵀ, E]]: K covers the kept side and a few shared means, and E is
block-diagonal over the eliminated units. With E_j = L_j L_jᵀ and W_j = C_j L_j⁻ᵀ, the Schur
complement is S = K - W Wᵀ. Only S is held in memory as a whole; W is recomputed in pieces for each
pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dtrtri

Floats = NDArray[np.float64]


class CrossPiece(NamedTuple):
    """W for a few eliminated units."""

    # Index of the first unit, and number of units; the rest is padding with W = 0.
    start: int
    live: int
    own_factor: Float[Array, "unit own own"]  # L_j⁻¹.
    whitened: Float[Array, "kept unit own"]  # W_j.


@dataclass(frozen=True, eq=False)
class Arrow:
    """An arrow matrix."""

    kept_blocks: Floats  # shape (kept unit, block, block)
    border: Floats  # shape (kept unit, block, mean). Between kept units and means.
    of_means: Floats  # shape (mean, mean)
    # L_j⁻¹ of each eliminated unit; NaN where its block is not positive definite.
    own_factor: Float[Array, "unit own own"]
    pieces: Callable[[], Iterator[CrossPiece]]  # Returns an iterator over the pieces of W.

    @property
    def n_kept(self) -> int:
        """Size of K: kept units times their block size, plus the means."""
        units, block, _ = self.kept_blocks.shape
        return units * block + len(self.of_means)

    def kept_matrix(self) -> Floats:
        """Return K, shape (kept, kept)."""
        units, block, _ = self.kept_blocks.shape
        matrix = np.zeros((self.n_kept, self.n_kept))
        at = np.arange(units * block).reshape(units, block)
        matrix[at[:, :, None], at[:, None, :]] = self.kept_blocks
        flat = self.border.reshape(units * block, len(self.of_means))
        matrix[: units * block, units * block :] = flat
        matrix[units * block :, : units * block] = flat.T
        matrix[units * block :, units * block :] = self.of_means
        return matrix


def inverse_factor(arrow: Arrow) -> Floats | None:
    """Return R = L⁻¹ of the Schur complement S = L Lᵀ, in float64."""
    if not bool(jnp.isfinite(arrow.own_factor).all()):
        return None
    total = jnp.zeros((arrow.n_kept, arrow.n_kept), arrow.own_factor.dtype)
    for piece in arrow.pieces():
        total = _add_products(total, piece.whitened)
    schur = arrow.kept_matrix()
    schur -= np.asarray(total)
    del total
    try:
        factor = cholesky(schur.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    inverse, failed = dtrtri(factor, lower=1, overwrite_c=True)
    return inverse if failed == 0 and np.isfinite(inverse.trace()) else None


def solve(arrow: Arrow, inverse: Floats, kept: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Solve the arrow system."""
    white = jnp.einsum("crq,cq->cr", arrow.own_factor, jnp.asarray(own, arrow.own_factor.dtype))
    reduced = kept.copy()
    white = white[:, :, None]
    for piece in arrow.pieces():
        reduced -= np.asarray(along_kept(piece.whitened, of_piece(white, piece)))[:, 0]
    solution = inverse.T @ (inverse @ reduced)
    back = back_substitute(arrow, solution[:, None], white)
    return solution, back[:, :, 0]


def back_substitute(arrow: Arrow, kept: Floats, white: Array | Floats) -> Floats:
    """Return L_j⁻ᵀ (white_j - W_jᵀ kept) of every eliminated unit."""
    values, white = (jnp.asarray(x, arrow.own_factor.dtype) for x in (kept, white))
    solution = np.empty((*arrow.own_factor.shape[:2], values.shape[1]))
    for piece in arrow.pieces():
        part = _own_given_kept(piece.own_factor, piece.whitened, of_piece(white, piece), values)
        solution[piece.start : piece.start + piece.live] = part[: piece.live]
    return solution


def covariances(arrow: Arrow, inverse: Floats) -> tuple[Floats, Floats, Floats]:
    """Return blocks of the inverse for kept units and eliminated units, and variances of means.

    The block of eliminated unit j is L_j⁻ᵀ (I + (R W_j)ᵀ R W_j) L_j⁻¹, a sum of squares without
    cancellation.
    """
    factor = jnp.asarray(inverse, arrow.own_factor.dtype)
    own_blocks = np.empty(arrow.own_factor.shape)
    for piece in arrow.pieces():
        part = _own_covariances(piece.own_factor, piece.whitened, factor)
        own_blocks[piece.start : piece.start + piece.live] = part[: piece.live]
    n_means, (units, block, _) = len(arrow.of_means), arrow.kept_blocks.shape
    sides, means = np.split(inverse, [len(inverse) - n_means], axis=1)
    columns = sides.reshape(-1, units, block)
    return np.einsum("iuk,iul->ukl", columns, columns), own_blocks, (means**2).sum(0)


def draw_kept(arrow: Arrow, inverse: Floats, key: Array, n_draws: int) -> Array:
    """Draw the kept side's deviations from the mode, shape (kept, draw)."""
    factor = jnp.asarray(inverse, arrow.own_factor.dtype)
    return _transposed_product(
        factor, jax.random.normal(key, (len(inverse), n_draws), factor.dtype)
    )


def draw_own(arrow: Arrow, kept: Array, key: Array) -> Iterator[tuple[slice, NDArray[np.floating]]]:
    """Draw the eliminated units' deviations given the kept side's, piece by piece."""
    for piece in arrow.pieces():
        unit = piece.start + jnp.arange(len(piece.own_factor))
        noise = _noise(key, unit, (piece.own_factor.shape[1], kept.shape[1]), kept.dtype)
        part = _own_given_kept(piece.own_factor, piece.whitened, noise, kept)
        yield slice(piece.start, piece.start + piece.live), np.asarray(part[: piece.live])


@jax.jit
def along_kept(whitened: Array, white: Array) -> Array:
    """Return Σ_j W_j white_j, shape (kept, column)."""
    return whitened.reshape(len(whitened), -1) @ white.reshape(-1, white.shape[-1])


def of_piece(values: Array, piece: CrossPiece) -> Array:
    """Return the values of a piece's units; padding repeats the last."""
    position = piece.start + np.arange(len(piece.own_factor))
    return jnp.take(values, position, 0, mode="clip")


@partial(jax.jit, donate_argnums=0)
def _add_products(total: Array, whitened: Array) -> Array:
    flat = whitened.reshape(len(whitened), -1)
    return total + flat @ flat.T


@jax.jit
def _own_given_kept(own_factor: Array, whitened: Array, white: Array, kept: Array) -> Array:
    shape = (*own_factor.shape[:2], kept.shape[1])
    residual = white - (whitened.reshape(len(whitened), -1).T @ kept).reshape(shape)
    return (own_factor[..., None] * residual[:, :, None, :]).sum(1)


@jax.jit
def _own_covariances(own_factor: Array, whitened: Array, factor: Array) -> Array:
    size = own_factor.shape[1]
    far = (factor @ whitened.reshape(len(whitened), -1)).reshape(whitened.shape)
    rows = [[(far[..., r] * far[..., s]).sum(0) for s in range(size)] for r in range(size)]
    spread = jnp.eye(size, dtype=far.dtype) + jnp.moveaxis(jnp.array(rows), -1, 0)
    return jnp.einsum("crk,crs,csl->ckl", own_factor, spread, own_factor)


@jax.jit
def _transposed_product(factor: Array, values: Array) -> Array:
    return factor.T @ values


@partial(jax.jit, static_argnums=(2, 3))
def _noise(key: Array, unit: Array, shape: tuple[int, int], dtype: jnp.dtype) -> Array:
    def of_unit(position: Array) -> Array:
        return jax.random.normal(jax.random.fold_in(key, position), shape, dtype)

    return jax.vmap(of_unit)(unit)

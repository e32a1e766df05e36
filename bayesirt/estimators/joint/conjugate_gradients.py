"""Conjugate gradients for an arrow matrix whose Schur complement is too large for memory."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.errors import ResponseError
from bayesirt.estimators import lapack
from bayesirt.estimators.joint.arrow_system import Arrow, Floats, along_kept, of_piece

_MOST_ITERATIONS = 2000


class Sides(NamedTuple):
    """Columns of vectors over both sides."""

    kept: Float[Array, "kept column"]
    # In the units' whitened coordinates, in which their blocks are identity matrices.
    own: Float[Array, "unit own column"]


def solve_iteratively(arrow: Arrow, side: Sides) -> Sides:
    """Solve the arrow system for many columns at once.

    The preconditioner consists of the inverse blocks of both sides. A column has converged when its
    preconditioned residual is 1e-8 of its first (1e-5 in float32).
    """
    inverse_blocks = lapack.inv(jnp.asarray(arrow.kept_blocks))
    inverse_means = 1 / np.diag(arrow.of_means)[:, None]

    def precondition(rest: Sides) -> Sides:
        blocks, means = _cut(arrow, rest.kept)
        solved = jnp.einsum("ukl,uls->uks", inverse_blocks, blocks).reshape(-1, means.shape[1])
        return Sides(jnp.concatenate([solved, inverse_means * means]), rest.own)

    far = max(1e-8, 100 * float(jnp.finfo(arrow.own_factor.dtype).eps))
    solution, rest = jax.tree.map(jnp.zeros_like, side), side
    direction = precondition(rest)
    size = first = _inner(rest, direction)
    for _ in range(_MOST_ITERATIONS):
        if bool((size <= far**2 * first).all()):
            return solution
        product = _product(arrow, direction)
        share = _ratio(size, _inner(direction, product))
        solution = _add(solution, share, direction)
        rest = _add(rest, -share, product)
        turned = precondition(rest)
        before, size = size, _inner(rest, turned)
        direction = _add(turned, _ratio(size, before), direction)
    raise ResponseError(
        "the iterative solution for the posterior's curvature has not converged; allow a larger "
        "dense system, or use float64"
    )


def colour(arrow: Arrow, white: Array) -> Floats:
    """Return L_j⁻ᵀ white_j, the eliminated units' values in their original coordinates."""
    return np.asarray(jnp.einsum("crk,crs->cks", arrow.own_factor, white))


def _product(arrow: Arrow, side: Sides) -> Sides:
    blocks, means = _cut(arrow, side.kept)
    n_columns = means.shape[1]
    on_units = jnp.einsum("ukl,uls->uks", jnp.asarray(arrow.kept_blocks), blocks)
    on_units += jnp.einsum("ukm,ms->uks", jnp.asarray(arrow.border), means)
    on_means = jnp.einsum("ukm,uks->ms", jnp.asarray(arrow.border), blocks) + arrow.of_means @ means
    kept = jnp.concatenate([on_units.reshape(-1, n_columns), on_means])
    low = side.kept.astype(arrow.own_factor.dtype)
    own = []
    for piece in arrow.pieces():
        white = of_piece(side.own, piece).astype(low.dtype)
        kept += along_kept(piece.whitened, white)
        own.append(_along_own(piece.whitened, low)[: piece.live])
    return Sides(kept, side.own + jnp.concatenate(own))


def _cut(arrow: Arrow, kept: Array) -> tuple[Array, Array]:
    units, block, _ = arrow.kept_blocks.shape
    return kept[: units * block].reshape(units, block, -1), kept[units * block :]


@jax.jit
def _along_own(whitened: Array, kept: Array) -> Array:
    flat = whitened.reshape(len(whitened), -1).T @ kept
    return flat.reshape(*whitened.shape[1:], -1)


@jax.jit
def _inner(one: Sides, other: Sides) -> Array:
    return (one.kept * other.kept).sum(0) + (one.own * other.own).sum((0, 1))


@jax.jit
def _add(one: Sides, share: Array, other: Sides) -> Sides:
    return Sides(one.kept + share * other.kept, one.own + share * other.own)


@jax.jit
def _ratio(above: Array, below: Array) -> Array:
    return jnp.where(above > 0, above / jnp.where(below > 0, below, 1), 0)

"""Batches of small symmetric matrices: packed triangles, inverses and unconstrained roots."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators import lapack

_UNROLLED = 4
"""Dimensions up to which the factors of many matrices are computed entry by entry."""


class _Whole(NamedTuple):
    """Factors that LAPACK computes, which takes nothing to compile."""

    lower: Float[Array, "*row k k"]

    def solve(self, values: Array) -> Array:
        return lapack.solve_triangular(self.lower, values[..., None])[..., 0]

    def solve_transposed(self, values: Array) -> Array:
        return lapack.solve_triangular(self.lower, values[..., None], trans="T")[..., 0]

    def times_transposed(self, values: Array) -> Array:
        return (self.lower * values[..., :, None]).sum(-2)

    def log_determinant(self) -> Array:
        return jnp.log(jnp.diagonal(self.lower, axis1=-2, axis2=-1)).sum(-1)

    def inverse(self) -> Array:
        back = lapack.inv_triangular(self.lower)
        return jnp.swapaxes(back, -1, -2) @ back


class _ByEntry:
    """Factors of many small matrices.

    Everything is a product with an inverse of the diagonal, as XLA compiles a quotient that several
    others need by itself.
    """

    def __init__(self, matrices: Float[Array, "*row k k"]) -> None:
        self._below: list[list[Array]] = []
        self._pivots: list[Array] = []  # Squares of the diagonal.
        self._inverses: list[Array] = []
        for i in range(matrices.shape[-1]):
            row: list[Array] = []
            for j in range(i):
                entry = matrices[..., i, j] - _sum(row[k] * self._below[j][k] for k in range(j))
                row.append(entry * self._inverses[j])
            self._below.append(row)
            self._pivots.append(matrices[..., i, i] - _sum(x**2 for x in row))
            self._inverses.append(jax.lax.rsqrt(self._pivots[i]))

    def solve(self, values: Array) -> Array:
        solved: list[Array] = []
        for i, row in enumerate(self._below):
            rest = values[..., i] - _sum(x * y for x, y in zip(row, solved, strict=True))
            solved.append(rest * self._inverses[i])
        return jnp.stack(solved, -1)

    def solve_transposed(self, values: Array) -> Array:
        solved: dict[int, Array] = {}
        for i in reversed(range(len(self._below))):
            rest = values[..., i] - _sum(self._below[k][i] * x for k, x in solved.items())
            solved[i] = rest * self._inverses[i]
        return jnp.stack([solved[i] for i in sorted(solved)], -1)

    def times_transposed(self, values: Array) -> Array:
        columns = []
        for i, (square, inverse) in enumerate(zip(self._pivots, self._inverses, strict=True)):
            rows = range(i + 1, len(self._below))
            below = _sum(self._below[k][i] * values[..., k] for k in rows)
            columns.append(square * inverse * values[..., i] + below)
        return jnp.stack(columns, -1)

    def log_determinant(self) -> Array:
        return 0.5 * _sum(map(jnp.log, self._pivots))

    def inverse(self) -> Array:
        ones = jnp.ones_like(self._pivots[0])[..., None]
        axes = jnp.eye(len(self._pivots), dtype=ones.dtype)
        return jnp.stack([self.solve_transposed(self.solve(ones * axis)) for axis in axes], -1)


Root: TypeAlias = _Whole | _ByEntry
"""Lower Cholesky factors L: L⁻¹v, L⁻ᵀv, Lᵀv, log |L| and (L Lᵀ)⁻¹ of each."""


def root_of(matrices: Float[Array, "*row k k"]) -> Root:
    """Return the Cholesky factors of positive definite matrices."""
    size = matrices.shape[-1]
    one_alone = matrices.size == size**2 > 1
    if size > _UNROLLED or one_alone:
        return _Whole(lapack.cholesky(matrices))
    return _ByEntry(matrices)


def _sum(terms: Iterable[Array]) -> Any:
    return sum(terms, start=0.0)


def inverse(matrices: Float[Array, "... k k"]) -> Float[Array, "... k k"]:
    """Return the inverses of positive definite matrices; NaN for others."""
    return root_of(matrices).inverse()


def pairs(x: Float[Array, "row k"], twice: float) -> Float[Array, "row pair"]:
    """Return products x_k x_l for l ≤ k, multiplied by `twice` if k ≠ l."""
    k, m = np.tril_indices(x.shape[1])
    return x[:, k] * x[:, m] * jnp.where(k == m, 1.0, twice).astype(x.dtype)


def packed(matrices: Float[Array, "row k k"]) -> Float[Array, "row pair"]:
    """Return the lower triangles of symmetric matrices."""
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m]


def twice_off_diagonal(matrices: Float[Array, "row k k"]) -> Float[Array, "row pair"]:
    """Return lower triangles whose products with `packed` ones are traces."""
    k, m = np.tril_indices(matrices.shape[1])
    return matrices[:, k, m] * jnp.where(k == m, 1.0, 2.0).astype(matrices.dtype)


def unpacked(values: Float[Array, "row pair"], size: int) -> Float[Array, "row k k"]:
    """Return symmetric matrices from their lower triangles."""
    return values[:, place_of_pairs(size)]


def place_of_pairs(size: int) -> NDArray[np.intp]:
    """Return the position of each pair of indices among the packed ones."""
    k, m = np.tril_indices(size)
    positions = np.zeros((size, size), np.intp)
    positions[k, m] = positions[m, k] = np.arange(len(k))
    return positions


def to_root(covariance: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return the Cholesky factor with logarithms on the diagonal, which is unconstrained."""
    xp = covariance.__array_namespace__()
    factor = xp.linalg.cholesky(covariance)
    return xp.tril(factor, -1) + xp.diag(xp.log(xp.diag(factor)))


def from_root(root: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Invert `to_root`."""
    xp = root.__array_namespace__()
    factor = xp.tril(root, -1) + xp.diag(xp.exp(xp.diag(root)))
    return factor @ factor.T

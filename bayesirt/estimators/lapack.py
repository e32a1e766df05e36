"""LAPACK, which gets so few matrices at a time that it never waits for itself.

JAX 0.10.0 to 0.11.0 divides a large batch among the threads that run the program, and one of these
waits for the others. If all of them wait in this way, the process stands still for ever.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float

_MOST_WORK = 20_000
"""Dimension to the third power, times matrices, in one call. JAX divides from 200,000 on; the rest
is for chains that are vectorised."""

Matrices = Float[Array, "*row k k"]


def cholesky(matrices: Matrices) -> Matrices:
    """Return lower Cholesky factors."""
    return _in_parts(jnp.linalg.cholesky, matrices)


def inv(matrices: Matrices) -> Matrices:
    """Return inverses."""
    return _in_parts(jnp.linalg.inv, matrices)


def solve(matrices: Matrices, values: Float[Array, "*row k m"]) -> Float[Array, "*row k m"]:
    """Return the solutions x of A x = b."""
    return _in_parts(jnp.linalg.solve, matrices, values)


def solve_triangular(
    lower: Matrices, values: Float[Array, "*row k m"], trans: str = "N"
) -> Float[Array, "*row k m"]:
    """Return the solutions x of L x = b, or of Lᵀx = b if `trans` is T."""
    one = partial(jax.scipy.linalg.solve_triangular, lower=True, trans=trans)
    return _in_parts(one, lower, values)


def inv_triangular(lower: Matrices) -> Matrices:
    """Return the inverses of lower triangular matrices."""
    identity = np.eye(lower.shape[-1], dtype=lower.dtype)
    return solve_triangular(lower, jnp.broadcast_to(identity, lower.shape))


def log_determinant(matrices: Matrices) -> Float[Array, "*row"]:
    """Return the logarithms of absolute determinants."""
    return _in_parts(lambda x: jnp.linalg.slogdet(x)[1], matrices)


def eigh(matrices: Matrices) -> tuple[Float[Array, "*row k"], Matrices]:
    """Return the eigenvalues of symmetric matrices, from the least, and their vectors."""
    return _in_parts(lambda x: tuple(jnp.linalg.eigh(x)), matrices)


def _in_parts(function: Callable[..., Any], *batches: Array) -> Any:
    *rows, size = batches[0].shape[:-1]
    at_once = max(1, _MOST_WORK // size**3)
    if prod(rows) <= at_once:
        return function(*batches)
    flat = [x.reshape(-1, *x.shape[-2:]) for x in batches]
    result = jax.lax.map(lambda x: function(*x), flat, batch_size=at_once)
    return jax.tree.map(lambda x: x.reshape(*rows, *x.shape[1:]), result)

"""Factors of symmetric matrices are NumPy's, whether computed whole or entry by entry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.estimators.symmetric_matrices import from_root, inverse, root_of, to_root


@pytest.mark.parametrize("batch", [(), (1,), (7,), (2, 3)])
@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_roots_solve_multiply_and_invert(size, batch):
    rng = np.random.default_rng(size)
    some = rng.normal(size=(*batch, size, size + 3))
    matrices, values = some @ some.swapaxes(-1, -2), rng.normal(size=(*batch, size))
    lower = np.linalg.cholesky(matrices)

    @jax.jit
    def found(matrices, values):
        root = root_of(matrices)
        return (
            root.solve(values),
            root.solve_transposed(values),
            root.times_transposed(values),
            root.log_determinant(),
            inverse(matrices),
        )

    column, upper = values[..., None], lower.swapaxes(-1, -2)
    expected = (
        np.linalg.solve(lower, column)[..., 0],
        np.linalg.solve(upper, column)[..., 0],
        (upper @ column)[..., 0],
        np.linalg.slogdet(lower)[1],
        np.linalg.inv(matrices),
    )
    for one, other in zip(found(matrices, values), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("size", [2, 6])
def test_what_is_not_positive_definite_has_no_inverse(size):
    matrices = jnp.stack([jnp.eye(size), jnp.diag(jnp.arange(size) - 0.5)])
    one, other = np.asarray(inverse(matrices))
    np.testing.assert_array_equal(one, np.eye(size))
    assert np.isnan(other).any()


def test_unconstrained_roots_come_back():
    matrix = jnp.array([[2.0, 0.3], [0.3, 0.5]])
    np.testing.assert_allclose(from_root(to_root(matrix)), matrix, rtol=1e-12)

"""Batches of matrices: LAPACK's results are NumPy's, and a program that needs several ends."""

import os
import subprocess
import sys

import numpy as np

from bayesirt.estimators import lapack

MANY = 3_001
"""Of size 5; 160 are computed at a time."""


def test_results_are_those_of_numpy():
    rng = np.random.default_rng(3)
    some = rng.normal(size=(MANY, 5, 7))
    matrices, values = some @ some.swapaxes(1, 2), rng.normal(size=(MANY, 5, 2))
    lower = np.linalg.cholesky(matrices)
    two = lapack.eigh(matrices)
    for found, expected in [
        (lapack.cholesky(matrices), lower),
        (lapack.inv(matrices), np.linalg.inv(matrices)),
        (lapack.solve(matrices, values), np.linalg.solve(matrices, values)),
        (lapack.solve_triangular(lower, values), np.linalg.solve(lower, values)),
        (
            lapack.solve_triangular(lower, values, trans="T"),
            np.linalg.solve(lower.swapaxes(1, 2), values),
        ),
        (lapack.log_determinant(matrices), np.linalg.slogdet(matrices)[1]),
        (two[0], np.linalg.eigvalsh(matrices)),
        ((two[1] * two[0][:, None]) @ two[1].swapaxes(1, 2), matrices),
    ]:
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


SEVERAL = """
import jax
import jax.numpy as jnp
import numpy as np
from bayesirt.estimators import lapack

matrices = np.eye(8) + np.ones((4, 2_000, 8, 8))
several = jax.jit(lambda x: jnp.stack([lapack.cholesky(x[i]).sum() for i in range(4)]))
for _ in range(300):
    sums = several(matrices).block_until_ready()
np.testing.assert_allclose(sums, np.linalg.cholesky(matrices).sum((1, 2, 3)), rtol=1e-4)
print("ended")
"""


def test_several_batches_in_one_program_do_not_wait_for_each_other():
    """With one device, two cores, JAX 0.10.2 and `jnp.linalg` this stands still."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-c", SEVERAL]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "ended\n", ended.stderr

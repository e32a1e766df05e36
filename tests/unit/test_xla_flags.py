"""Large sums are right, and whoever cannot be helped is warned."""

import os
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import xla_flags


def test_large_sums_of_products_are_right():
    """Without the flag, jaxlib 0.10.2 returned 266,342,400 for the last row, 268,435,456."""
    rows = np.zeros((16_385, 3))
    rows[:, 0] = np.arange(len(rows))
    squares = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2)))(rows)
    np.testing.assert_array_equal(squares, rows[:, 0] ** 2)


@pytest.fixture
def wrong_version(monkeypatch):
    monkeypatch.setattr(xla_flags, "_WRONG", version("jaxlib"))
    monkeypatch.setenv("XLA_FLAGS", "--some=1")
    return monkeypatch


def test_flags_of_the_user_stay(wrong_version, recwarn):
    wrong_version.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    for _ in range(2):
        xla_flags.avoid_wrong_sums()
        assert os.environ["XLA_FLAGS"] == "--some=1 --xla_cpu_experimental_ynn_fusion_type="
    assert not recwarn


def test_jax_that_has_computed_is_too_late(wrong_version):
    jax.devices()
    with pytest.warns(UserWarning, match="import bayesirt before JAX computes anything"):
        xla_flags.avoid_wrong_sums()


def test_other_versions_keep_their_flags(wrong_version):
    wrong_version.setattr(xla_flags, "_WRONG", "0.0")
    xla_flags.avoid_wrong_sums()
    assert os.environ["XLA_FLAGS"] == "--some=1"

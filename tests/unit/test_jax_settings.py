"""Large sums are right, and compiled code is kept where the user has not chosen otherwise."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import jax_settings


def test_large_sums_of_products_are_right():
    """Without the flag, jaxlib 0.10.2 returned 266,342,400 for the last row, 268,435,456."""
    rows = np.zeros((16_385, 3))
    rows[:, 0] = np.arange(len(rows))
    squares = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2)))(rows)
    np.testing.assert_array_equal(squares, rows[:, 0] ** 2)


@pytest.fixture
def wrong_version(monkeypatch):
    jax.devices()  # JAX does not read the flags again, which it would refuse
    monkeypatch.setattr(jax_settings, "_WRONG", version("jaxlib"))
    monkeypatch.setenv("XLA_FLAGS", "--some=1")
    return monkeypatch


def test_flags_of_the_user_stay(wrong_version, recwarn):
    wrong_version.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    for _ in range(2):
        jax_settings.avoid_wrong_sums()
        assert os.environ["XLA_FLAGS"] == "--some=1 --xla_cpu_experimental_ynn_fusion_type="
    assert not recwarn


def test_jax_that_has_computed_is_too_late(wrong_version):
    with pytest.warns(UserWarning, match="import bayesirt before JAX computes anything"):
        jax_settings.avoid_wrong_sums()


def test_other_versions_keep_their_flags(wrong_version):
    wrong_version.setattr(jax_settings, "_WRONG", "0.0")
    jax_settings.avoid_wrong_sums()
    assert os.environ["XLA_FLAGS"] == "--some=1"


CODE = """
import numpy as np
import bayesirt
bayesirt.fit_cbmm(bayesirt.Responses.from_arrays(np.tri(30, 20)))
import jax
print(jax.config.jax_compilation_cache_dir)
"""


def folder_used(home: Path, **environment: str) -> str:
    """Return the folder of compiled code of a process that fits a model."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "BAYESIRT_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE],
        env=kept | {"XDG_CACHE_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_code_is_kept_in_the_users_cache_folder(tmp_path: Path):
    assert folder_used(tmp_path) == str(tmp_path / "bayesirt" / "jax")
    assert any("newton_step" in path.name for path in (tmp_path / "bayesirt" / "jax").iterdir())


def test_the_users_choice_stays(tmp_path: Path):
    chosen = str(tmp_path / "chosen")
    assert folder_used(tmp_path, JAX_COMPILATION_CACHE_DIR=chosen) == chosen
    assert not (tmp_path / "bayesirt").exists()


def test_a_folder_that_cannot_be_made_is_no_trouble(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert folder_used(tmp_path / "file") == "None"

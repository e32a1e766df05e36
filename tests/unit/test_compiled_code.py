"""Compiled code is kept for later processes, where the user has not chosen otherwise."""

import os
import subprocess
import sys
from pathlib import Path

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

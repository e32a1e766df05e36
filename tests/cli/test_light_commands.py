"""Commands on a finished run, or on two models, load no sampler, so that they answer at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from quick_commands import write_inputs

from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.run_folder import save_run

WITHOUT_JAX = (
    ("compare", "run"),
    ("cite", "run"),
    ("export", "run"),
    ("plot", "run", "abilities"),
    ("gate", "inputs/r.csv", "--baseline", "m0", "--candidate", "m1"),
)
WITH_JAX = (("separate", "run"), ("review", "run"), ("keep", "run"), ("next-item", "run"))
HEAVY = ("numpyro", "arviz_base", "arviz_stats", "scipy.stats", "optax")
CODE = """
import sys
from bayesirt.cli import main
for command in {commands}:
    sys.argv = ["bayesirt", *command]
    try:
        main()
    except SystemExit as leaving:
        assert leaving.code in (None, 0, 1, 3), command
    loaded = [name for name in {heavy} if name in sys.modules]
    assert not loaded, (command, loaded)
"""


@pytest.fixture(scope="module")
def folder(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("light")
    write_inputs(folder / "inputs")
    (folder / "run").mkdir()
    save_run(small_run, folder / "run", "")
    return folder


@pytest.mark.parametrize(
    ("commands", "heavy", "most_programs"),
    [
        (WITHOUT_JAX, ("jax", *HEAVY), 0),
        (WITH_JAX, HEAVY, 40),
        ((("check", "inputs/r.csv"),), ("matplotlib", "arviz_stats"), 65),
    ],
    ids=["without jax", "with jax", "check"],
)
def test_light_commands_load_nothing_heavy_and_compile_little(
    folder: Path,
    commands: tuple[tuple[str, ...], ...],
    heavy: tuple[str, ...],
    most_programs: int,
):
    code = CODE.format(commands=commands, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_LOG_COMPILES": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Finished XLA compilation") <= most_programs

"""Every notebook runs from a fresh kernel."""

import os
from pathlib import Path

import jax
import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def environment() -> dict[str, str]:
    """Return the environment of a kernel that shares the tests' cache of compiled code."""
    settings = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    return os.environ | {name.upper(): str(getattr(jax.config, name)) for name in settings}


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "commit it without output"
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env=environment())
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    source = "".join(cell.source for cell in notebook.cells)
    if any(drawing in source for drawing in ("sample_", "rank_responses", "profile_responses")):
        assert any("R-hat" in o.get("text", "") for o in outputs)

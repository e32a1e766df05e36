"""Every notebook runs from a fresh kernel, and keeps the outputs of its present cells."""

import os
from pathlib import Path

import jax
import nbformat
import pytest
from nbclient import NotebookClient
from store_notebooks import NOTEBOOKS, mark_of

MOST_BYTES, MOST_BYTES_TOGETHER = 1_000_000, 2_000_000


def environment() -> dict[str, str]:
    """Return the environment of a kernel that shares the tests' cache of compiled code."""
    settings = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    return os.environ | {name.upper(): str(getattr(jax.config, name)) for name in settings}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_outputs_are_of_these_cells_and_this_version(path: Path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.get("bayesirt") == mark_of(notebook), "run make notebooks"
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    assert all(o.get("name") != "stderr" and o.output_type != "error" for o in outputs)


def test_kept_outputs_are_small():
    sizes = [path.stat().st_size for path in NOTEBOOKS]
    assert max(sizes) < MOST_BYTES
    assert sum(sizes) < MOST_BYTES_TOGETHER


@pytest.mark.notebook
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env=environment())
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    source = "".join(cell.source for cell in notebook.cells)
    if any(drawing in source for drawing in ("sample_", "rank_responses", "profile_responses")):
        assert any("R-hat" in o.get("text", "") for o in outputs)

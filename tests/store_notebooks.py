"""Run the notebooks and store their outputs, small and without noise: `make notebooks`.

With prefixes of names, such as `python tests/store_notebooks.py 07`, run only those.
"""

import base64
import hashlib
import io
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

from bayesirt import __version__

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
README_PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "abilities.png"
CACHE = {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parents[1] / ".jax_cache"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
}
"""Compilation cache, shared with the tests."""


def mark_of(notebook: NotebookNode) -> dict[str, str]:
    """Return what the outputs depend on: the version, and a digest of the code cells."""
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return {"version": __version__, "code": hashlib.sha256(code.encode()).hexdigest()}


def compact(picture: str) -> str:
    """Return a PNG with a palette, in base64."""
    packed = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        palette = {"method": Image.Quantize.MAXCOVERAGE, "dither": Image.Dither.NONE}
        image.convert("RGB").quantize(256, **palette).save(packed, "png", optimize=True)
    return base64.b64encode(packed.getvalue()).decode()


def kept(output: NotebookNode) -> NotebookNode | None:
    """Return an output without noise, or None if nothing is left."""
    if output.output_type == "stream":
        return None if output.name == "stderr" else output
    if "image/png" in output.data:
        output.data = {"image/png": compact(output.data["image/png"])}
    elif "<table" not in output.data.get("text/html", ""):
        output.data = {"text/plain": output.data["text/plain"]}
    output.metadata = {}
    if output.output_type == "execute_result":
        output.execution_count = None
    return output


def store(path: Path) -> NotebookNode:
    """Run a notebook from a fresh kernel and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute(
        env=os.environ | CACHE
    )
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [x for x in map(kept, cell.outputs) if x is not None]
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["bayesirt"] = mark_of(notebook)
    nbformat.write(notebook, path)
    print(path.name, f"{path.stat().st_size / 1e3:.0f} kB")
    return notebook


def first_picture(notebook: NotebookNode) -> bytes:
    """Return the first picture that a notebook shows."""
    outputs = [x for cell in notebook.cells for x in cell.get("outputs", ())]
    data = [x.data for x in outputs if x.output_type != "stream"]
    return base64.b64decode(next(x["image/png"] for x in data if "image/png" in x))


if __name__ == "__main__":
    for path in NOTEBOOKS:
        if path.name.startswith(tuple(sys.argv[1:])) or len(sys.argv) == 1:
            stored = store(path)
            if path == NOTEBOOKS[0]:
                README_PICTURE.write_bytes(first_picture(stored))

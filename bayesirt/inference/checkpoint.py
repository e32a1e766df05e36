"""Unfinished chains on disk, so that a killed run can be resumed."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.inference.key_bits import from_bits, to_bits

Samples = dict[str, NDArray[Any]]


class Progressed(NamedTuple):
    """Progress of chains."""

    chain: Any  # The kernel's state of each chain, or one of shape (chain, ...).
    steps: int  # Steps taken so far.
    kept: list[Samples]  # shape (chain, draw, ...). The draws of each block.


class Checkpoint(NamedTuple):
    """A folder with unfinished chains and the fingerprint of their run."""

    folder: Path  # Created at the first save.
    fingerprint: str  # Hash of data, settings and seed; chains are resumed only if it is the same.
    writes: bool = True  # Whether this process writes; of several that share the folder, one does.

    def save(self, progressed: Progressed) -> None:
        """Write the newest block of draws, then the state that counts it.

        Each file is written under another name and renamed, so that a kill at any moment leaves a
        state together with all the draws that it counts.
        """
        if not self.writes:
            return
        count = len(progressed.kept)
        header = {"fingerprint": self.fingerprint, "steps": progressed.steps, "blocks": count}
        leaves = [np.asarray(to_bits(x)) for x in jax.tree.leaves(progressed.chain)]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if count:
                self._write(f"draws_{count:06}.npz", progressed.kept[-1])
            state = {f"leaf_{k}": x for k, x in enumerate(leaves)}
            self._write("state.npz", {"header": np.array(json.dumps(header)), **state})
        except OSError as error:
            raise ResponseError(
                f"checkpoint folder {str(self.folder)!r} cannot be written: {error.strerror}"
            ) from error

    def load(self, beginning: Progressed) -> Progressed:
        """Return the saved progress, or the beginning if there is none."""
        if not (self.folder / "state.npz").exists():
            return beginning
        try:
            state = self._read("state.npz")
            header = json.loads(str(state["header"]))
            same_run = header["fingerprint"] == self.fingerprint
            steps, blocks = int(header["steps"]), int(header["blocks"]) if same_run else 0
            draws = [self._read(f"draws_{k + 1:06}.npz") for k in range(blocks)]
            leaves, form = jax.tree.flatten(beginning.chain)
            chain = [_like(state[f"leaf_{k}"], x) if same_run else x for k, x in enumerate(leaves)]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ResponseError(
                f"checkpoint {str(self.folder)!r} is damaged; remove it to start afresh"
            ) from error
        if not same_run:
            raise ResponseError(
                f"checkpoint {str(self.folder)!r} belongs to other data or other settings; name "
                f"another folder, or remove it to start afresh"
            )
        return Progressed(jax.tree.unflatten(form, chain), steps, draws)

    def remove(self) -> None:
        """Remove the checkpoint's files, and the folder if it is then empty."""
        if not self.writes:
            return
        # The state is removed first: draws without a state are ignored, but a state without its
        # draws counts as damage.
        for file in [*self.folder.glob("state.npz*"), *self.folder.glob("draws_*.npz*")]:
            file.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _write(self, name: str, arrays: Samples) -> None:
        partial = self.folder / f"{name}.partial"
        with partial.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.folder / name)

    def _read(self, name: str) -> Samples:
        with (self.folder / name).open("rb") as file, np.load(file) as stored:
            return {key: stored[key] for key in stored.files}


def _like(stored: NDArray[Any], leaf: Array) -> Array:
    expected = to_bits(leaf)
    if stored.shape != expected.shape or stored.dtype != expected.dtype:
        raise ValueError("the stored chains have another shape or type")
    return from_bits(stored, leaf)

"""Observed cells that are kept on disk, in blocks of subjects that fit in memory."""

import shutil
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.cells import CellList, DenseCells, SparseCells, Totals
from bayesirt.errors import ResponseError


@dataclass(frozen=True, eq=False)
class StoredCells:
    """Cells in a folder, which is removed with this object or when the process ends.

    Subject i is row ``i // n_blocks`` of block ``i % n_blocks``.
    """

    folder: Path
    shape: tuple[int, int]  # Numbers of subjects and items.
    n_blocks: int
    n_rows: int  # Subjects of a block; the last blocks may have one less.
    is_sparse: bool  # Whether a block is a list of cells rather than a matrix.
    most_cells: int  # Observed cells of the fullest block.
    kind: type[np.signedinteger]  # Integer type that holds all successes and trials.
    sums: tuple[Totals, Totals]  # Over subjects, then over items.

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return int(self.sums[0].observed.sum())

    def totals(self, axis: int) -> Totals:
        """Return the sums over items (axis 1) or over subjects (axis 0)."""
        return self.sums[axis]

    def block(self, k: int) -> DenseCells | SparseCells:
        """Return a block, whose subjects are numbered by its rows."""
        return load_block(self.folder, k, (self.n_rows, self.shape[1]), sparse=self.is_sparse)

    def parts(self) -> Iterator[CellList]:
        """Yield the observed cells of one block after another."""
        for k in range(self.n_blocks):
            cells = self.block(k).listed()
            yield cells._replace(subject=cells.subject * self.n_blocks + np.int32(k))

    def listed(self) -> CellList:
        """Refuse to hold all cells in memory."""
        self._refuse()

    def matrices(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Refuse to hold all cells in memory."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ResponseError(
            f"{self.n_observed:,} responses were left on disk, and only fit_cbmm with Newton steps "
            f"and summaries can use them there; read them with out_of_core=False, or read fewer"
        )


def save_block(folder: Path, k: int, cells: DenseCells | SparseCells) -> None:
    """Write a block, for `load_block`."""
    if isinstance(cells, SparseCells):
        subject, item, successes, trials = cells.cells
        np.save(_path(folder, k, "positions"), np.stack([subject, item]))
        np.save(_path(folder, k, "counts"), np.stack([successes, trials]))
    else:
        np.save(_path(folder, k, "counts"), np.stack(cells.matrices()))


def load_block(
    folder: Path, k: int, shape: tuple[int, int], *, sparse: bool
) -> DenseCells | SparseCells:
    """Read a block."""
    counts = np.load(_path(folder, k, "counts"))
    if not sparse:
        return DenseCells(*counts)
    return SparseCells(*shape, CellList(*np.load(_path(folder, k, "positions")), *counts))


def _path(folder: Path, k: int, name: str) -> Path:
    return folder / f"{name}_{k}.npy"

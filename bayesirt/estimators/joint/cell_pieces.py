"""Responses cut into pieces along subjects or items, so that no pass expands the whole matrix."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from bayesirt.data.cells import Cells, SparseCells

_CELLS_A_PIECE = 2**21


class Piece(NamedTuple):
    """All cells of a few units; a unit is a subject or an item."""

    # shape (subject, item). Dense; padding units in the last piece have no trials.
    successes: NDArray[np.integer]
    trials: NDArray[np.integer]
    unit: NDArray[np.intp]  # shape (unit,). Indices of the units; padding repeats the last.
    live: NDArray[np.bool_]  # shape (unit,). False for padding.


@dataclass(frozen=True, eq=False)
class CellPieces:
    """Pieces of equal shape, so that functions of them are compiled once."""

    cells: Cells  # Dense or sparse; sparse cells are made dense piece by piece.
    axis: Literal[0, 1]  # 0 cuts along subjects, 1 along items.
    size: int  # Units per piece.

    @property
    def n_units(self) -> int:
        """Number of subjects or items along the cut."""
        return self.cells.shape[self.axis]

    def __iter__(self) -> Iterator[Piece]:
        """Iterate over the pieces in order."""
        for start in range(0, self.n_units, self.size):
            position = np.arange(start, start + self.size)
            live = position < self.n_units
            successes, trials = (self._filled(m, start) for m in self._matrices)
            yield Piece(successes, trials, np.minimum(position, self.n_units - 1), live)

    @cached_property
    def _matrices(self) -> tuple[Any, ...]:
        if not isinstance(self.cells, SparseCells):
            return self.cells.matrices()
        subject, item, successes, trials = self.cells.listed()
        layout = csr_array if self.axis == 0 else csc_array
        return tuple(
            layout((counts, (subject, item)), shape=self.cells.shape)
            for counts in (successes, trials)
        )

    def _filled(self, matrix: Any, start: int) -> NDArray[np.integer]:
        stop = min(start + self.size, self.n_units)
        part = matrix[start:stop] if self.axis == 0 else matrix[:, start:stop]
        dense = part if isinstance(part, np.ndarray) else part.toarray()
        padding = [(0, 0), (0, 0)]
        padding[self.axis] = (0, self.size - (stop - start))
        return np.pad(dense, padding) if stop < start + self.size else dense


def cut_cells(cells: Cells, axis: Literal[0, 1], size: int | None = None) -> CellPieces:
    """Cut cells into pieces of about two million cells."""
    n_units, n_others = cells.shape[axis], cells.shape[1 - axis]
    size = min(n_units, size or max(1, _CELLS_A_PIECE // n_others))
    pieces = -(-n_units // size)
    return CellPieces(cells, axis, -(-n_units // pieces))

"""The observed cells of a subjects x items matrix, dense or sparse behind one interface.

A cell is one subject's answers to one item: successes out of trials. Zero trials mean that the
item was not run; masking such a cell is the same as deleting it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_SPARSE_BELOW = 0.1
"""Coverage below which a pass over a list of cells is faster than one over their matrix."""
_SPARSE_FROM = 1_000_000
"""Fewest cells of a sparse matrix: a pass over a smaller dense one takes milliseconds."""
_PART = 1 << 21
"""Cells of a matrix that are listed at a time, as a list takes many times the memory."""


class CellList(NamedTuple):
    """Observed cells as a list, ordered by subject, then by item unless stated otherwise."""

    # shape (cell,). Positions.
    subject: NDArray[np.integer]
    item: NDArray[np.integer]
    # shape (cell,)
    successes: NDArray[np.integer]
    trials: NDArray[np.integer]


class Totals(NamedTuple):
    """Sums over the observed cells of each subject, or of each item."""

    # `observed` counts cells, `trials` counts answers.
    successes: NDArray[np.int64]
    trials: NDArray[np.int64]
    observed: NDArray[np.int64]


class Cells(Protocol):
    """Interface of all layouts."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and items."""
        ...

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        ...

    def listed(self) -> CellList:
        """Return the observed cells one after another."""
        ...

    def matrices(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return successes and trials as (subject, item) matrices."""
        ...

    def parts(self) -> Iterator[CellList]:
        """Yield the observed cells in lists that fit in memory, each subject within one list."""
        ...

    def totals(self, axis: int) -> Totals:
        """Return the sums over items (axis 1) or over subjects (axis 0)."""
        ...


@dataclass(frozen=True, eq=False)
class DenseCells:
    """Successes and trials as matrices in the smallest integer type that holds them."""

    # shape (subject, item)
    successes: NDArray[np.integer]
    trials: NDArray[np.integer]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and items."""
        return self.trials.shape[0], self.trials.shape[1]

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return int(np.count_nonzero(self.trials))

    def listed(self) -> CellList:
        """Return the observed cells one after another."""
        subject, item = (index.astype(np.int32) for index in np.nonzero(self.trials))
        return CellList(subject, item, self.successes[subject, item], self.trials[subject, item])

    def matrices(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return successes and trials as (subject, item) matrices."""
        return self.successes, self.trials

    def parts(self) -> Iterator[CellList]:
        """Yield the observed cells of a few subjects at a time."""
        n_rows = max(1, _PART // max(1, self.shape[1]))
        for start in range(0, self.shape[0], n_rows):
            rows = slice(start, start + n_rows)
            cells = DenseCells(self.successes[rows], self.trials[rows]).listed()
            yield cells._replace(subject=cells.subject + np.int32(start))

    def totals(self, axis: int) -> Totals:
        """Return the sums over items (axis 1) or over subjects (axis 0)."""
        return Totals(
            self.successes.sum(axis, dtype=np.int64),
            self.trials.sum(axis, dtype=np.int64),
            np.count_nonzero(self.trials, axis).astype(np.int64),
        )


@dataclass(frozen=True, eq=False)
class SparseCells:
    """Only the observed cells, ordered by subject, then by item."""

    n_subjects: int
    n_items: int
    cells: CellList

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and items."""
        return self.n_subjects, self.n_items

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return len(self.cells.trials)

    def listed(self) -> CellList:
        """Return the observed cells one after another."""
        return self.cells

    def matrices(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return successes and trials as (subject, item) matrices."""
        subject, item, successes, trials = self.cells
        dense = np.zeros((2, *self.shape), np.promote_types(successes.dtype, trials.dtype))
        dense[0, subject, item] = successes
        dense[1, subject, item] = trials
        return dense[0], dense[1]

    def parts(self) -> Iterator[CellList]:
        """Yield the observed cells in one list."""
        yield self.cells

    def totals(self, axis: int) -> Totals:
        """Return the sums over items (axis 1) or over subjects (axis 0)."""
        groups, n = (
            (self.cells.subject, self.n_subjects) if axis == 1 else (self.cells.item, self.n_items)
        )
        successes, trials = (
            np.bincount(groups, weights=count, minlength=n).astype(np.int64)
            for count in (self.cells.successes, self.cells.trials)
        )
        return Totals(successes, trials, np.bincount(groups, minlength=n).astype(np.int64))


def store_cells(
    shape: tuple[int, int],
    subject: NDArray[np.integer],
    item: NDArray[np.integer],
    successes: NDArray[np.integer],
    trials: NDArray[np.integer],
) -> Cells:
    """Store cells in the better layout: sparse if few of many cells were observed."""
    kind = smallest_int(int(trials.max(initial=1)))
    successes, trials = successes.astype(kind), trials.astype(kind)
    sparse = SparseCells(
        *shape, CellList(subject.astype(np.int32), item.astype(np.int32), successes, trials)
    )
    return sparse if better_sparse(shape, len(trials)) else DenseCells(*sparse.matrices())


def select_cells(
    cells: Cells, subjects: NDArray[np.intp], items: NDArray[np.intp]
) -> tuple[Cells, NDArray[np.intp]]:
    """Return the cells of some subjects and items, and their positions among all cells."""
    listed = cells.listed()
    new = []
    for chosen, size, old in zip(
        (subjects, items), cells.shape, (listed.subject, listed.item), strict=True
    ):
        positions = np.full(size, -1, np.intp)
        positions[chosen] = np.arange(len(chosen))
        new.append(positions[old])
    rows = np.flatnonzero((new[0] >= 0) & (new[1] >= 0))
    rows = rows[np.lexsort((new[1][rows], new[0][rows]))]
    shape = len(subjects), len(items)
    counts = listed.successes[rows], listed.trials[rows]
    return store_cells(shape, new[0][rows], new[1][rows], *counts), rows


def better_sparse(shape: tuple[int, int], n_observed: int) -> bool:
    """Return whether so few of many cells were observed that a list of them is faster."""
    size = shape[0] * shape[1]
    return size >= _SPARSE_FROM and n_observed < _SPARSE_BELOW * size


def smallest_int(largest: int) -> type[np.signedinteger]:
    """Return the smallest signed integer type that holds a number."""
    return next(t for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max)


def check_cells(cells: Cells, subjects: Sequence[str], items: Sequence[str]) -> None:
    """Refuse cells that do not fit the names or are too few to rank anything."""
    if cells.shape != (len(subjects), len(items)):
        raise ResponseError(
            f"{len(subjects)} subjects x {len(items)} items are named, but the data have shape "
            f"{cells.shape}"
        )
    for kind, names in (("subject", subjects), ("item", items)):
        if len(names) < 2:
            raise ResponseError(
                f"a ranking needs at least 2 {kind}s, got {len(names)}; add responses of more "
                f"{kind}s"
            )
    for kind, names, axis in (("subject", subjects, 1), ("item", items, 0)):
        missing = cells.totals(axis).observed == 0
        if missing.any():
            name = one_line(names[int(np.argmax(missing))])
            raise ResponseError(
                f"{kind} {name!r} has no response at all ({missing.sum()} such {kind}s); leave "
                f"it out"
            )


def connected_groups(cells: Cells) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the groups of subjects and items that observed cells connect, largest first."""
    n_subjects, n_items = cells.shape
    size = n_subjects + n_items
    nodes = first = label = np.arange(size, dtype=np.int32)
    all_answered = bool(cells.totals(1).observed.all())
    for part in cells.parts():
        # Connecting each node to the first of its group keeps the connections of earlier parts.
        ends = np.append(nodes, part.subject), np.append(first[label], part.item + n_subjects)
        edges = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(size, size))
        label = connected_components(edges, directed=False)[1]
        first = nodes[np.unique(label, return_index=True)[1]]
        if all_answered and (label[n_subjects:] == label[-1]).all():
            label, first = np.zeros_like(label), nodes[:1]  # Every subject with answers connects.
            break
    groups = [
        (np.flatnonzero(label[:n_subjects] == k), np.flatnonzero(label[n_subjects:] == k))
        for k in range(len(first))
    ]
    return sorted(groups, key=lambda group: -len(group[0]))


def median_trials(cells: Cells) -> float:
    """Return the median number of trials of an observed cell."""
    _, trials, observed = cells.totals(1)
    if (trials == observed).all():
        return 1.0
    tally: Counter[int] = Counter()
    for part in cells.parts():
        values, counts = np.unique(part.trials, return_counts=True)
        tally.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    values = np.array(sorted(tally))
    below = np.cumsum([tally[value] for value in values.tolist()])
    middle = (below[-1] - 1) // 2, below[-1] // 2
    return float(values[np.searchsorted(below, middle, side="right")].mean())

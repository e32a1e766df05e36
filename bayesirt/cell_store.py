"""Rows in any order, sorted on disk into blocks of subjects: `StoredCells` without all in memory.

Rows are first shared out by subject among files that memory can hold one at a time. Each then
becomes a block.
"""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bayesirt.cell_rows import (
    as_table,
    check_duplicate_rule,
    fold_duplicates,
    place_rows,
    refuse_repeats,
    repeats,
)
from bayesirt.cells import (
    CellList,
    DenseCells,
    SparseCells,
    Totals,
    better_sparse,
    smallest_int,
)
from bayesirt.errors import ResponseError
from bayesirt.free_memory import in_gigabytes
from bayesirt.stored_cells import StoredCells, save_block

BLOCK_ROWS = 1 << 21
"""Rows of a file, of which each becomes a block."""
_BYTES_A_ROW = 24


def store_rows(
    read: Callable[[], Iterable[CellList]],
    n_rows: int,
    names: tuple[Collection[str], Collection[str]],
    *,
    duplicates: str,
    where: Callable[[int, int], str],
    block_rows: int = BLOCK_ROWS,
) -> StoredCells:
    """Keep rows on disk, in blocks of subjects.

    Parameters
    ----------
    read : callable
        Returns the rows, some at a time, all with trials > 0. It is called once more if rows
        repeat a subject and item, to find the first of them.
    n_rows : int
        How many there will be, or more.
    names : (collection of str, collection of str)
        Of subjects and items. They may grow while rows are read.
    duplicates : {"error", "trials", "first", "last"}
        What rows with the same subject and item are.
    where : callable
        Says in words where (subject, item) stands.
    block_rows : int
        About how many rows memory holds at a time.

    Returns
    -------
    StoredCells

    Raises
    ------
    ResponseError
        If the disk has no room, the rule is unknown, or is "error" and a pair stands twice.
    """
    check_duplicate_rule(duplicates)
    _check_room(n_rows * _BYTES_A_ROW)
    with _new_folder() as folder:
        shares = _Shares(folder, max(1, -(-n_rows // block_rows)))
        for rows in read():
            shares.add(rows)
        blocks = _Blocks(folder, (len(names[0]), len(names[1])), shares, duplicates)
        for k in range(blocks.n_blocks):
            blocks.add(k, shares.take(k))
        if blocks.n_repeats:
            pair = _first_repeat(read(), blocks.repeated, len(names[1]))
            refuse_repeats(blocks.n_repeats, where(*pair))
        return blocks.finished()


@contextmanager
def _new_folder() -> Iterator[Path]:
    """Make a temporary folder, which is removed if what is done with it fails."""
    folder = Path(tempfile.mkdtemp(prefix="bayesirt-"))
    try:
        yield folder
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ResponseError(
            f"responses cannot be kept in {folder.parent}: {error.strerror}; let TMPDIR name a "
            f"folder with more room"
        ) from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _check_room(needed: int) -> None:
    place = tempfile.gettempdir()
    there = shutil.disk_usage(place).free
    if needed > there:
        raise ResponseError(
            f"responses need up to {in_gigabytes(needed)} of disk while they are sorted, "
            f"{in_gigabytes(there)} are free in {place}; let TMPDIR name a folder with more room"
        )


class _Shares:
    """Files of rows, shared out by subject, each in the order in which its rows came."""

    def __init__(self, folder: Path, n_shares: int) -> None:
        self.folder, self.n_shares = folder, n_shares
        self.n_rows = 0
        self._kind = np.dtype([])

    def add(self, rows: CellList) -> None:
        """Append rows to the files of their subjects."""
        self.n_rows += len(rows.subject)
        self._kind = np.dtype(list(zip(rows._fields, (x.dtype for x in rows), strict=True)))
        share = (rows.subject % self.n_shares).astype(smallest_int(self.n_shares))
        order = np.argsort(share, kind="stable")
        records = np.empty(len(order), self._kind)
        for name, column in zip(rows._fields, rows, strict=True):
            records[name] = column[order]
        ends = np.cumsum(np.bincount(share, minlength=self.n_shares))
        for k, own in enumerate(np.split(records, ends[:-1])):
            if len(own):
                with self._path(k).open("ab") as file:
                    own.tofile(file)

    def take(self, k: int) -> CellList:
        """Return the rows of a file, and remove it."""
        path = self._path(k)
        records = np.fromfile(path, self._kind) if path.exists() else np.empty(0, self._kind)
        path.unlink(missing_ok=True)
        return CellList(*(np.ascontiguousarray(records[name]) for name in self._kind.names or ()))

    def _path(self, k: int) -> Path:
        return self.folder / f"rows_{k}"


class _Blocks:
    """Blocks as they are made, and what is summed up meanwhile."""

    def __init__(self, folder: Path, shape: tuple[int, int], shares: _Shares, rule: str) -> None:
        self.folder, self.shape, self.rule = folder, shape, rule
        self.n_blocks = max(1, min(shares.n_shares, shape[0]))
        self.n_rows = -(-shape[0] // self.n_blocks)
        self.sparse = better_sparse(shape, shares.n_rows)
        self.n_repeats = 0
        self.repeated: list[tuple[int, int]] = []
        self._sums = np.zeros((3, shape[1]), np.int64), np.zeros((3, shape[0]), np.int64)
        self._most_trials, self._most_cells = 1, 0

    def add(self, k: int, rows: CellList) -> None:
        """Write a block, or note which of its rows repeat a subject and item."""
        own = rows._replace(subject=rows.subject // np.int32(self.n_blocks))
        cells = place_rows((self.n_rows, self.shape[1]), own, sparse=self.sparse)
        if cells is None:
            cells = self._without_repeats(rows, own)
        if cells is None:
            return
        save_block(self.folder, k, cells)
        n_own = len(range(k, self.shape[0], self.n_blocks))
        self._sums[0][:] += cells.totals(0)
        self._sums[1][:, k :: self.n_blocks] = np.stack(cells.totals(1))[:, :n_own]
        self._most_trials = max(self._most_trials, int(rows.trials.max(initial=1)))
        self._most_cells = max(self._most_cells, cells.n_observed)

    def _without_repeats(self, rows: CellList, own: CellList) -> DenseCells | SparseCells | None:
        table = as_table(own)
        if self.rule == "error":
            again = repeats(table)
            first = int(np.argmax(again))
            self.n_repeats += int(again.sum())
            self.repeated.append((int(rows.subject[first]), int(rows.item[first])))
            return None
        folded = fold_duplicates(table, self.rule, str)
        columns = CellList(*(folded[name].to_numpy() for name in ("subject", "item", "y", "n")))
        self._most_trials = max(self._most_trials, int(columns.trials.max()))
        return place_rows((self.n_rows, self.shape[1]), columns, sparse=self.sparse)

    def finished(self) -> StoredCells:
        """Return the cells."""
        return StoredCells(
            self.folder,
            self.shape,
            self.n_blocks,
            self.n_rows,
            self.sparse,
            self._most_cells,
            smallest_int(self._most_trials),
            (Totals(*self._sums[0]), Totals(*self._sums[1])),
        )


def _first_repeat(
    parts: Iterable[CellList], pairs: Sequence[tuple[int, int]], n_items: int
) -> tuple[int, int]:
    """Return that of some subjects and items which is the first to stand twice."""
    sought = np.array([subject * n_items + item for subject, item in pairs])
    seen: set[int] = set()
    for rows in parts:
        pair = rows.subject.astype(np.int64) * n_items + rows.item
        for found in pair[np.isin(pair, sought)].tolist():
            if found in seen:
                return divmod(found, n_items)
            seen.add(found)
    raise AssertionError("rows that were there when they were read first are gone")

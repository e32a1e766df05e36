"""Sort rows on disk into blocks of subjects, to make `StoredCells` without all cells in memory.

Rows are first distributed by subject over files, each of which fits in memory. Each file then
becomes a block.
"""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.cell_rows import (
    as_table,
    check_duplicate_rule,
    fold_duplicates,
    place_rows,
    refuse_repeats,
    repeats,
)
from bayesirt.data.cells import (
    CellList,
    DenseCells,
    SparseCells,
    Totals,
    better_sparse,
    smallest_int,
)
from bayesirt.data.free_memory import in_gigabytes
from bayesirt.data.stored_cells import StoredCells, save_block
from bayesirt.errors import ResponseError

BLOCK_ROWS = 1 << 21
"""Rows per file, each of which becomes a block."""
_BYTES_A_ROW = 24
_WORD = np.uint32


def store_rows(
    read: Callable[[], Iterable[CellList]],
    n_rows: int,
    names: tuple[Collection[str], Collection[str]],
    *,
    duplicates: str,
    where: Callable[[int, int], str],
    block_rows: int = BLOCK_ROWS,
    progress: Callable[[int, int], None] | None = None,
) -> StoredCells:
    """Store rows on disk in blocks of subjects."""
    check_duplicate_rule(duplicates)
    _check_room(n_rows * _BYTES_A_ROW)
    with _new_folder() as folder:
        shares = _Shares(folder, max(1, -(-n_rows // block_rows)))
        for rows in read():
            shares.add(rows)
        blocks = _Blocks(folder, (len(names[0]), len(names[1])), shares, duplicates)
        for k in range(blocks.n_blocks):
            blocks.add(k, shares.take(k))
            if progress is not None:
                progress(k + 1, blocks.n_blocks)
        if blocks.n_repeats:
            pair = _first_repeat(read(), blocks.repeated, len(names[1]))
            refuse_repeats(blocks.n_repeats, where(*pair))
        return blocks.finished()


@contextmanager
def _new_folder() -> Iterator[Path]:
    """Make a temporary folder, which is removed if the body fails."""
    folder = Path(tempfile.mkdtemp(prefix="bayesirt-"))
    try:
        yield folder
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ResponseError(
            f"responses cannot be stored in {folder.parent}: {error.strerror}; set TMPDIR to a "
            f"folder with more space"
        ) from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _check_room(needed: int) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ResponseError(
            f"responses need up to {in_gigabytes(needed)} of disk while they are sorted, but "
            f"{in_gigabytes(free)} are free in {folder}; set TMPDIR to a folder with more space"
        )


class _Shares:
    """Files of rows, distributed by subject; rows keep their order within a file.

    Subject i is row ``i // n_shares`` of share ``i % n_shares``. A row takes two words as long as
    all rows are single answers, then four.
    """

    def __init__(self, folder: Path, n_shares: int) -> None:
        self.folder, self.n_shares = folder, n_shares
        self.n_rows = 0
        self._single = True

    def add(self, rows: CellList) -> None:
        """Append rows to the files of their subjects."""
        n = len(rows.subject)
        self.n_rows += n
        self._single = self._single and bool((rows.trials == 1).all())
        row = rows.subject // np.int32(self.n_shares)
        share = (rows.subject - row * np.int32(self.n_shares)).astype(smallest_int(self.n_shares))
        words = np.empty((n, 2 if self._single else 4), _WORD)
        words[:, 0] = row
        words[:, 1] = rows.item
        if self._single:
            words[:, 1] *= 2
            words[:, 1] += rows.successes.astype(_WORD)
        else:
            words[:, 2], words[:, 3] = rows.successes, rows.trials
        words = np.take(words, np.argsort(share, kind="stable"), axis=0)
        ends = np.cumsum(np.bincount(share, minlength=self.n_shares))
        for k, part in enumerate(np.split(words, ends[:-1])):
            if len(part):
                with self._path(k, words.shape[1]).open("ab") as file:
                    part.tofile(file)

    def take(self, k: int) -> CellList:
        """Return the rows of a share, whose subjects are row numbers, and remove its files."""
        row, answer = self._words(k, 2)
        right = (answer & 1).astype(np.int8)
        position = row.astype(np.int32), (answer >> 1).astype(np.int32)
        single = CellList(*position, right, np.ones_like(right))
        if self._single:
            return single
        counted = self._words(k, 4).astype(np.int32)
        return CellList(*map(np.concatenate, zip(single, counted, strict=True)))

    def _words(self, k: int, width: int) -> NDArray[np.uint32]:
        path = self._path(k, width)
        words = np.fromfile(path, _WORD) if path.exists() else np.empty(0, _WORD)
        path.unlink(missing_ok=True)
        return words.reshape(-1, width).T

    def _path(self, k: int, width: int) -> Path:
        return self.folder / f"rows_{width}_{k}"


class _Blocks:
    """Writer of blocks, which also accumulates their sums."""

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
        """Write a block of rows, whose subjects are row numbers, or record repeated rows."""
        cells = place_rows((self.n_rows, self.shape[1]), rows, sparse=self.sparse)
        if cells is None:
            cells = self._without_repeats(k, rows)
        if cells is None:
            return
        save_block(self.folder, k, cells)
        n_own = len(range(k, self.shape[0], self.n_blocks))
        by_item = cells.totals(0)
        self._sums[0][:] += by_item
        self._sums[1][:, k :: self.n_blocks] = np.stack(cells.totals(1))[:, :n_own]
        self._most_trials = max(self._most_trials, int(rows.trials.max(initial=1)))
        self._most_cells = max(self._most_cells, int(by_item.observed.sum()))

    def _without_repeats(self, k: int, rows: CellList) -> DenseCells | SparseCells | None:
        table = as_table(rows)
        if self.rule == "error":
            again = repeats(table)
            first = int(np.argmax(again))
            self.n_repeats += int(again.sum())
            subject = int(rows.subject[first]) * self.n_blocks + k
            self.repeated.append((subject, int(rows.item[first])))
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
    """Return the pair of subject and item, among some pairs, that is duplicated first."""
    targets = np.array([subject * n_items + item for subject, item in pairs])
    seen: set[int] = set()
    for rows in parts:
        pair = rows.subject.astype(np.int64) * n_items + rows.item
        for code in pair[np.isin(pair, targets)].tolist():
            if code in seen:
                return divmod(code, n_items)
            seen.add(code)
    raise AssertionError("rows that were there when they were read first are gone")

"""Long Parquet files, read some rows at a time: all into memory, or onto disk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from bayesirt.cell_rows import fold_rows
from bayesirt.cell_store import BLOCK_ROWS, store_rows
from bayesirt.cells import CellList
from bayesirt.columns import refuse_nameless
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.parquet_bounds import check_dictionaries
from bayesirt.readers.tables import PARQUET_ERRORS, refuse_parquet
from bayesirt.responses import Responses
from bayesirt.scores import are_fractions, count_successes, parse_numbers

_AT_ONCE = 1 << 20
"""Rows."""
_BUFFER = 1 << 20
"""Bytes of a column that are read at a time, so that large row groups take no more room."""

_Known = dict[str, int]
"""Positions of names, in order of appearance."""
_Names = tuple[_Known, _Known]
"""Of subjects, and of items."""


@dataclass(frozen=True)
class LongParquet:
    """A long file whose names are plain, so that they can be numbered as rows are read.

    Attributes
    ----------
    path : Path
    roles : dict
        The columns called subject, item, score and perhaps trials.
    threshold : float or None
        Scores at or above it count as right.
    n_rows : int
    """

    path: Path
    roles: Mapping[str, str]
    threshold: float | None
    n_rows: int

    def in_memory(self, duplicates: str) -> Responses:
        """Read all rows.

        Parameters
        ----------
        duplicates : {"error", "trials", "first", "last"}

        Returns
        -------
        Responses

        Raises
        ------
        ResponseError
            At the first row that cannot be read.
        """
        names: _Names = {}, {}
        parts = list(self._rows(names))
        rows = CellList(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        del parts
        shape = len(names[0]), len(names[1])
        where = partial(_place_of_row, names, rows[:2])
        cells, _ = fold_rows(shape, rows, duplicates, where)
        return Responses(tuple(names[0]), tuple(names[1]), cells)

    def on_disk(self, duplicates: str, *, block_rows: int = BLOCK_ROWS) -> Responses:
        """Sort all rows into a temporary folder, with some of them in memory at a time.

        Parameters
        ----------
        duplicates : {"error", "trials", "first", "last"}
        block_rows : int
            About how many rows memory holds at a time.

        Returns
        -------
        Responses
            With `StoredCells`.

        Raises
        ------
        ResponseError
            At the first row that cannot be read, and where the disk has no room.
        """
        names: _Names = {}, {}
        cells = store_rows(
            lambda: self._rows(names),
            self.n_rows,
            names,
            duplicates=duplicates,
            where=partial(_place, names),
            block_rows=block_rows,
        )
        return Responses(tuple(names[0]), tuple(names[1]), cells)

    def _rows(self, names: _Names) -> Iterator[CellList]:
        """Return the rows with trials, some at a time, and add names as they appear."""
        title = one_line(self.roles["score"])
        fractions = self._fractions(title)
        n_before = 0
        for batch in self._batches(*self.roles.values()):
            columns = {role: batch.column(name) for role, name in self.roles.items()}
            subject = _positions(columns["subject"], "subject", names[0], n_before)
            item = _positions(columns["item"], "item", names[1], n_before)
            successes, trials = count_successes(
                _values(columns["score"], title),
                _values(columns["trials"], "trials") if "trials" in columns else None,
                title,
                self.threshold,
                partial(_place_of_row, names, (subject, item)),
                fractions=fractions,
            )
            kind = np.int32 if "trials" in columns else np.int8
            rows = CellList(subject, item, successes.astype(kind), trials.astype(kind))
            yield rows if trials.all() else CellList(*(column[trials > 0] for column in rows))
            n_before += len(subject)

    def _fractions(self, title: str) -> bool | None:
        """Return whether the scores of the whole file are fractions, or None if that fails."""
        if "trials" not in self.roles or self.threshold is not None:
            return None
        names = self.roles["score"], self.roles["trials"]

        def numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
            return parse_numbers(_values(batch.column(name), name), name, str)

        parts = (
            (numbers(batch, names[0]), numbers(batch, names[1])) for batch in self._batches(*names)
        )
        try:
            return are_fractions(parts, title)
        except ResponseError:  # told once more, with its place, when rows are read
            return None

    def _batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        try:
            schema = pa.parquet.read_schema(self.path)
            # Text is kept as a dictionary: a long one may be named by every row.
            text = [c for c in self.roles.values() if not pa.types.is_nested(schema.field(c).type)]
            # Pages that are fetched beforehand would stay in memory until the whole file is read.
            options = {"read_dictionary": text, "buffer_size": _BUFFER, "pre_buffer": False}
            with pa.parquet.ParquetFile(self.path, **options) as file:
                missing = file.metadata.num_rows
                for batch in file.iter_batches(_AT_ONCE, columns=list(dict.fromkeys(columns))):
                    check_dictionaries(batch)
                    missing -= batch.num_rows
                    yield batch
            if missing:
                raise ValueError(f"{missing} of its rows are missing")
        except PARQUET_ERRORS as error:
            refuse_parquet(one_line(self.path.name, 80), error)


def is_plain(kind: pa.DataType) -> bool:
    """Return whether names of this type can be numbered as rows are read."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)


def _values(column: pa.Array, title: str) -> pd.Series:
    try:
        return column.to_pandas()
    except PARQUET_ERRORS as error:
        reason = one_line(str(error), 80)
        raise ResponseError(f"`{title}` must hold numbers ({reason}); export it again") from None


def _positions(column: pa.Array, kind: str, known: _Known, n_before: int) -> NDArray[np.int32]:
    """Return the position of each row's name; names that are new are added to the known ones."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes, used = pd.factorize(column.indices.fill_null(-1).to_numpy(zero_copy_only=False))
    values = column.dictionary.take(pa.array(used, mask=used < 0)).to_pylist()
    names = ["" if value is None else str(value) for value in values]
    if "" in names:
        nameless = np.isin(codes, [k for k, name in enumerate(names) if name == ""])
        refuse_nameless(kind, n_before + int(np.argmax(nameless)))
    return np.array([known.setdefault(name, len(known)) for name in names], np.int32)[codes]


def _place_of_row(names: _Names, positions: tuple[NDArray[np.integer], ...], row: int) -> str:
    return _place(names, int(positions[0][row]), int(positions[1][row]))


def _place(names: _Names, subject: int, item: int) -> str:
    shown = (one_line(list(known)[k]) for known, k in zip(names, (subject, item), strict=True))
    return "at subject {!r}, item {!r}".format(*shown)

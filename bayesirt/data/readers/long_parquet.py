"""Read long Parquet files a batch of rows at a time, into memory or onto disk."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from bayesirt.data.cell_rows import fold_rows
from bayesirt.data.cell_store import BLOCK_ROWS, store_rows
from bayesirt.data.cells import CellList, Cells, smallest_int
from bayesirt.data.parquet_bounds import check_dictionaries, check_text
from bayesirt.data.readers.numbered import ItemValues, NumberedNames
from bayesirt.data.readers.tables import PARQUET_ERRORS, parquet_parts, refuse_parquet
from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale
from bayesirt.data.score_values import (
    are_fractions,
    count_successes,
    parse_numbers,
    told_not_run,
    without_score,
)
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_AT_ONCE = 1 << 20
"""Rows read at a time."""
_LONG = 40
"""Characters; grades are shorter."""
_BUFFER = 1 << 20
"""Bytes of a column that are read at a time, so that large row groups need no more memory."""


class _Found:
    """Names and metadata of items, collected while the rows of a file are read."""

    def __init__(self, described: Iterable[str], *, as_written: bool) -> None:
        self.subjects = NumberedNames("subject", whole=as_written)
        self.items = NumberedNames("item", whole=as_written)
        self.described = {name: ItemValues() for name in described}
        self.not_run = 0  # Rows without a score.

    @property
    def names(self) -> tuple[dict[str, int], dict[str, int]]:
        """Positions of subjects and of items."""
        return self.subjects.known, self.items.known

    def place(self, subject: int, item: int) -> str:
        """Return the location of a subject and item in words."""
        shown = (one_line(list(k)[n]) for k, n in zip(self.names, (subject, item), strict=True))
        return "at subject {!r}, item {!r}".format(*shown)

    def place_of_row(
        self, subject: NDArray[np.integer], item: NDArray[np.integer], row: int
    ) -> str:
        """Return the location of a row in words."""
        return self.place(int(subject[row]), int(item[row]))

    def describe(self, rows: pa.RecordBatch, item: NDArray[np.integer]) -> None:
        """Collect the metadata of items from some rows."""
        for name, values in self.described.items():
            try:
                values.add(rows.column(name), item, len(self.items.known))
            except PARQUET_ERRORS:  # PyArrow's message would be about Python, not the file.
                raise ResponseError(
                    f"`{one_line(name)}` holds values that cannot be read, such as impossible "
                    f"dates; make it text, or leave the column out"
                ) from None


@dataclass(frozen=True)
class LongParquet:
    """A long file with plain names, which can be numbered as rows are read."""

    path: Path
    roles: Mapping[str, str]  # Columns of the roles subject, item, score and optionally trials.
    threshold: float | None  # Scores at or above it count as right.
    n_rows: int
    # Columns that may describe items, each of which `can_be_numbered`.
    describing: tuple[str, ...] = ()
    # Whether this package wrote it: names keep the order of their dictionaries, and columns that
    # describe items must not vary within an item. In other files such columns are left out.
    as_written: bool = False
    # Called with the number of rows read and of all rows; then the same for blocks on disk.
    progress: Callable[[int, int], None] | None = None
    announce: Callable[[str], None] | None = None  # Called with what is left out.

    def counts(self, scale: Scale | None) -> bool:
        """Return whether scores are counts, or their first batch holds only 0 and 1.

        `scale` is the scale that was asked for, if any.
        """
        if self.as_written or "trials" in self.roles or self.threshold is not None:
            return True
        if scale is not None:
            return scale.kind == "binary"
        first = next(self._decoded(self.roles["score"]), None)
        if first is None:
            return True
        scores = _values(first.column(0), one_line(self.roles["score"])).dropna()
        try:
            values = [*scores.unique()]
        except TypeError:  # lists
            return True
        if any(isinstance(value, str) and len(value) > _LONG for value in values):
            return True  # They are refused when rows are read.
        return {*values} <= {0, 1, "0", "1", "0.0", "1.0"}

    def in_memory(self, duplicates: str) -> Responses:
        """Read all rows into memory."""
        found = _Found(self.describing, as_written=self.as_written)
        rows = self._joined(found)
        where = partial(found.place_of_row, rows.subject, rows.item)
        shape = len(found.subjects.known), len(found.items.known)
        return self._responses(found, fold_rows(shape, rows, duplicates, where)[0])

    def on_disk(self, duplicates: str, *, block_rows: int = BLOCK_ROWS) -> Responses:
        """Sort all rows into a temporary folder, holding only some in memory at a time."""
        found = _Found(self.describing, as_written=self.as_written)
        cells = store_rows(
            lambda: self._rows(found),
            self.n_rows,
            found.names,
            duplicates=duplicates,
            where=found.place,
            block_rows=block_rows,
            progress=self.progress,
        )
        return self._responses(found, cells)

    def _joined(self, contents: _Found) -> CellList:
        """Return all rows with trials, without holding a second copy meanwhile."""
        kinds = np.int32, np.int32, np.int8, np.int8
        columns: list[NDArray[np.integer]] = [np.empty(self.n_rows, kind) for kind in kinds]
        n = 0
        for rows in self._rows(contents):
            end = n + len(rows.item)
            for k, part in enumerate(rows):
                columns[k] = columns[k].astype(
                    np.promote_types(columns[k].dtype, part.dtype), copy=False
                )
                columns[k][n:end] = part
            n = end
        return CellList(*(column[:n] for column in columns))

    def _rows(self, contents: _Found) -> Iterator[CellList]:
        """Yield batches of rows with trials, and collect names and metadata."""
        title = one_line(self.roles["score"])
        fractions = self._fractions(title)
        n_before = contents.not_run = 0
        for batch in self._batches(*self.roles.values(), *self.describing):
            columns = {role: batch.column(name) for role, name in self.roles.items()}
            subject = contents.subjects.positions(columns["subject"], n_before)
            item = contents.items.positions(columns["item"], n_before)
            contents.describe(batch, item)
            n_before += len(subject)
            scores = _values(columns["score"], title)
            counts = _values(columns["trials"], "trials") if "trials" in columns else None
            missing = without_score(scores)
            if missing is not None:
                contents.not_run += int(missing.sum())
                subject, item, scores = (x[~missing] for x in (subject, item, scores))
                counts = None if counts is None else counts[~missing]
            successes, trials = count_successes(
                scores,
                counts,
                title,
                self.threshold,
                partial(contents.place_of_row, subject, item),
                fractions=fractions,
            )
            kind = smallest_int(int(trials.max(initial=1)))
            rows = CellList(
                subject, item, *(x.astype(kind, copy=False) for x in (successes, trials))
            )
            yield rows if trials.all() else CellList(*(column[trials > 0] for column in rows))

    def _responses(self, contents: _Found, cells: Cells) -> Responses:
        subjects, items = map(tuple, contents.names)
        if contents.not_run and self.announce is not None:
            self.announce(told_not_run(contents.not_run, self.n_rows, self.path.name))
        return Responses(subjects, items, cells, item_metadata=self._metadata(contents, items))

    def _metadata(self, contents: _Found, items: Sequence[str]) -> pd.DataFrame:
        """Return the columns that describe items, with one row per item."""
        schema = pa.parquet.read_schema(parquet_parts(self.path)[0])
        shown, columns = one_line(self.path.name, 80), {}
        for name, values in contents.described.items():
            if values.varying is not None and self.as_written:
                raise ResponseError(
                    f"`{one_line(name)}` differs between the rows of item "
                    f"{one_line(items[values.varying])!r}; convert the results again"
                )
            if values.varying is None:
                of_items = values.of_items(_value_type(schema.field(name).type))
                if _is_text(of_items.type.value_type):
                    check_text(of_items, self.path, shown)
                columns[name] = of_items.dictionary_decode().to_pandas()
        return pd.DataFrame(columns).set_axis(pd.Index(items, dtype=object), axis=0)

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
        except ResponseError:  # Raised again, with its location, when rows are read.
            return None

    def _batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        n_read = 0
        for batch in self._decoded(*columns):
            yield batch
            n_read += batch.num_rows
            if self.progress is not None:
                self.progress(n_read, self.n_rows)

    def _decoded(self, *columns: str) -> Iterator[pa.RecordBatch]:
        try:
            schema = pa.parquet.read_schema(parquet_parts(self.path)[0])
            # Text is kept as a dictionary, as every row may refer to the same long text.
            names = *self.roles.values(), *self.describing
            text = [c for c in names if not pa.types.is_nested(schema.field(c).type)]
            # Prefetched pages would stay in memory until the whole file is read.
            options = {"read_dictionary": text, "buffer_size": _BUFFER, "pre_buffer": False}
            missing, selected = self.n_rows, list(dict.fromkeys(columns))
            for part in parquet_parts(self.path):
                with pa.parquet.ParquetFile(part, **options) as file:
                    for batch in file.iter_batches(_AT_ONCE, columns=selected):
                        check_dictionaries(batch)
                        missing -= batch.num_rows
                        if missing < 0:
                            raise ValueError("it has more rows than its metadata say")
                        yield batch
            if missing:
                raise ValueError(f"{missing} of its rows are missing")
        except PARQUET_ERRORS as error:
            refuse_parquet(one_line(self.path.name, 80), error)


def is_plain(kind: pa.DataType) -> bool:
    """Return whether names of this type can be numbered as rows are read."""
    kind = _value_type(kind)
    return _is_text(kind) or pa.types.is_integer(kind)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _values(column: pa.Array, title: str) -> pd.Series:
    try:
        return column.to_pandas()
    except PARQUET_ERRORS as error:
        reason = one_line(str(error), 80)
        raise ResponseError(f"`{title}` must hold numbers ({reason}); export it again") from None

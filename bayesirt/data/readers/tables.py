"""Files with rows and columns, read without guessing types: names remain text."""

import codecs
import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bayesirt.data.parquet_bounds import check_dictionaries, check_unpacked
from bayesirt.data.readers.json_tables import json_lines, json_records
from bayesirt.data.readers.unpacking import TIMES, most_unpacked
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_DELIMITERS = (",", "\t", ";")
_HEADER_LOOK = 65_536
_LARGEST_ROW = 1 << 26
_SCORES = {"0", "1", "0.0", "1.0", ""}
_PARQUET_SAYS = "Could not open Parquet input source '<Buffer>': "
Progress = Callable[[int, int], None]
PARQUET_ERRORS = (pa.ArrowException, OSError, OverflowError, ValueError)
"""Errors that PyArrow raises for files that are not Parquet, or are broken."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")


class NoRowsError(ResponseError):
    """A file of a table is empty or has no rows."""


def read_table(path: Path, *, progress: Progress | None = None) -> pd.DataFrame:
    """Read a CSV, TSV, JSON, JSON Lines, Excel or Parquet file, each optionally with ``.gz``.

    A folder of Parquet files is one table. CSV and TSV cells are text; other values keep their
    types. Nested JSON objects become columns such as ``model.name``.
    """
    parts = parquet_parts(path)
    if parts not in ([], [path]):
        parquet_schema(path)  # Refuses parts with different columns.
        return pd.concat([read_table(part) for part in parts], ignore_index=True)
    endings = [e.lower() for e in path.suffixes]
    if endings and endings[-1] == ".gz":
        endings = endings[:-1]
    parse = _PARSERS.get(endings[-1] if endings else "")
    name = one_line(path.name, 80)
    _check_path(path)
    if parse is None:
        raise ResponseError(
            f"{name} has none of the endings {', '.join(_PARSERS)} (optionally with .gz); convert "
            f"or rename it"
        )
    frame = parse(_content(path, name), name, progress)
    if frame.empty:
        raise NoRowsError(f"{name} has a header but no rows; add the results")
    return frame


def read_text(path: Path) -> str:
    """Read a text file."""
    _check_path(path)
    name = one_line(path.name, 80)
    return _text(_content(path, name), name)


def _check_path(path: Path) -> None:
    shown = one_line(str(path), 200)
    if os.path.isdir(path):
        raise ResponseError(f"{shown} is a folder; name the results file in it")
    if not os.path.exists(path):
        raise ResponseError(f"{shown} does not exist; check the path")
    if not os.path.isfile(path):
        raise ResponseError(f"{shown} is not a regular file; save the results to one")


def _content(path: Path, name: str) -> bytes:
    try:
        data = path.read_bytes()
        if path.suffix.lower() == ".gz":
            data = _unpacked(data, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ResponseError(f"{name} is not a whole gzip file ({error}); make it again") from None
    except OSError as error:
        raise ResponseError(f"{name} cannot be read: {error.strerror}; check the file") from None
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise NoRowsError(f"{name} is empty; export the results again")
    return data


def _unpacked(data: bytes, name: str) -> bytes:
    most = most_unpacked(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ResponseError(f"{name} unpacks to more than {TIMES} times its size; unpack it first")
    return content


def _text(data: bytes, name: str) -> str:
    if b"\0" in data[:4096]:
        raise ResponseError(f"{name} is not text; export it as UTF-8 CSV, JSON Lines or Parquet")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ResponseError(f"{name} is not UTF-8 (line {line}); save it as UTF-8") from None


def _parse_csv(data: bytes, name: str, progress: Progress | None) -> pd.DataFrame:
    text = _text(data, name)
    delimiter = _delimiter(text[:_HEADER_LOOK].lstrip("\r\n"), name)
    header = _header(text, delimiter, name)
    del text  # as large as the file
    _check_header(header, name)
    try:
        rows = pyarrow.csv.open_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(block_size=_LARGEST_ROW, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
            ),
        )
        table = pa.Table.from_batches(_told(rows, len(data), progress), rows.schema)
    except pa.ArrowException as error:
        reason = one_line(str(error).removeprefix("CSV parse error: "), 120)
        raise ResponseError(
            f"{name} is not a table: {reason}; give each row as many cells as the header"
        ) from None
    if table.column_names != header:
        raise ResponseError(f"{name} has a header that cannot be read; quote its names as CSV does")
    return table.to_pandas()


def _told(
    blocks: Iterable[pa.RecordBatch], size: int, progress: Progress | None
) -> Iterator[pa.RecordBatch]:
    """Yield one block of rows after another, and report progress."""
    for number, block in enumerate(blocks, 1):
        yield block
        if progress is not None:
            progress(min(number * _LARGEST_ROW, size), size)


def _delimiter(start: str, name: str) -> str:
    first = _first_line(re.sub(r'"[^"]*"?', "", start))
    delimiter = max(_DELIMITERS, key=first.count)
    if delimiter not in first:
        shown = one_line(_first_line(start), 60)
        raise ResponseError(
            f"{name} is not a table: its first line {shown!r} has only one column; separate "
            f"columns by commas"
        )
    return delimiter


def _first_line(text: str) -> str:
    return re.split(r"[\r\n]", text, maxsplit=1)[0]


def _header(text: str, delimiter: str, name: str) -> list[str]:
    lines = (line[0] for line in _LINE.finditer(text))
    try:
        return next(row for row in csv.reader(lines, delimiter=delimiter) if row)
    except csv.Error as error:
        raise ResponseError(f"{name} has a header that cannot be read: {error}") from None


def _check_header(header: list[str], name: str) -> None:
    if header and {*header} <= _SCORES:
        raise ResponseError(
            f"{name} has no names: its first line holds scores; name the items in the first line "
            f"and the models in the first column"
        )
    seen: set[str] = set()
    for column in header:
        if column in seen:
            raise ResponseError(
                f"{name} has the column {one_line(column)!r} twice; rename or drop one of them"
            )
        seen.add(column)


def _parse_parquet(data: bytes, name: str, _: Progress | None) -> pd.DataFrame:
    try:
        check_unpacked(io.BytesIO(data), name)
        with pyarrow.parquet.ParquetFile(io.BytesIO(data)) as file:
            table = file.read()
        check_dictionaries(table)
        _check_header(table.column_names, name)
        index = _index_columns(table.schema)
        index_first = sorted(table.column_names, key=lambda column: column not in index)
        # Without metadata, as pandas would parse its own even where it does not use them.
        return table.select(index_first).replace_schema_metadata(None).to_pandas()
    except PARQUET_ERRORS as error:
        refuse_parquet(name, error)


def _parse_excel(data: bytes, name: str, _: Progress | None) -> pd.DataFrame:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            unpacked = sum(part.file_size for part in book.infolist())
        if unpacked > most_unpacked(len(data)):
            raise ValueError(f"it unpacks to more than {TIMES} times its size")
        sheets = pd.read_excel(
            io.BytesIO(data), sheet_name=None, engine="calamine", dtype=object, na_filter=False
        )
    except Exception as error:  # The parser may raise anything for a broken file.
        reason = one_line(str(error), 100)
        raise ResponseError(f"{name} is not an Excel file: {reason}; save it again") from None
    filled = {sheet: frame for sheet, frame in sheets.items() if len(frame.columns)}
    if len(filled) != 1:
        listed = ", ".join(one_line(sheet, 20) for sheet in filled) or "nothing"
        raise ResponseError(
            f"{name} must have one sheet with results, and has {listed}; save that sheet as CSV"
        )
    (frame,) = filled.values()
    frame.columns = [str(column) for column in frame.columns]
    return frame


def parquet_parts(path: Path) -> list[Path]:
    """Return the files of a Parquet table: one file, or those of a folder with nothing else."""
    if not os.path.isdir(path):
        return [path] if path.suffix.lower() == ".parquet" else []
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and p.name[0] not in "._"]
    return files if all(p.suffix.lower() == ".parquet" for p in files) else []


def _index_columns(schema: pa.Schema) -> list[object]:
    """Return the columns that were the index in pandas, if the file records them."""
    try:
        described = schema.pandas_metadata
    except (ValueError, RecursionError):
        return []
    columns = described.get("index_columns") if isinstance(described, dict) else None
    return columns if isinstance(columns, list) else []


def refuse_parquet(name: str, error: Exception) -> NoReturn:
    """Refuse a file that is not a whole Parquet file."""
    if isinstance(error, ResponseError):
        raise error
    reason = one_line(str(error).removeprefix(_PARQUET_SAYS).strip(" ."), 120)
    raise ResponseError(f"{name} is not a Parquet file: {reason}; export it again") from None


def parquet_schema(path: Path) -> tuple[pa.Schema, int] | None:
    """Return the schema of a Parquet table and its number of rows, without reading rows."""
    schemas = [_schema_of(part) for part in parquet_parts(path)]
    readable = [one for one in schemas if one is not None]
    if not readable or len(readable) < len(schemas):
        return None
    schema = readable[0][0]
    for part, (other, _) in zip(parquet_parts(path), readable, strict=True):
        if {*other.names} != {*schema.names}:
            raise ResponseError(
                f"{one_line(part.name, 80)} has other columns than the first file of its folder; "
                f"keep the files of one table in a folder"
            )
    return schema, sum(n_rows for _, n_rows in readable)


def _schema_of(path: Path) -> tuple[pa.Schema, int] | None:
    if not os.path.isfile(path):
        return None
    try:
        check_unpacked(path, one_line(path.name, 80), decoded=lambda _: False)
        with pyarrow.parquet.ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
    except ResponseError:
        raise
    except PARQUET_ERRORS:
        return None
    index = _index_columns(schema)
    if n_rows == 0 or len(set(schema.names)) < len(schema.names):
        return None
    ordered = sorted(schema, key=lambda column: column.name not in index)
    return pa.schema(ordered, metadata=schema.metadata), n_rows


_PARSERS: dict[str, Callable[[bytes, str, Progress | None], pd.DataFrame]] = {
    ".csv": _parse_csv,
    ".tsv": _parse_csv,
    ".jsonl": lambda data, name, progress: json_lines(_text(data, name), name, progress),
    ".json": lambda data, name, _: json_records(_text(data, name), name),
    ".xlsx": _parse_excel,
    ".parquet": _parse_parquet,
}

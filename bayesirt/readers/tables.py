"""Files of rows and columns, read without guessing: names stay the text that they are."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_DELIMITERS = (",", "\t", ";")


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV, TSV, JSON Lines or Parquet file, each perhaps compressed as ``.gz``.

    Parameters
    ----------
    path : Path
        The ending tells the format.

    Returns
    -------
    DataFrame
        CSV and TSV cells are text; JSON and Parquet values keep their types.

    Raises
    ------
    ResponseError
        If the file is missing, empty, of an unknown kind, not UTF-8, or no table.
    """
    endings = [e.lower() for e in path.suffixes]
    if endings and endings[-1] == ".gz":
        endings = endings[:-1]
    parse = _PARSERS.get(endings[-1] if endings else "")
    if path.is_dir():
        raise ResponseError(f"{path} is a folder; name the results file in it")
    if not path.exists():
        raise ResponseError(f"{path} does not exist; check the path")
    if parse is None:
        raise ResponseError(
            f"{path.name} ends in none of {', '.join(_PARSERS)} (each perhaps with .gz); convert "
            f"or rename it"
        )
    frame = parse(_content(path), path.name)
    if frame.empty:
        raise ResponseError(f"{path.name} has a header but no rows; nothing was measured yet")
    return frame


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        if path.suffix.lower() == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise ResponseError(f"{path.name} cannot be read: {error}") from None
    if not data.strip():
        raise ResponseError(f"{path.name} is empty")
    return data


def _text(data: bytes, name: str) -> str:
    if b"\0" in data[:4096]:
        raise ResponseError(f"{name} is not text; export it as UTF-8 CSV, JSON Lines or Parquet")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ResponseError(f"{name} is not UTF-8 (line {line}); save it as UTF-8") from None


def _parse_csv(data: bytes, name: str) -> pd.DataFrame:
    text = _text(data, name)
    first = text.lstrip("\r\n").splitlines()[0]
    delimiter = max(_DELIMITERS, key=first.count)
    if delimiter not in first:
        raise ResponseError(
            f"{name} is not a table: its first line {one_line(first, 60)!r} has only one column; "
            f"separate columns by commas"
        )
    header = next(csv.reader(io.StringIO(text), delimiter=delimiter))
    _check_header(header, name)
    everything_is_text = {column: pa.string() for column in header}
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text.encode()),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=everything_is_text, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("CSV parse error: ")
        raise ResponseError(f"{name} is not a table: {one_line(reason, 120)}") from None
    return table.to_pandas()


def _check_header(header: list[str], name: str) -> None:
    seen: set[str] = set()
    for column in header:
        if column in seen:
            raise ResponseError(
                f"{name} has the column {one_line(column)!r} twice; rename or drop one of them"
            )
        seen.add(column)


def _parse_json_lines(data: bytes, name: str) -> pd.DataFrame:
    rows = []
    for number, line in enumerate(_text(data, name).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise ResponseError(f"{name}, line {number}: not valid JSON") from None
        if not isinstance(row, dict):
            raise ResponseError(f"{name}, line {number}: not a JSON object with named values")
        rows.append(row)
    return pd.DataFrame(rows, dtype=object)


def _parse_parquet(data: bytes, name: str) -> pd.DataFrame:
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        raise ResponseError(f"{name} is not a Parquet file: {one_line(str(error), 90)}") from None
    _check_header(table.column_names, name)
    return table.to_pandas(ignore_metadata=True)


_PARSERS: dict[str, Callable[[bytes, str], pd.DataFrame]] = {
    ".csv": _parse_csv,
    ".tsv": _parse_csv,
    ".jsonl": _parse_json_lines,
    ".parquet": _parse_parquet,
}

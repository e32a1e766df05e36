"""Checks against Parquet files that unpack to far too much, or refer to entries they do not hold.

A few bytes can stand for a billion equal rows, or refer to one long text a million times.
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from bayesirt.errors import ResponseError

ALWAYS = 1 << 27
"""Bytes that any file may unpack to."""
TIMES = 2000
"""Largest ratio of unpacked to stored size of a file that unpacks to more than `ALWAYS`."""
_BYTES_A_VALUE = 8


def check_unpacked(
    source: Path | io.BytesIO,
    name: str = "it",
    *,
    decoded: Callable[[str], bool] | None = None,
) -> None:
    """Refuse a Parquet file that unpacks to more than `ALWAYS` and more than `TIMES` its size.

    Each list counts as one value, as its length is unknown before it is read.
    """
    most = _most(source)
    with pa.parquet.ParquetFile(source) as file:
        metadata = file.metadata
        columns = [file.schema.column(k) for k in range(metadata.num_columns)]
    # Metadata of single columns are not read: damaged ones would crash the process.
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    stored = sum(max(0, group.total_byte_size) for group in groups)
    total = stored + _BYTES_A_VALUE * metadata.num_rows * len(columns)
    if total <= most < stored * metadata.num_rows:
        text = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        total += sum(_decoded_bytes(source, p) for p in text if decoded is None or decoded(p))
    if total > most:
        raise _too_large(name)


def check_text(values: pa.Array, source: Path | io.BytesIO, name: str = "it") -> None:
    """Refuse text that `check_unpacked` would find too long, before it is decoded."""
    if _length(values) > _most(source):
        raise _too_large(name)


def check_dictionaries(table: pa.Table | pa.RecordBatch) -> None:
    """Refuse columns that refer to entries missing from their dictionaries."""
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)


def _most(source: Path | io.BytesIO) -> int:
    size = source.stat().st_size if isinstance(source, Path) else source.getbuffer().nbytes
    return max(ALWAYS, TIMES * size)


def _too_large(name: str) -> ResponseError:
    return ResponseError(
        f"{name} unpacks to more than {TIMES:,} times its size; rewrite it without dictionaries "
        f"and compression"
    )


def _decoded_bytes(source: Path | io.BytesIO, path: str) -> int:
    """Return the total length of a text column once decoded, without decoding it."""
    total = 0
    with pa.parquet.ParquetFile(source, read_dictionary=[path]) as file:
        for group in range(file.metadata.num_row_groups):
            for column in file.read_row_group(group, columns=[path]).columns:
                total += sum(_length(chunk) for chunk in column.chunks)
    return total


def _length(values: pa.Array) -> int:
    if pa.types.is_struct(values.type):
        return sum(_length(values.field(k)) for k in range(values.type.num_fields))
    if pa.types.is_nested(values.type):
        return _length(values.values)
    if not pa.types.is_dictionary(values.type):
        return int(values.nbytes)
    lengths = pa.compute.binary_length(values.dictionary).fill_null(0).to_numpy()
    used = values.indices.drop_null().to_numpy()
    return int(np.bincount(used, minlength=len(lengths)) @ lengths) if len(lengths) else 0

"""The long Parquet format of this package, which restores responses exactly.

One row per observed cell: subject, item, successes, trials; latency, cluster and cost if known; and
the columns that describe the item. Names are dictionaries that hold all names in their order.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from bayesirt.data.cell_rows import fold_rows
from bayesirt.data.cells import CellList
from bayesirt.data.clusters import clusters_of_rows
from bayesirt.data.costs import costs_of_rows
from bayesirt.data.parquet_bounds import check_dictionaries, check_text, check_unpacked
from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale, stored_scale
from bayesirt.data.score_values import count_successes, where_of
from bayesirt.data.table_columns import parse_latency, refuse_nameless
from bayesirt.data.whole_file import saying_why
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

SCHEMA_VERSION = 1
_KEY, _SCALE = b"bayesirt", b"bayesirt_scale"
_COUNTS = ("subject", "item", "successes", "trials")
OWN_ROLES = dict(zip(("subject", "item", "score", "trials"), _COUNTS, strict=True))
"""Column of each role."""
_LATENCY, _CLUSTER, _COST = "latency", "cluster", "cost"
_LARGEST_DICTIONARY = 1 << 30
"""Bytes; a larger dictionary would be written as plain text and lose its order."""


def write_long_parquet(responses: Responses, path: str | Path, *, overwrite: bool = False) -> None:
    """Write responses to a long Parquet file."""
    path = Path(path)
    check_place(path, overwrite=overwrite)
    if responses.q_matrix is not None:
        raise ResponseError("a long file cannot store a Q-matrix; write that separately")
    if len(responses.subject_metadata.columns):
        raise ResponseError(
            "a Parquet file of responses does not store columns of subjects; leave them out here, "
            "and pass them, or a --subject-table, when ranking"
        )
    metadata = _metadata_columns(responses)
    schema = _schema(responses, metadata)
    folder = path.absolute().parent
    with saying_why(path), tempfile.TemporaryDirectory(prefix=".bayesirt-", dir=folder) as scratch:
        new = Path(scratch, "new.parquet")
        options = {"compression": "zstd", "dictionary_pagesize_limit": _LARGEST_DICTIONARY}
        with pyarrow.parquet.ParquetWriter(new, schema, **options) as file:
            for table in _tables(responses, metadata, schema):
                file.write_table(table)
        os.replace(new, path)


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse a path where no file can be written, before any work is done."""
    shown = one_line(str(path), 200)
    if path.suffix.lower() != ".parquet":
        raise ResponseError(f"{shown} does not end in .parquet; name a file that does")
    if os.path.isdir(path):
        raise ResponseError(f"{shown} is a folder; name a file")
    if os.path.lexists(path) and not overwrite:
        raise ResponseError(f"{shown} already exists; pass --overwrite to replace it")
    if not os.path.isdir(path.absolute().parent):
        raise ResponseError(f"{shown} is in no folder that exists; make the folder first")


def schema_version(schema: pa.Schema) -> int | None:
    """Return the schema version of a file that this package wrote, or None for other files.

    >>> schema_version(pa.schema([]).with_metadata({"bayesirt": "1"}))
    1
    """
    version = (schema.metadata or {}).get(_KEY, b"")
    return int(version) if version.isdigit() and len(version) < 10 else None


def written_scale(schema: pa.Schema) -> Scale | None:
    """Return the scale in a file that this package wrote, or None for right and wrong answers."""
    noted = (schema.metadata or {}).get(_SCALE)
    return None if noted is None else stored_scale(noted.decode())


def check_written(schema: pa.Schema, name: str) -> None:
    """Refuse a file that this version of the package cannot read."""
    version = schema_version(schema) or 0
    if version > SCHEMA_VERSION:
        raise ResponseError(
            f"{name} was written by a newer bayesirt (it has schema {version}, this version reads "
            f"up to {SCHEMA_VERSION}); update bayesirt"
        )
    if not {*_COUNTS} <= {*schema.names}:
        raise ResponseError(f"{name} lacks one of {', '.join(_COUNTS)}; convert the results again")
    for side in ("subject", "item"):
        kind = schema.field(side).type
        if not (pa.types.is_dictionary(kind) and kind.value_type == pa.string()):
            raise ResponseError(f"{name} does not hold the names of {side}s; convert it again")


def describing_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that describe items in a file that this package wrote.

    >>> describing_columns(pa.schema({"subject": pa.string(), "topic": pa.string()}))
    ['topic']
    """
    return [name for name in schema.names if name not in (*_COUNTS, _LATENCY, _CLUSTER, _COST)]


def read_long_parquet(path: Path, *, duplicates: str = "error") -> Responses:
    """Read responses that `write_long_parquet` wrote."""
    name = one_line(path.name, 80)
    table = _read_table(path, name)
    check_written(table.schema, name)
    timed = _LATENCY in table.column_names
    counts = table.select([*_COUNTS, *([_LATENCY] if timed else [])]).unify_dictionaries()
    (subject, subjects), (item, items) = (
        _read_names(counts[side], side, name) for side in ("subject", "item")
    )

    where = where_of(subjects, items, subject, item)
    successes, trials = (counts[column].to_pandas() for column in ("successes", "trials"))
    y, n = count_successes(successes, trials, "successes", None, where)
    x = parse_latency(counts[_LATENCY].to_pandas(), _LATENCY, where) if timed else None
    rows = np.flatnonzero(n)
    cells, latency = fold_rows(
        (len(subjects), len(items)),
        CellList(*(column[rows] for column in (subject, item, y, n))),
        duplicates,
        lambda row: where(int(rows[row])),
        latency=None if x is None else x[rows],
    )
    described = describing_columns(table.schema)
    metadata = _read_metadata(table.select(described), item, items, path)
    clusters, costs = None, None
    if _CLUSTER in table.column_names:
        clusters = clusters_of_rows(table[_CLUSTER].to_pandas(), subject, subjects)
    if _COST in table.column_names:
        costs = costs_of_rows(table[_COST].to_pandas(), subject, subjects)
    return Responses(
        tuple(subjects), tuple(items), cells, latency, metadata,
        clusters=clusters, costs=costs, scale=written_scale(table.schema),
    )  # fmt: skip


def _read_table(path: Path, name: str) -> pa.Table:
    """Return all columns; text that describes items stays a dictionary, as it was written."""
    with pyarrow.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    text = [f.name for f in schema if pa.types.is_string(f.type) and f.name not in _COUNTS]
    dictionaries = {*text, *(f.name for f in schema if pa.types.is_dictionary(f.type))}
    check_unpacked(path, name, decoded=lambda column: column not in dictionaries)
    with pyarrow.parquet.ParquetFile(path, read_dictionary=text) as file:
        table = file.read()
    check_dictionaries(table)
    return table


def _metadata_columns(responses: Responses) -> dict[str, pa.Array]:
    """Return the columns that describe items, one value per item; text becomes a dictionary."""
    columns = {}
    for name, values in responses.item_metadata.items():
        shown = one_line(str(name))
        if not isinstance(name, str):
            raise ResponseError(
                f"the item metadata {shown} have a name that is not text; rename it"
            )
        try:
            column = pa.array(values.tolist(), from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise ResponseError(
                f"the item metadata `{shown}` mix several types of values; make them text"
            ) from None
        columns[name] = column.dictionary_encode() if pa.types.is_string(column.type) else column
    return columns


def _schema(responses: Responses, metadata: dict[str, pa.Array]) -> pa.Schema:
    names = pa.dictionary(pa.int32(), pa.string())
    kinds = (names, names, pa.int32(), pa.int32())
    fields = list(zip(_COUNTS, kinds, strict=True))
    if responses.latency is not None:
        fields.append((_LATENCY, pa.float64()))
    if responses.clusters is not None:
        fields.append((_CLUSTER, names))
    if responses.costs is not None:
        fields.append((_COST, pa.float64()))
    fields += [(name, column.type) for name, column in metadata.items()]
    noted = {_KEY: str(SCHEMA_VERSION)}
    if responses.scale is not None:
        noted[_SCALE] = json.dumps(asdict(responses.scale))
    return pa.schema(fields, metadata=noted)


def _tables(
    responses: Responses, metadata: dict[str, pa.Array], schema: pa.Schema
) -> Iterator[pa.Table]:
    subjects, items = (pa.array(n, pa.string()) for n in (responses.subjects, responses.items))
    clusters = responses.clusters
    start = 0
    for part in responses.cells.parts():
        position = pa.array(part.item)
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(part.subject, pa.int32()), subjects),
            pa.DictionaryArray.from_arrays(position.cast(pa.int32()), items),
            pa.array(part.successes, pa.int32()),
            pa.array(part.trials, pa.int32()),
        ]
        if responses.latency is not None:
            latency = responses.latency[start : start + len(part.item)]
            columns.append(pa.array(latency, pa.float64(), from_pandas=True))
        if clusters is not None:
            codes = pa.array(np.array(clusters.codes, np.int32)[part.subject])
            columns.append(pa.DictionaryArray.from_arrays(codes, pa.array(clusters.names)))
        if responses.costs is not None:
            costs = responses.costs[part.subject]
            columns.append(pa.array(costs, pa.float64(), from_pandas=True))
        columns += [column.take(position) for column in metadata.values()]
        start += len(part.item)
        yield pa.table(columns, schema=schema)


def _read_names(
    column: pa.ChunkedArray, side: str, file: str
) -> tuple[NDArray[np.int32], list[str]]:
    """Return the position of each row's name, and all names in order."""
    if column.null_count:
        refuse_nameless(side, int(np.argmax(column.is_null().to_numpy())))
    if not column.num_chunks:
        raise ResponseError(f"{file} has no rows; convert the results again")
    positions = column.combine_chunks().indices.to_numpy(zero_copy_only=False)
    return positions.astype(np.int32, copy=False), column.chunk(0).dictionary.to_pylist()


def _read_metadata(
    columns: pa.Table, item: NDArray[np.int32], items: Sequence[str], path: Path
) -> pd.DataFrame:
    """Reduce columns from one row per cell to one per item; they must be constant within items."""
    first = np.zeros(len(items), np.intp)
    first[item[::-1]] = np.arange(len(item))[::-1]  # Assigned in reverse, so the first row wins.
    table = columns.unify_dictionaries()
    values = {}
    for name in columns.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            of_rows = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            varies = of_rows != of_rows[first[item]]
            if varies.any():
                shown = one_line(items[item[int(np.argmax(varies))]])
                raise ResponseError(
                    f"`{one_line(name)}` differs between the rows of item {shown!r}; convert the "
                    f"results again"
                )
        taken = column.take(pa.array(first))
        if pa.types.is_dictionary(taken.type):
            check_text(taken, path, one_line(path.name, 80))
            taken = taken.dictionary_decode()
        nested = pa.types.is_nested(taken.type)
        values[name] = taken.to_pylist() if nested else taken.to_pandas()
    return pd.DataFrame(values).set_axis(pd.Index(items, dtype=object), axis=0)

"""Conversion of steps of an item bank to Parquet files, and safe writing of files."""

import io
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from bayesirt.bank.step import BankItems, BankStep, ReferenceSubjects
from bayesirt.bank.tables import to_arrow
from bayesirt.estimators.fixed_items import KnownItems

FILES = ("items.parquet", "subjects.parquet", "answers.parquet", "scores.parquet")


def pack_step(step: BankStep) -> dict[str, bytes]:
    """Return the files of a step by name (those of `FILES` that it needs)."""
    tables = {
        "items.parquet": None if step.items is None else _items_table(step.items),
        "subjects.parquet": None if step.subjects is None else _subjects_table(step.subjects),
        "answers.parquet": None if step.answers is None else to_arrow(step.answers, "answers"),
        "scores.parquet": None if step.scores is None else to_arrow(step.scores, "scores"),
    }
    return {name: _pack(table) for name, table in tables.items() if table is not None}


def unpack_step(kind: Any, files: Mapping[str, bytes], details: Mapping[str, Any]) -> BankStep:
    """Return the step from the files that `pack_step` made."""
    tables = {name: pa.parquet.read_table(io.BytesIO(data)) for name, data in files.items()}
    for name, table in tables.items():
        if not table.num_rows:
            raise ValueError(f"{name} has no rows")

    def read(name: str, parse: Callable[[pa.Table], Any]) -> Any:
        return parse(tables[name]) if name in tables else None

    return BankStep(
        kind,
        items=read("items.parquet", _parse_items),
        subjects=read("subjects.parquet", _parse_subjects),
        answers=read("answers.parquet", pa.Table.to_pandas),
        scores=read("scores.parquet", pa.Table.to_pandas),
        **details,
    )


def write_file(path: Path, data: bytes) -> None:
    """Write a new file, and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on disk, if the system supports this."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _items_table(items: BankItems) -> pa.Table:
    weights = np.asarray(items.weights, np.float64)
    return pa.table(
        {
            "item": pa.array(items.known.names, pa.string()),
            "benchmark": pa.array(items.benchmarks, pa.string()),
            "a": _lists(items.known.a),
            "d": pa.array(np.asarray(items.known.d, np.float64)),
            "covariance": _lists(items.known.covariance),
            "anchor": pa.array(~np.isnan(weights)),
            "weight": pa.array(weights),
        }
    )


def _parse_items(table: pa.Table) -> BankItems:
    n, a = table.num_rows, _numbers(table, "a")
    size = a.size // n + 1
    covariance = _numbers(table, "covariance").reshape(n, size, size)
    d, weights = _numbers(table, "d"), _numbers(table, "weight")
    items = KnownItems(_texts(table, "item"), a.reshape(n, -1), d, covariance)
    if table["anchor"].to_pylist() != (~np.isnan(weights)).tolist():
        raise ValueError("items that are not anchors have weights, or anchors have none")
    return BankItems(items, _texts(table, "benchmark"), weights)


def _subjects_table(subjects: ReferenceSubjects) -> pa.Table:
    return pa.table(
        {
            "subject": pa.array(subjects.names, pa.string()),
            "theta": _lists(subjects.theta),
            "covariance": _lists(subjects.covariance),
            "accuracy": _lists(subjects.accuracy),
        }
    )


def _parse_subjects(table: pa.Table) -> ReferenceSubjects:
    n, theta = table.num_rows, _numbers(table, "theta")
    size = theta.size // n
    return ReferenceSubjects(
        _texts(table, "subject"),
        theta.reshape(n, size),
        _numbers(table, "covariance").reshape(n, size, size),
        _numbers(table, "accuracy").reshape(n, -1),
    )


def _lists(values: NDArray[np.float64]) -> pa.Array:
    """Return one list of numbers for each row of an array."""
    flat = np.ascontiguousarray(values, np.float64).reshape(len(values), -1)
    ends = np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1]
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(flat.ravel()))


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Return all numbers of a column, whose lists must have equal lengths."""
    column = table[name].combine_chunks()
    if pa.types.is_list(column.type):
        lengths = set(column.value_lengths().to_pylist())
        if len(lengths) > 1:
            raise ValueError(f"the lists of `{name}` differ in length")
        column = column.flatten()
    if column.type != pa.float64() or column.null_count:
        raise ValueError(f"`{name}` does not hold numbers")
    return column.to_numpy(zero_copy_only=False)


def _texts(table: pa.Table, name: str) -> tuple[str, ...]:
    texts = table[name].to_pylist()
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"`{name}` does not hold text")
    return tuple(texts)


def _pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()

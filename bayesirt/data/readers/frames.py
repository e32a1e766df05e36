"""Tables in memory: whatever offers its columns as Arrow does, rows as objects, or pandas."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pandas as pd
import pyarrow as pa

from bayesirt.errors import ResponseError


class ArrowTable(Protocol):
    """A table of polars, pyarrow, DuckDB and others, by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Frame: TypeAlias = pd.DataFrame | ArrowTable | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""What is taken for a table: columns by name, or rows that are objects."""


def frame_of(table: Frame) -> pd.DataFrame:
    """Return a table as pandas has it, an index with names as its first columns.

    >>> frame_of([{"model": "a", "item": "q", "score": 1}]).columns.tolist()
    ['model', 'item', 'score']
    """
    frame = _pandas(table)
    if not isinstance(frame.index, pd.RangeIndex):
        unnamed = {name: "" for name in frame.index.names if name is None}
        frame = (frame.rename_axis([""]) if unnamed else frame).reset_index()
    if frame.columns.nlevels > 1 or not frame.columns.is_unique:
        raise ResponseError("a table's columns need a single name each, that no other has")
    frame.columns = frame.columns.map(str)
    if frame.empty:
        raise ResponseError("the table has no rows; add the results")
    return frame


def _pandas(table: Frame) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table).to_pandas()
    try:
        return pd.DataFrame(table)
    except (TypeError, ValueError):
        raise ResponseError(
            f"results are a path, a table (pandas, polars, pyarrow, DuckDB) or rows, not "
            f"{type(table).__name__}"
        ) from None

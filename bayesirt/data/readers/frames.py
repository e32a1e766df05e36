"""Tables in memory: pandas, anything with Arrow's stream interface, or rows as dictionaries."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pandas as pd
import pyarrow as pa

from bayesirt.errors import ResponseError


class ArrowTable(Protocol):
    """A table of polars, pyarrow, DuckDB or others, through the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Frame: TypeAlias = pd.DataFrame | ArrowTable | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Accepted tables: columns by name, or rows as dictionaries."""


def frame_of(table: Frame) -> pd.DataFrame:
    """Convert a table to pandas, with a named index as its first columns.

    >>> frame_of([{"model": "a", "item": "q", "score": 1}]).columns.tolist()
    ['model', 'item', 'score']
    """
    frame = _pandas(table)
    if not isinstance(frame.index, pd.RangeIndex):
        unnamed = {name: "" for name in frame.index.names if name is None}
        frame = (frame.rename_axis([""]) if unnamed else frame).reset_index()
    if frame.columns.nlevels > 1 or not frame.columns.is_unique:
        raise ResponseError("each column of a table needs a single, unique name")
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
            f"results must be a path, a table (pandas, polars, pyarrow, DuckDB) or rows, not "
            f"{type(table).__name__}"
        ) from None

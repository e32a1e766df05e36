"""Labels of items and subjects, such as a benchmark or a family."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bayesirt.data.readers.tables import read_table
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import one_line


def read_pairs(path: Path, kind: str, label: str) -> pd.DataFrame:
    """Read a table with at least two columns and no duplicated keys."""
    table, name = read_table(path), one_line(path.name)
    if not {kind, label} <= set(table.columns):
        raise ResponseError(f"{name} must have the columns {kind} and {label}")
    twice = table[kind][table[kind].duplicated()]
    if len(twice):
        shown = one_line(str(twice.iloc[0]))
        raise ResponseError(f"{name} has {kind} {shown!r} twice; keep one row")
    return table


def read_labels(path: Path, kind: str, label: str) -> dict[str, str]:
    """Read the label of each item or subject: a benchmark, or a family."""
    table = read_pairs(path, kind, label)
    empty = table[label].isna() | (table[label].astype(str).str.strip() == "")
    if empty.any():
        shown = one_line(str(table[kind][empty].iloc[0]))
        raise ResponseError(f"{one_line(path.name)} has no {label} for {kind} {shown!r}; name it")
    pairs = zip(table[kind], table[label], strict=True)
    return {str(name): str(value) for name, value in pairs}


def labels_for(
    names: Sequence[str], labels: Mapping[str, str], kind: str, label: str
) -> tuple[str, ...]:
    """Return the label of each item or subject of the responses."""
    missing = [name for name in names if name not in labels]
    if missing:
        more = f" and {len(missing) - 1:,} more {kind}s" if len(missing) > 1 else ""
        raise ResponseError(
            f"there is no {label} for {kind} {one_line(missing[0])!r}{more}; add a row for each "
            f"{kind} of the responses"
        )
    return tuple(labels[name] for name in names)


def fingerprint(responses: Responses) -> str:
    """Return a hash of all answers and their lengths."""
    digest = hashlib.sha256(repr((responses.subjects, responses.items)).encode())
    for values in responses.cells.listed():
        digest.update(np.ascontiguousarray(values, np.int64).tobytes())
    if responses.latency is not None:
        digest.update(np.ascontiguousarray(responses.latency, np.float64).tobytes())
    return digest.hexdigest()

"""Tables in JSON: one object per line, a list of objects, or an object of columns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from bayesirt.errors import ResponseError

_LINES_BETWEEN = 1 << 15
"""Lines between two reports of progress."""
_MOST_EMPTY = 1 << 24
"""Most cells of a table of which more than 99 in 100 are empty."""
_DEEPEST = 4
"""Levels of nested objects that become columns."""
_UNDER = ("data", "results", "rows", "records")
"""Keys under which an object may hold the list of objects."""


def json_lines(text: str, name: str, progress: Callable[[int, int], None] | None) -> pd.DataFrame:
    """Return a table from text with one object per line."""
    lines, rows = text.split("\n"), []
    for number, line in enumerate(lines, 1):
        if progress is not None and number % _LINES_BETWEEN == 0:
            progress(number, len(lines))
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise ResponseError(
                f"{name}, line {number}: not valid JSON; write one object per line"
            ) from None
        if not isinstance(row, dict):
            raise ResponseError(
                f"{name}, line {number}: not a JSON object; write one object with named values per "
                f"line"
            )
        rows.append(_flat(row))
    return _table(rows, name)


def json_records(text: str, name: str) -> pd.DataFrame:
    """Return a table from a list of objects, or from an object of columns as pandas writes it."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ResponseError(f"{name} is not valid JSON; export it again") from None
    rows = _rows(content)
    if rows is None:
        raise ResponseError(
            f"{name} holds neither a list of objects, one per response, nor columns; write "
            f'[{{"subject": ..., "item": ..., "score": ...}}, ...]'
        )
    return _table([_flat(row) for row in rows], name)


def is_table(path: Path) -> bool:
    """Return whether a JSON file holds a list or a table, and can be read."""
    try:
        data = path.read_bytes()
        return data.lstrip().startswith(b"[") or _rows(json.loads(data)) is not None
    except (OSError, ValueError, RecursionError):
        return False


def _rows(content: Any) -> list[dict[str, Any]] | None:
    if isinstance(content, list):
        return content if content and all(isinstance(row, dict) for row in content) else None
    if not isinstance(content, dict):
        return None
    for name in _UNDER:
        if isinstance(content.get(name), list):
            return _rows(content[name])
    columns = list(content.values())
    if not columns:
        return None
    if all(isinstance(x, list) for x in columns) and len({len(x) for x in columns}) == 1:
        return [dict(zip(content, row, strict=True)) for row in zip(*columns, strict=True)]
    if all(isinstance(x, dict) and x and x.keys() == columns[0].keys() for x in columns):
        return [{name: x[row] for name, x in content.items()} for row in columns[0]]
    return None


def _flat(row: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """Return the values of a nested object by dotted names."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value and depth < _DEEPEST:
            flat |= _flat(value, f"{before}{name}.", depth + 1)
        else:
            flat[before + name] = value
    return flat


def _table(rows: list[dict[str, Any]], name: str) -> pd.DataFrame:
    _check_filled(rows, name)
    try:
        return pd.DataFrame(rows, dtype=object)
    except UnicodeEncodeError:
        raise ResponseError(
            f"{name} has a column whose name is not valid text; rename it"
        ) from None


def _check_filled(rows: list[dict[str, Any]], name: str) -> None:
    """Refuse rows that share hardly any names, as their table would be nearly empty."""
    columns = {column for row in rows for column in row}
    filled = sum(map(len, rows))
    if len(rows) * len(columns) > max(_MOST_EMPTY, 100 * filled):
        raise ResponseError(
            f"{name} has {len(columns):,} names in {len(rows):,} rows, and each row has hardly any "
            f"of them; write one response per row, with the same names in each"
        )

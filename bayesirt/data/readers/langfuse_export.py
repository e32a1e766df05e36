"""Scheduled exports of Langfuse to a bucket: a folder of observations and a folder of scores.

``<project>/observations_v2/<time>.<format>`` and ``<project>/scores/<time>.<format>`` each hold one
time window, as Parquet, CSV, JSON or JSON Lines, optionally with ``.gz`` (langfuse.com/docs,
"Export to blob storage" and "Blob storage export field reference"). Windows share their bounds, so
a row may be in two files. Until 2026 there was ``observations`` instead, or both.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from bayesirt.data.readers.harness import NoAnswersError
from bayesirt.data.readers.json_files import parse_json
from bayesirt.data.readers.json_values import are_objects
from bayesirt.data.readers.tables import NoRowsError, read_table, read_text
from bayesirt.errors import ResponseError

_OBSERVATIONS, _SCORES = ("observations_v2", "observations"), "scores"
_ASIDE = (*_OBSERVATIONS, _SCORES, "traces", "manifests")
_ENDINGS = (".parquet", ".csv", ".csv.gz", ".json", ".json.gz", ".jsonl", ".jsonl.gz")
_MODEL, _INPUT = "provided_model_name", "input"
_WANTED = frozenset({
    "id", "trace_id", "name", "level", _INPUT, _MODEL, "usage_details",
    "observation_id", "value", "data_type",
})  # fmt: skip

Row = Mapping[str, Any]
Scores = defaultdict[str, dict[str, list[float]]]


def leads_export(path: Path) -> bool:
    """Return whether a file is the first of a project's observations, which stands for them all."""
    folder = path.absolute().parent
    if folder.name not in _OBSERVATIONS or not folder.with_name(_SCORES).is_dir():
        return False
    newest = next(x for x in _OBSERVATIONS if folder.with_name(x).is_dir())
    return folder.name == newest and path.name == _first(folder, folder.stat().st_mtime_ns)


def of_export(path: Path) -> str | None:
    """Return "" for a file that is read with the first of its project, None for any other."""
    project = path.absolute().parent.parent
    in_export = path.parent.name in _ASIDE and (project / _SCORES).is_dir()
    return "" if in_export and any((project / x).is_dir() for x in _OBSERVATIONS) else None


def exported_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a project's observations as Langfuse's table exports them, with scores as columns.

    A trace's score is assigned to its only generation; if it has several, the score is ignored.
    """
    folder = path.absolute().parent
    rows = [row for row in _rows(folder) if _text(row, _MODEL)]
    generations = Counter(_text(row, "trace_id") for row in rows)
    of_observation, of_trace = _scores(folder.with_name(_SCORES))
    for row in rows:
        trace = _text(row, "trace_id")
        scores = of_trace[trace] if generations[trace] == 1 else {}
        yield {
            **scores,
            **of_observation[_text(row, "id")],
            "model": row[_MODEL],
            "name": _text(row, "name") or folder.parent.name,
            "input": _asked(_text(row, _INPUT)),
            "level": row.get("level"),
            "usageDetails": _usage(row),
        }


def _rows(folder: Path) -> Iterable[Row]:
    """Return the rows of a folder's files, each in its latest version."""
    rows: dict[str, Row] = {}
    for file in _files(folder):
        for row in _rows_of(file):
            rows[_text(row, "id")] = {name: row[name] for name in _WANTED & row.keys()}
    columns = {name for row in rows.values() for name in row}
    if rows and folder.name in _OBSERVATIONS and not {_INPUT, _MODEL} <= columns:
        raise NoAnswersError(
            "its observations have no input or no model; also export the field groups `io` and "
            "`model`"
        )
    return rows.values()


def _rows_of(file: Path) -> list[dict[str, Any]]:
    """Return a file's rows; a window without events has none."""
    try:
        if ".jsonl" in file.suffixes:
            lines = read_text(file).split("\n")  # JSON may contain other line separators.
            rows = [parse_json(line.encode(), file.name) for line in lines if line.strip()]
        elif ".json" in file.suffixes:
            rows = parse_json(read_text(file).encode(), file.name)
        else:
            rows = read_table(file).to_dict("records")
    except NoRowsError:
        return []
    if not are_objects(rows):
        raise ResponseError(f"{file.name} holds no list of objects; export it again")
    return rows


def _files(folder: Path) -> list[Path]:
    return sorted(x for x in folder.iterdir() if x.name.endswith(_ENDINGS) and x.is_file())


@lru_cache(maxsize=64)
def _first(folder: Path, _changed: int) -> str:
    """Return the name of a folder's first file, cached because every file needs it."""
    return next((x.name for x in _files(folder)), "")


def _scores(folder: Path) -> tuple[Scores, Scores]:
    """Return the numeric scores of observations and of traces, by name."""
    of_observation: Scores = defaultdict(dict)
    of_trace: Scores = defaultdict(dict)
    for row in _rows(folder):
        name, observation = _text(row, "name"), _text(row, "observation_id")
        if not name or row.get("data_type") not in ("NUMERIC", "BOOLEAN"):
            continue
        try:
            value = float(row["value"])
        except (KeyError, TypeError, ValueError):
            raise ResponseError(
                f"the score {_text(row, 'id')} has a value that is not a number; export it again"
            ) from None
        scores = of_observation[observation] if observation else of_trace[_text(row, "trace_id")]
        scores.setdefault(name, []).append(value)
    return of_observation, of_trace


def _text(row: Row, key: str) -> str:
    """Return text, or an empty string if there is none, as CSV has no null and tables have NaN."""
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _asked(text: str) -> Any:
    """Return the input; messages are JSON within text."""
    if not text.startswith(("[", "{")):
        return text or None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _usage(row: Row) -> dict[str, Any]:
    """Return the numbers of tokens, which are an object, pairs (Parquet) or text (CSV)."""
    usage: Any = row.get("usage_details")
    usage = _asked(usage) if isinstance(usage, str) else usage
    try:
        return dict(usage)
    except (TypeError, ValueError):
        return {}

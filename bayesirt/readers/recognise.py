"""From any results file to `Responses`: long or wide, and which column is which."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from bayesirt.columns import check_columns, encode_names, first_varying, list_columns, name_rows
from bayesirt.errors import ResponseError
from bayesirt.free_memory import host_bytes_free
from bayesirt.names import one_line
from bayesirt.readers.long_parquet import LongParquet, is_plain
from bayesirt.readers.tables import parquet_schema, read_table
from bayesirt.responses import Responses

SUBJECT_NAMES = ("subject", "model", "system", "llm", "model_name", "model_id", "classifier")
ITEM_NAMES = ("item", "question", "task_id", "doc_id", "item_id", "question_id", "instance_id")
SCORE_NAMES = (
    "score", "correct", "response", "acc", "accuracy", "is_correct", "successes", "n_correct",
    "fraction", "pass_rate",
)  # fmt: skip
TRIALS_NAMES = ("trials", "n_trials", "attempts")
LATENCY_NAMES = ("tokens", "latency", "cot_tokens", "output_tokens", "time", "response_time")
METADATA_NAMES = ("benchmark", "dataset", "suite", "task", "topic", "category", "level")

_BYTES_A_ROW = 60
"""Of memory, to read a response and to fit a point estimate."""


def read_responses(
    path: str | Path,
    *,
    subject: str | None = None,
    item: str | None = None,
    score: str | None = None,
    trials: str | None = None,
    latency: str | None = None,
    items_in: str | None = None,
    duplicates: str = "error",
    threshold: float | None = None,
    out_of_core: bool | None = None,
) -> Responses:
    """Read a results file, long (one row a response) or wide (a matrix).

    Parameters
    ----------
    path : str or Path
        CSV, TSV, JSON Lines or Parquet, perhaps with ``.gz``.
    subject, item, score, trials, latency : str, optional
        Columns of a long file; by default found by their common names (`SUBJECT_NAMES` and so on).
    items_in : {"rows", "columns"}, optional
        Orientation of a wide file whose first header does not tell it.
    duplicates : {"error", "trials", "first", "last"}
        What rows with the same subject and item are.
    threshold : float, optional
        Scores at or above it count as right.
    out_of_core : bool, optional
        Leave the responses of a long Parquet file on disk, sorted into a temporary folder that is
        removed with the result; `tempfile` says where, such as in ``TMPDIR``. Then `fit_cbmm` and
        summaries work, and lengths or times and what describes items are left out. By default
        only if memory would not hold them.

    Returns
    -------
    Responses

    Raises
    ------
    ResponseError
        One sentence, for whatever keeps the file from being read.
    """
    path = Path(path)
    if items_in not in (None, "rows", "columns"):
        raise ResponseError(f"--items-in must be rows or columns, got {items_in!r}")
    named = {"subject": subject, "item": item, "score": score, "trials": trials, "latency": latency}
    if items_in and any(named.values()):
        raise ResponseError(
            "--items-in belongs to wide files, names of columns to long ones; leave out either"
        )
    if items_in is None:
        streamed = _streamed(path, named, duplicates, threshold, out_of_core)
        if streamed is not None:
            return streamed
    if out_of_core:
        raise ResponseError(
            f"{one_line(path.name)} cannot be left on disk; make it a long Parquet file whose "
            f"names are text or whole numbers, or leave out out_of_core"
        )
    frame = read_table(path)
    roles = _find_columns(frame.columns, named)
    if items_in is None and (any(named.values()) or {"subject", "item"} <= roles.keys()):
        return _from_long(frame, roles, path.name, duplicates, threshold)
    return Responses.from_wide(_subjects_in_rows(frame, items_in, path.name), threshold=threshold)


def _streamed(
    path: Path,
    named: dict[str, str | None],
    duplicates: str,
    threshold: float | None,
    out_of_core: bool | None,
) -> Responses | None:
    """Read a long Parquet file some rows at a time, or return None if that cannot be done."""
    schema, n_rows = parquet_schema(path) or (pa.schema([]), 0)
    roles = _find_columns(schema.names, named)
    found = {"subject", "item", "score"} <= roles.keys() and set(roles.values()) <= {*schema.names}
    if not found or not all(is_plain(schema.field(roles[k]).type) for k in ("subject", "item")):
        return None
    if out_of_core is None:
        out_of_core = n_rows * _BYTES_A_ROW > host_bytes_free()
    if out_of_core and named["latency"]:
        raise ResponseError(
            "lengths or times cannot be left on disk; leave out --latency, or read fewer rows"
        )
    timed = roles.pop("latency", None) is not None
    file = LongParquet(path, roles, threshold, n_rows)
    if out_of_core:
        return file.on_disk(duplicates)
    return None if timed or _describing(schema.names, roles) else file.in_memory(duplicates)


def _find_columns(columns: Iterable[str], named: dict[str, str | None]) -> dict[str, str]:
    known = {
        "subject": SUBJECT_NAMES,
        "item": ITEM_NAMES,
        "score": SCORE_NAMES,
        "trials": TRIALS_NAMES,
        "latency": LATENCY_NAMES,
    }
    free = [c for c in columns if c not in named.values()]
    by_lower = {c.strip().lower(): c for c in reversed(free)}
    roles = {}
    for role, common in known.items():
        chosen = named[role] or next((by_lower[n] for n in common if n in by_lower), None)
        if chosen is not None:
            roles[role] = chosen
    return roles


def _from_long(
    frame: pd.DataFrame,
    roles: dict[str, str],
    name: str,
    duplicates: str,
    threshold: float | None,
) -> Responses:
    for role in ("subject", "item", "score"):
        if role not in roles:
            raise ResponseError(
                f"{one_line(name)} has no column for the {role}; name it with --{role}, or pass "
                f"--items-in if it is wide (the columns are {list_columns(frame)})"
            )
    check_columns(frame, roles.values())
    return Responses.from_long(
        frame,
        **roles,
        item_metadata=_steady_columns(frame, roles),
        duplicates=duplicates,
        threshold=threshold,
    )


def _steady_columns(frame: pd.DataFrame, roles: dict[str, str]) -> list[str]:
    described = _describing(frame.columns, roles)
    if not described:
        return []
    item, _ = encode_names(frame[roles["item"]], "item")
    return [c for c in described if first_varying(frame[c], item) is None]


def _describing(columns: Iterable[str], roles: dict[str, str]) -> list[str]:
    taken = set(roles.values())
    return [c for c in columns if c.strip().lower() in METADATA_NAMES and c not in taken]


def _subjects_in_rows(frame: pd.DataFrame, items_in: str | None, name: str) -> pd.DataFrame:
    corner = frame.columns[0].strip().lower()
    if items_in is None and corner in SUBJECT_NAMES:
        items_in = "columns"
    elif items_in is None and corner in ITEM_NAMES:
        items_in = "rows"
    if items_in is None:
        raise ResponseError(
            f"{one_line(name)} starts with the column {one_line(frame.columns[0])!r}, so it cannot "
            f"be known whether its rows are subjects or items; pass --items-in columns or "
            f"--items-in rows, or name the columns of a long file with --subject, --item and "
            f"--score"
        )
    kind = "item" if items_in == "rows" else "subject"
    labels = name_rows(frame.iloc[:, 0], kind)
    matrix = frame.iloc[:, 1:].set_axis(pd.Index(labels, dtype=object), axis=0)
    return matrix.T if items_in == "rows" else matrix

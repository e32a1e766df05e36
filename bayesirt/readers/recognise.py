"""From any results file to `Responses`: long or wide, and which column is which."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from bayesirt.columns import check_columns, encode_names, first_varying, list_columns, name_rows
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.readers.tables import read_table
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
    frame = read_table(path)
    named = {"subject": subject, "item": item, "score": score, "trials": trials, "latency": latency}
    if items_in and any(named.values()):
        raise ResponseError(
            "--items-in belongs to wide files, names of columns to long ones; leave out either"
        )
    roles = _find_columns(frame.columns, named)
    if items_in is None and (any(named.values()) or {"subject", "item"} <= roles.keys()):
        return _from_long(frame, roles, path.name, duplicates, threshold)
    return Responses.from_wide(_subjects_in_rows(frame, items_in, path.name), threshold=threshold)


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
    taken = set(roles.values())
    described = [c for c in frame.columns if c.strip().lower() in METADATA_NAMES and c not in taken]
    if not described:
        return []
    item, _ = encode_names(frame[roles["item"]], "item")
    return [c for c in described if first_varying(frame[c], item) is None]


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

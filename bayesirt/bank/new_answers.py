"""Answers of new subjects to calibrated items, from a table, from logs or by name.

A table may hold one subject with a single answer, which is too little for `Responses`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.cell_rows import as_table, fold_duplicates
from bayesirt.data.cells import CellList
from bayesirt.data.readers.column_roles import (
    ITEM_NAMES,
    SUBJECT_NAMES,
    find_columns,
    plain_name,
)
from bayesirt.data.readers.found_logs import FoundLogs, LeftOut
from bayesirt.data.readers.log_folder import read_log_runs
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.recognise import are_logs
from bayesirt.data.readers.tables import read_table
from bayesirt.data.scales import Scale
from bayesirt.data.score_values import count_successes, read_on_scale, where_of
from bayesirt.data.table_columns import encode_names, list_columns, name_rows, parse_latency
from bayesirt.errors import ResponseError
from bayesirt.inference.ability_belief import Answers
from bayesirt.names import first_few, one_line

NAMELESS = "the subject"
"""Name of the subject of a file that names none."""


def answers_of(
    scores: Mapping[str, int],
    items: Sequence[str],
    lengths: Mapping[str, float] | None = None,
) -> Answers:
    """Make `Answers` from scores by item name.

    Parameters
    ----------
    scores : mapping of str to {0, 1}
    items : sequence of str
        Names of the calibrated items.
    lengths : mapping of str to float, optional
        Lengths or times above 0; items may be missing.

    Returns
    -------
    Answers
        In the order of the items.

    Raises
    ------
    ResponseError
        If an item was not calibrated, or a score or length is invalid.

    Examples
    --------
    >>> answers_of({"q3": 1, "q1": 0}, ["q1", "q2", "q3"]).item.tolist()
    [0, 2]
    """
    names = list(scores)
    frame = pd.DataFrame({"item": pd.Series(names, dtype=object)})
    frame["score"] = pd.Series([scores[name] for name in names], dtype=object)
    if lengths is not None:
        frame["latency"] = [lengths.get(name, np.nan) for name in names]
    if not names:
        return Answers.none()
    return _collect(frame, {c: c for c in frame}, items, "error", None)[NAMELESS]


def read_answers(
    path: str | Path,
    items: Sequence[str],
    *,
    scale: Scale | None = None,
    **options: Any,
) -> dict[str, Answers]:
    """Read the answers of new subjects.

    Parameters
    ----------
    path : str or Path
        A long table, with columns detected by their common names, or a wide one, in any format of
        `bayesirt.data.readers.read_responses`. A long table without subjects holds the answers of
        one. Or a log of a harness, or a folder of logs, from which items that were not calibrated
        are left out.
    items : sequence of str
        Names of the calibrated items.
    scale : Scale, optional
        Kind of calibrated answers, if not right and wrong: `Posterior.answers`.
    **options
        ``duplicates``, ``threshold`` and, for logs, ``metric``, ``filter`` and ``skip_damaged``, as
        in `bayesirt.data.readers.read_responses`.

    Returns
    -------
    dict of str to Answers
        Answers by subject, in the order of the file; a subject with only empty cells has none.

    Raises
    ------
    ResponseError
        If the file cannot be read, a table names items that were not calibrated, or logs name only
        such items.
    """
    return read_found_answers(Path(path), items, Reading(**options), scale)[0]


def read_found_answers(
    path: Path, items: Sequence[str], reading: Reading, scale: Scale | None = None
) -> tuple[dict[str, Answers], FoundLogs | None]:
    """Read answers as `read_answers` does, and return a report on logs, or None for a table."""
    if scale is not None:
        reading = _on_scale(path, reading)
    elif are_logs(path, reading):
        return _read_logs(path, items, reading)
    frame = read_table(path)
    roles = find_columns(frame.columns, {})
    rule = reading.duplicates, scale or reading.threshold
    if not {"item", "score"} <= roles.keys():
        return _read_wide(frame, path.name, items, *rule), None
    return _collect(frame, roles, items, *rule), None


def _on_scale(path: Path, reading: Reading) -> Reading:
    """Refuse thresholds and logs, which give right and wrong answers but not grades or scores."""
    if reading.threshold is not None or are_logs(path, reading):
        source = "logs hold" if reading.threshold is None else "--threshold makes"
        raise ResponseError(
            f"calibrated answers are grades or scores, and {source} right and wrong ones; name a "
            f"table with scores on the same scale"
        )
    adds_up = reading.duplicates == "trials"
    return replace(reading, duplicates="error") if adds_up else reading


def _read_logs(
    path: Path, items: Sequence[str], reading: Reading
) -> tuple[dict[str, Answers], FoundLogs]:
    runs, log_summary = read_log_runs(path, reading)
    is_known = runs["item"].isin(items)
    if not is_known.any():
        raise ResponseError(
            f"{one_line(str(path), 200)} holds no answer to a calibrated item, only to others, "
            f"such as {one_line(runs['item'].iloc[0])!r}; name other logs"
        )
    others = runs.loc[~is_known, "benchmark"].value_counts()
    left_out = tuple(
        LeftOut(str(name), "answer", int(n), "to items that were not calibrated")
        for name, n in others.items()
    )
    log_summary = replace(log_summary, left_out=(*log_summary.left_out, *left_out))
    roles = {"subject": "subject", "item": "item", "score": "successes", "trials": "trials"}
    answers = runs[is_known].reset_index(drop=True)
    if answers["latency"].notna().any():
        roles["latency"] = "latency"
    return _collect(answers, roles, items, reading.duplicates, None), log_summary


def _read_wide(
    frame: pd.DataFrame,
    name: str,
    items: Sequence[str],
    duplicates: str,
    scale: float | Scale | None,
) -> dict[str, Answers]:
    corner = plain_name(frame.columns[0])
    if corner not in (*SUBJECT_NAMES, *ITEM_NAMES):
        raise ResponseError(
            f"{one_line(name)} has no columns for item and score, and is not wide with `subject` "
            f"or `item` above its first column (the columns are {list_columns(frame)}); rename them"
        )
    kinds = ("item", "subject") if corner in ITEM_NAMES else ("subject", "item")
    rows, columns = name_rows(frame.iloc[:, 0], kinds[0]), list(frame.columns[1:])
    values = frame.iloc[:, 1:].to_numpy(object).ravel()
    cells = pd.DataFrame(
        {
            kinds[0]: np.repeat(np.asarray(rows, object), len(columns)),
            kinds[1]: np.tile(np.array(columns, object), len(rows)),
            "score": values,
        }
    )
    empty = pd.isna(values) | np.isin(values.astype(str), ("", "NA"))
    answers = _collect(
        cells[~empty].reset_index(drop=True), {c: c for c in cells}, items, duplicates, scale
    )
    return {subject: answers.get(subject, Answers.none()) for subject in cells["subject"].unique()}


def _collect(
    frame: pd.DataFrame,
    roles: Mapping[str, str],
    items: Sequence[str],
    duplicates: str,
    scale: float | Scale | None,
) -> dict[str, Answers]:
    """Check the rows of a long table, and collect the answers of each subject.

    `scale` is that of the scores, or the threshold at or above which they are right.
    """
    subject, subjects = np.zeros(len(frame), np.int32), [NAMELESS]
    if "subject" in roles:
        subject, subjects = encode_names(frame[roles["subject"]], "subject")
    item = _positions(*encode_names(frame[roles["item"]], "item"), items)
    where = where_of(subjects, items, subject, item)
    trials = frame[roles["trials"]] if "trials" in roles else None
    scores, name = frame[roles["score"]], roles["score"]
    if isinstance(scale, Scale):
        y, n = read_on_scale(scores, name, where, scale)
    else:
        y, n = count_successes(scores, trials, name, scale, where)
    x = np.full(len(frame), np.nan)
    if "latency" in roles:
        x = parse_latency(frame[roles["latency"]], roles["latency"], where)
    rows = as_table(CellList(subject, item, y, n)).assign(x=x)
    table = fold_duplicates(rows[rows["n"] > 0], duplicates, where)
    answers = {}
    for k, name in enumerate(subjects):
        cells = table[table["subject"] == k]
        places, successes, trials, lengths = (cells[c].to_numpy() for c in ("item", "y", "n", "x"))
        answers[name] = Answers(places, successes, trials, np.log(lengths))
    return answers


def _positions(
    codes: NDArray[np.int32], names: Sequence[str], items: Sequence[str]
) -> NDArray[np.int32]:
    """Return the positions of the rows' items among the calibrated ones."""
    position = {name: k for k, name in enumerate(items)}
    unknown = [name for name in names if name not in position]
    if unknown:
        shown = first_few([repr(one_line(name, 30)) for name in unknown], 5)
        raise ResponseError(
            f"items that were not calibrated: {shown}; leave their answers out, or calibrate "
            f"these items first"
        )
    return np.array([position[name] for name in names], np.int32)[codes]

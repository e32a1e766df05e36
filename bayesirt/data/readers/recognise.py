"""Recognise results as logs or as a long or wide table, and read them into `Responses`."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesirt.data.facets import QUESTION, telling_apart, with_facets, with_factors
from bayesirt.data.readers.column_roles import (
    ITEM_NAMES,
    SUBJECT_NAMES,
    describing,
    find_columns,
    plain_name,
)
from bayesirt.data.readers.found_logs import FoundLogs
from bayesirt.data.readers.frames import Frame, frame_of
from bayesirt.data.readers.json_tables import is_table
from bayesirt.data.readers.log_folder import belongs_to_log, find_harness, read_logs, refuse_no_log
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.streamed import read_streamed
from bayesirt.data.readers.subject_facts import (
    refuse_column,
    with_clusters_of_file,
    with_costs_of_file,
    with_item_table,
    with_subject_table,
    with_topics_of_file,
)
from bayesirt.data.readers.tables import (
    Progress,
    parquet_parts,
    read_table,
)
from bayesirt.data.responses import Responses
from bayesirt.data.score_values import told_not_run, without_score
from bayesirt.data.table_columns import (
    check_columns,
    encode_names,
    first_varying,
    list_columns,
    name_rows,
)
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_UNNAMED = ("", "unnamed:_0", "index")
"""Plain names that pandas gives to an index."""


class LeftOutWarning(UserWarning):
    """Part of a file was not read, or was interpreted in a way that may be wrong."""


def read_responses(
    results: str | Path | Frame,
    **options: Any,
) -> Responses:
    """Read results: a table, long or wide, a log of an evaluation harness, or a folder of logs.

    Parameters
    ----------
    results : str, Path or DataFrame
        A table of pandas, polars, pyarrow or DuckDB, or rows as dictionaries; or the path of a CSV,
        TSV, JSON, JSON Lines, Excel or Parquet file, optionally with ``.gz``; of a folder of
        Parquet files; of a log of lm-evaluation-harness, inspect_ai, HELM, Every Eval Ever,
        OpenCompass, EvalPlus, SWE-bench, promptfoo, DeepEval, Langfuse or lighteval; or of a folder
        with any of these logs.

    Other Parameters
    ----------------
    subject, item, score, trials, latency : str, optional
        Columns of a long file; by default detected by common names (`SUBJECT_NAMES` and so on).
    items_in : {"rows", "columns"}, optional
        Orientation of a wide file, if its first header does not show it.
    duplicates : {"error", "trials", "first", "last"}
        How to treat rows with the same subject and item, or several runs in logs.
    threshold : float, optional
        Scores at or above it count as right.
    kind : {"binary", "graded", "continuous", "unbounded"}, optional
        Kind of scores: 0 and 1, a few ordered grades, numbers from 0 to `full`, or any numbers. By
        default detected.
    order : sequence of str, optional
        Grades that are words, the lowest first.
    full : float, optional
        The full score, such as 100; by default 1.
    metric, filter : str or sequence of str, optional
        Metric or filter to read from logs that offer several: a name for all benchmarks that offer
        it, or ``benchmark=name``.
    skip_damaged : bool
        Leave out logs that cannot be read, instead of refusing the folder.
    out_of_core : bool, optional
        Leave the responses of a long Parquet file on disk, sorted into a temporary folder (such as
        in ``TMPDIR``, see `tempfile`) that is removed with the result. Only `fit_cbmm` and
        summaries can use them; metadata of items are kept, but lengths, times and costs are left
        out. By default only if the responses do not fit in memory.
    cluster : str, optional
        Column of a long file that groups subjects, such as the LLM that they are runs of; or, for
        any results, a file with the columns ``subject`` and ``cluster``.
    cost : str, optional
        Column of a long file with the cost of each answer (by default detected by `COST_NAMES`);
        or, for any results, a file with the columns ``subject`` and ``cost``. The mean of each
        subject is kept.
    by : str, optional
        Column of a long file with each item's topic, which is kept in `item_metadata`; or, for any
        results, a file with the columns ``item`` and ``topic``.
    facet : str or sequence of str
        Columns of a long file, or fields of logs, that vary between answers to one question, such
        as the judge who graded them: an item is then a question as graded by one judge.
    factors : str or sequence of str
        Columns of a long file with the parts of a subject, such as its LLM and its scaffold; or
        fields of logs, such as model and solver. Without a column of subjects' names, the names
        are composed of these.
    item_table, subject_table : str, optional
        A file with the column ``item``, or ``subject``, and columns that describe it.
    describing, of_subjects : str or sequence of str
        Further columns of a long file that describe items, or subjects, besides those that are
        detected by name.

    Returns
    -------
    Responses

    Raises
    ------
    ResponseError
        If the results cannot be read; the reason is one sentence.

    Warns
    -----
    LeftOutWarning
        If responses are left on disk without some columns of the file, if rows have no score, or if
        the rows of a wide table whose first column has no name are assumed to be subjects.
    """
    left_out: list[str] = []
    responses, _ = read_results(results, Reading(**options), announce=left_out.append)
    for sentence in left_out:
        warnings.warn(sentence, LeftOutWarning, stacklevel=2)
    return responses


def read_results(
    results: str | Path | Frame,
    reading: Reading,
    *,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> tuple[Responses, FoundLogs | None]:
    """Read results, and return them with a report on the logs, if they are logs."""
    path = Path(results) if isinstance(results, str | Path) else None
    if reading.items_in not in (None, "rows", "columns"):
        raise ResponseError(f"--items-in must be rows or columns, got {reading.items_in!r}")
    if reading.items_in and any(reading.named.values()):
        raise ResponseError(
            "--items-in belongs to wide files, names of columns to long ones; leave out either"
        )
    report = None
    if path is None:
        responses = _of_frame(frame_of(results), "the table", reading, announce)
    elif not are_logs(path, reading):
        responses = _read_table(path, reading, progress, announce)
    else:
        responses, report = read_logs(path, reading, progress)
    return _completed(responses, reading), report


def _completed(responses: Responses, reading: Reading) -> Responses:
    """Add what the given files say of items and subjects; refuse columns that do not exist."""
    if reading.cluster_file:
        responses = with_clusters_of_file(responses, reading.cluster_file)
    elif reading.cluster and responses.clusters is None:
        raise refuse_column("cluster", reading.cluster)
    if reading.item_table:
        responses = with_item_table(
            responses, Path(reading.item_table), of_questions=bool(reading.facet)
        )
    if reading.subject_table:
        responses = with_subject_table(responses, Path(reading.subject_table))
    if reading.topic_file:
        responses = with_topics_of_file(responses, reading.topic_file)
    if reading.cost_file:
        responses = with_costs_of_file(responses, reading.cost_file)
    elif reading.cost and responses.costs is None:
        raise refuse_column("cost", reading.cost)
    return responses


def are_logs(path: Path, reading: Reading) -> bool:
    """Return whether a path holds logs; a file is a table if an option for tables is given."""
    shown = one_line(str(path), 200)
    if os.path.isdir(path):
        parts = parquet_parts(path)
        if parts and find_harness(parts[0]) is None:
            return False
        if reading.of_table:
            raise ResponseError(
                f"{reading.of_table} belongs to tables, and {shown} is a folder of logs; leave it "
                f"out, or name a table"
            )
        return True
    if not os.path.isfile(path):
        return False
    try:
        logs = not reading.of_table and find_harness(path) is not None
    except ResponseError as error:
        raise ResponseError(f"{shown}: {error}") from None
    json = path.suffix.lower() == ".json"
    if not logs and (not is_table(path) if json else not reading.of_table and belongs_to_log(path)):
        refuse_no_log(path)
    if not logs and reading.of_logs:
        raise ResponseError(
            f"{reading.of_logs} belongs to logs of harnesses, and {shown} is read as a table; "
            f"leave it out"
        )
    return logs


def _read_table(
    path: Path,
    reading: Reading,
    progress: Progress | None,
    announce: Callable[[str], None] | None,
) -> Responses:
    if reading.items_in is None:
        streamed = read_streamed(path, reading, progress, announce)
        if streamed is not None:
            return streamed
    if reading.out_of_core:
        raise ResponseError(
            f"{one_line(path.name)} cannot be left on disk; make it a long Parquet file whose "
            f"names are text or whole numbers, or leave out `out_of_core`"
        )
    return _of_frame(read_table(path, progress=progress), path.name, reading, announce)


def _of_frame(
    frame: pd.DataFrame,
    name: str,
    reading: Reading,
    announce: Callable[[str], None] | None,
) -> Responses:
    """Make responses from a long or wide table."""
    items_in = reading.items_in
    hints = any(reading.named.values()) or reading.topic_column in frame.columns or reading.factors
    _refuse_battles(frame, name)
    roles = find_columns(frame.columns, reading.columns)
    _refuse_topic_with_a_role(frame, reading)
    if items_in is None and (hints or {"subject", "item"} <= roles.keys()):
        if reading.cluster_column:
            roles["cluster"] = reading.cluster_column
        return _from_long(frame, roles, name, reading, announce)
    _refuse_facets(reading, name)
    wide = _subjects_in_rows(frame, items_in, name, announce)
    return Responses.from_wide(wide, threshold=reading.threshold, scale=reading.scale)


def _refuse_topic_with_a_role(frame: pd.DataFrame, reading: Reading) -> None:
    roles = find_columns(frame.columns, {**reading.columns, "by": None})
    for role in ("subject", "item", "score"):
        if reading.by is not None and roles.get(role) == reading.topic_column:
            raise ResponseError(
                f"--by {one_line(reading.by)!r} is the column of the {role}; name one that "
                f"describes items, such as their benchmark"
            )


def _refuse_facets(reading: Reading, name: str) -> None:
    """Refuse options that name columns of a long table for any other input."""
    of_long = {"--facet": reading.facet, "--subject-factors": reading.factors}
    for option, (column, *_) in ((name, x) for name, x in of_long.items() if x):
        raise ResponseError(
            f"{option} {one_line(column)} names a column of a long table or of logs, and "
            f"{one_line(name)} is neither; leave it out, or write one row for each answer"
        )


def _refuse_battles(frame: pd.DataFrame, name: str) -> None:
    """Refuse pairwise comparisons, which are not answers to questions."""
    names = {plain_name(str(column)) for column in frame.columns}
    if {"model_a", "model_b"} <= names and "winner" in names:
        raise ResponseError(
            f"{one_line(name)} holds pairwise battles (model_a, model_b, winner), but a ranking "
            f"needs answers to questions; use a Bradley-Terry model for battles, such as "
            f"arena-rank's"
        )


def as_long(path: Path, reading: Reading) -> pd.DataFrame:
    """Return a table with one row per response and columns by role, even for a single subject."""
    frame = read_table(path)
    roles = find_columns(frame.columns, reading.columns)
    long = {"subject", "item"} <= roles.keys() or any(reading.named.values())
    if reading.items_in is None and long:
        _check_roles(frame, roles, path.name)
        described = _steady_columns(frame, roles)
        return frame[[*roles.values(), *described]].set_axis([*roles, *described], axis=1)
    wide = _subjects_in_rows(frame, reading.items_in, path.name)
    cells = wide.rename_axis("subject").reset_index().melt("subject", None, "item", "score")
    empty = cells["score"].isna() | cells["score"].isin(["", "NA"])
    return cells[~empty].reset_index(drop=True)


def _from_long(
    frame: pd.DataFrame,
    roles: dict[str, str],
    name: str,
    reading: Reading,
    announce: Callable[[str], None] | None,
) -> Responses:
    if reading.factors:
        frame, roles = with_factors(frame, roles, reading.factors)
    _check_roles(frame, roles, name)
    described = _steady_columns(frame, roles)
    if reading.facet:
        frame, roles = with_facets(frame, roles, reading.facet)
        described = list(dict.fromkeys((*described, QUESTION, *reading.facet)))
    check_columns(frame, reading.wanted)
    described = list(dict.fromkeys((*described, *reading.wanted)))
    missing = without_score(frame[roles["score"]])
    if missing is not None and announce is not None:
        announce(told_not_run(missing.sum(), len(missing), name))
    try:
        return Responses.from_long(
            frame,
            **roles,
            item_metadata=described,
            subject_metadata=() if reading.subject_table else reading.described_subjects,
            duplicates=reading.duplicates,
            threshold=reading.threshold,
            scale=reading.scale,
        )
    except ResponseError as error:
        if "repeat a subject and item" in str(error) and (telling := telling_apart(frame, roles)):
            hint = f"or --facet {telling} if each has a different {telling}"
            raise ResponseError(f"{error}, {hint}") from None
        raise


def _check_roles(frame: pd.DataFrame, roles: dict[str, str], name: str) -> None:
    for role in ("subject", "item", "score"):
        if role not in roles:
            raise ResponseError(
                f"{one_line(name)} has no column for the {role}; name it with --{role}, or pass "
                f"--items-in if it is wide (the columns are {list_columns(frame)})"
            )
    check_columns(frame, roles.values())


def _steady_columns(frame: pd.DataFrame, roles: dict[str, str]) -> list[str]:
    described = describing(frame.columns, roles)
    if not described:
        return []
    item, _ = encode_names(frame[roles["item"]], "item")
    return [c for c in described if first_varying(frame[c], item) is None]


def _subjects_in_rows(
    frame: pd.DataFrame,
    items_in: str | None,
    name: str,
    announce: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    corner = plain_name(frame.columns[0])
    if items_in is None and corner in _UNNAMED:
        _refuse_numbered(frame, name)
        items_in = "columns"
        if announce is not None:
            announce(
                f"the first column of {one_line(name)} has no name, so its rows are assumed to be "
                f"models; pass --items-in rows if they are questions"
            )
    if items_in is None and corner in SUBJECT_NAMES:
        items_in = "columns"
    elif items_in is None and corner in ITEM_NAMES:
        items_in = "rows"
    if items_in is None:
        raise ResponseError(
            f"{one_line(name)} starts with the column {one_line(frame.columns[0])!r}, so it is "
            f"unclear whether its rows are subjects or items; pass --items-in columns or "
            f"--items-in rows, or name the columns of a long file with --subject, --item and "
            f"--score"
        )
    kind = "item" if items_in == "rows" else "subject"
    labels = name_rows(frame.iloc[:, 0], kind)
    matrix = frame.iloc[:, 1:].set_axis(pd.Index(labels, dtype=object), axis=0)
    return matrix.T if items_in == "rows" else matrix


def _refuse_numbered(frame: pd.DataFrame, name: str) -> None:
    """Refuse a table whose rows are only numbered."""
    numbers = pd.to_numeric(frame.iloc[:, 0], errors="coerce")
    if (numbers.to_numpy() == np.arange(len(frame))).all():
        raise ResponseError(
            f"{one_line(name)} numbers its rows but does not name models; put their names in a "
            f"first column named model, or make them the index of the table"
        )

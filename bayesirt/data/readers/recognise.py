"""From any results to `Responses`: logs or a table, long or wide, and which column is which."""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa

from bayesirt.data.free_memory import host_bytes_free
from bayesirt.data.long_parquet_file import (
    OWN_ROLES,
    check_written,
    describing_columns,
    read_long_parquet,
    schema_version,
    written_scale,
)
from bayesirt.data.readers.found_logs import FoundLogs
from bayesirt.data.readers.log_folder import find_harness, read_logs, refuse_no_log
from bayesirt.data.readers.long_parquet import LongParquet, is_plain
from bayesirt.data.readers.numbered import can_be_numbered
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.subject_facts import (
    CLUSTER,
    refuse_column,
    with_clusters_of_file,
    with_clusters_of_parquet,
    with_costs_of_file,
)
from bayesirt.data.readers.tables import (
    PARQUET_ERRORS,
    Progress,
    parquet_schema,
    read_table,
    refuse_parquet,
)
from bayesirt.data.responses import Responses
from bayesirt.data.table_columns import (
    check_columns,
    encode_names,
    first_varying,
    list_columns,
    name_rows,
)
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

SUBJECT_NAMES = ("subject", "model", "system", "llm", "model_name", "model_id", "classifier")
ITEM_NAMES = ("item", "question", "task_id", "doc_id", "item_id", "question_id", "instance_id")
SCORE_NAMES = (
    "score", "correct", "response", "acc", "accuracy", "is_correct", "successes", "n_correct",
    "fraction", "pass_rate",
)  # fmt: skip
TRIALS_NAMES = ("trials", "n_trials", "attempts")
LATENCY_NAMES = ("tokens", "latency", "cot_tokens", "output_tokens", "time", "response_time")
COST_NAMES = ("cost", "cost_usd", "total_cost", "usd")
METADATA_NAMES = (
    "benchmark", "dataset", "suite", "task", "topic", "category", "level", "group",
)  # fmt: skip
_COMMON_NAMES = {
    "subject": SUBJECT_NAMES,
    "item": ITEM_NAMES,
    "score": SCORE_NAMES,
    "trials": TRIALS_NAMES,
    "latency": LATENCY_NAMES,
    "cost": COST_NAMES,
}
"""Columns of a long file, by their role."""
_OF_ANSWERS = ("latency", "cost")
"""What is measured of answers, and has no place on disk."""

_BYTES_A_ROW = 60
"""Of memory, to read a response and to fit a point estimate."""


class LeftOutWarning(UserWarning):
    """Something that a file holds was not read."""


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
    kind: str | None = None,
    order: Sequence[str] = (),
    full: float | None = None,
    metric: str | Sequence[str] = (),
    answer_filter: str | Sequence[str] = (),
    skip_damaged: bool = False,
    out_of_core: bool | None = None,
    cluster: str | None = None,
    cost: str | None = None,
) -> Responses:
    """Read results: a table, long or wide, a log of an evaluation harness, or a folder of logs.

    Parameters
    ----------
    path : str or Path
        CSV, TSV, JSON Lines or Parquet, perhaps with ``.gz``; a log of lm-evaluation-harness,
        inspect_ai, HELM, Every Eval Ever, OpenCompass, EvalPlus, SWE-bench or lighteval; or a
        folder with any of these logs.
    subject, item, score, trials, latency : str, optional
        Columns of a long file; by default found by their common names (`SUBJECT_NAMES` and so on).
    items_in : {"rows", "columns"}, optional
        Orientation of a wide file whose first header does not tell it.
    duplicates : {"error", "trials", "first", "last"}
        What rows with the same subject and item are, or several runs in logs.
    threshold : float, optional
        Scores at or above it count as right.
    kind : {"binary", "graded", "continuous"}, optional
        What scores are: 0 and 1, a few ordered grades, or numbers from 0 to `full`. By default
        found.
    order : sequence of str, optional
        Grades that are words, the lowest first.
    full : float, optional
        The full score, such as 100; by default 1.
    metric, answer_filter : str or sequence of str, optional
        What scores a benchmark of logs where there is a choice: a name for all benchmarks that
        offer it, or ``benchmark=name``.
    skip_damaged : bool
        Leave out logs that cannot be read, instead of refusing the folder.
    out_of_core : bool, optional
        Leave the responses of a long Parquet file on disk, sorted into a temporary folder that is
        removed with the result; `tempfile` says where, such as in ``TMPDIR``. Then `fit_cbmm` and
        summaries work; what describes items is kept, lengths, times and costs are left out. By
        default only if memory would not hold them.
    cluster : str, optional
        Column of a long file with what several subjects share, such as the LLM that they are runs
        of; or, for any results, a file with the columns ``subject`` and ``cluster``.
    cost : str, optional
        Column of a long file with what an answer cost (by default found by `COST_NAMES`); or, for
        any results, a file with the columns ``subject`` and ``cost``. Of each subject the mean is
        kept.

    Returns
    -------
    Responses

    Raises
    ------
    ResponseError
        One sentence, for whatever keeps the file from being read.

    Warns
    -----
    LeftOutWarning
        If responses are left on disk without something that the file holds.
    """
    reading = Reading(
        subject, item, score, trials, latency, items_in, duplicates, threshold,
        kind, tuple(order), full, several(metric),
        several(answer_filter), skip_damaged, out_of_core, cluster, cost,
    )  # fmt: skip
    left_out: list[str] = []
    responses, _ = read_results(path, reading, announce=left_out.append)
    for said in left_out:
        warnings.warn(said, LeftOutWarning, stacklevel=2)
    return responses


def read_results(
    path: str | Path,
    reading: Reading,
    *,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> tuple[Responses, FoundLogs | None]:
    """Read results, and say what was found where these are logs."""
    path = Path(path)
    if reading.items_in not in (None, "rows", "columns"):
        raise ResponseError(f"--items-in must be rows or columns, got {reading.items_in!r}")
    if reading.items_in and any(reading.named.values()):
        raise ResponseError(
            "--items-in belongs to wide files, names of columns to long ones; leave out either"
        )
    found = None
    if not are_logs(path, reading):
        responses = _read_table(path, reading, progress, announce)
    else:
        responses, found = read_logs(path, reading, progress)
    if reading.cluster_file:
        responses = with_clusters_of_file(responses, reading.cluster_file)
    elif reading.cluster and responses.clusters is None:
        raise refuse_column("cluster", reading.cluster)
    if reading.cost_file:
        responses = with_costs_of_file(responses, reading.cost_file)
    elif reading.cost and responses.costs is None:
        raise refuse_column("cost", reading.cost)
    return responses, found


def several(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return names, of which there may be one."""
    return (names,) if isinstance(names, str) else tuple(names)


def are_logs(path: Path, reading: Reading) -> bool:
    """Return whether a path holds logs; an option that only tables know makes a file one."""
    shown = one_line(str(path), 200)
    if os.path.isdir(path):
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
    if not logs and path.suffix.lower() == ".json":
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
    named, items_in = reading.named, reading.items_in
    if items_in is None:
        streamed = _streamed(path, reading, progress, announce)
        if streamed is not None:
            return streamed
    if reading.out_of_core:
        raise ResponseError(
            f"{one_line(path.name)} cannot be left on disk; make it a long Parquet file whose "
            f"names are text or whole numbers, or leave out out_of_core"
        )
    frame = read_table(path, progress=progress)
    roles = _find_columns(frame.columns, {**named, "cost": reading.cost_column})
    if items_in is None and (any(named.values()) or {"subject", "item"} <= roles.keys()):
        if reading.cluster_column:
            roles["cluster"] = reading.cluster_column
        return _from_long(frame, roles, path.name, reading)
    wide = _subjects_in_rows(frame, items_in, path.name)
    return Responses.from_wide(wide, threshold=reading.threshold, scale=reading.scale)


def as_long(path: Path, reading: Reading) -> pd.DataFrame:
    """Return a table of however few subjects, one row per response, with columns by their roles."""
    frame = read_table(path)
    roles = _find_columns(frame.columns, {**reading.named, "cost": reading.cost_column})
    long = {"subject", "item"} <= roles.keys() or any(reading.named.values())
    if reading.items_in is None and long:
        _check_roles(frame, roles, path.name)
        described = _steady_columns(frame, roles)
        return frame[[*roles.values(), *described]].set_axis([*roles, *described], axis=1)
    wide = _subjects_in_rows(frame, reading.items_in, path.name)
    cells = wide.rename_axis("subject").reset_index().melt("subject", None, "item", "score")
    empty = cells["score"].isna() | cells["score"].isin(["", "NA"])
    return cells[~empty].reset_index(drop=True)


def _streamed(
    path: Path,
    reading: Reading,
    progress: Progress | None,
    announce: Callable[[str], None] | None,
) -> Responses | None:
    """Read a long Parquet file some rows at a time, or return None if that cannot be done."""
    schema, n_rows = parquet_schema(path) or (pa.schema([]), 0)
    threshold, out_of_core = reading.threshold, reading.out_of_core
    as_written = schema_version(schema) is not None and not any(reading.named.values())
    named = {**reading.named, "cost": reading.cost_column, **(OWN_ROLES if as_written else {})}
    roles = _find_columns(schema.names, named)
    found = {"subject", "item", "score"} <= roles.keys() and set(roles.values()) <= {*schema.names}
    if not found or not all(is_plain(schema.field(roles[k]).type) for k in ("subject", "item")):
        return None
    if out_of_core is None:
        out_of_core = n_rows * _BYTES_A_ROW > host_bytes_free()
    if out_of_core:
        _refuse_measured(named)
    if as_written:
        check_written(schema, one_line(path.name, 80))
    measured = [roles.pop(role) for role in _OF_ANSWERS if role in roles]
    described = describing_columns(schema) if as_written else _describing(schema.names, roles)
    describing = tuple(name for name in described if can_be_numbered(schema.field(name).type))
    left_out = [name for name in described if name not in describing] + measured
    if left_out and not out_of_core:
        return _as_it_was_written(path, reading) if as_written else None
    file = LongParquet(path, roles, threshold, n_rows, describing, as_written, progress)
    if not out_of_core and not file.counts(reading.scale):
        return None
    own_cluster = CLUSTER if as_written and CLUSTER in schema.names else None
    whole = partial(
        _completed, path, schema, roles["subject"], reading.cluster_column or own_cluster
    )
    if not out_of_core:
        return whole(file.in_memory(reading.duplicates))
    if left_out and announce is not None:
        listed = ", ".join(f"`{one_line(name)}`" for name in left_out)
        announce(
            f"{n_rows:,} rows are left on disk without {listed}: lengths, times, costs and lists "
            f"have no place there"
        )
    return whole(file.on_disk(reading.duplicates))


def _completed(
    path: Path, schema: pa.Schema, subject: str, cluster: str | None, responses: Responses
) -> Responses:
    """Return responses with what answers are, and with clusters."""
    responses = replace(responses, scale=written_scale(schema))
    if cluster is None:
        return responses
    return with_clusters_of_parquet(responses, path, subject, cluster)


def _refuse_measured(named: dict[str, str | None]) -> None:
    given = next((role for role in _OF_ANSWERS if named[role]), None)
    if given:
        raise ResponseError(
            f"lengths, times and costs cannot be left on disk; leave out --{given}, or read fewer "
            f"rows"
        )


def _as_it_was_written(path: Path, reading: Reading) -> Responses | None:
    if reading.threshold is not None or reading.cluster_column or reading.cost_column:
        return None
    try:
        return read_long_parquet(path, duplicates=reading.duplicates)
    except PARQUET_ERRORS as error:
        refuse_parquet(one_line(path.name, 80), error)


def _find_columns(columns: Iterable[str], named: dict[str, str | None]) -> dict[str, str]:
    free = [c for c in columns if c not in named.values()]
    by_lower = {c.strip().lower(): c for c in reversed(free)}
    roles = {}
    for role, common in _COMMON_NAMES.items():
        chosen = named[role] or next((by_lower[n] for n in common if n in by_lower), None)
        if chosen is not None:
            roles[role] = chosen
    return roles


def _from_long(
    frame: pd.DataFrame, roles: dict[str, str], name: str, reading: Reading
) -> Responses:
    _check_roles(frame, roles, name)
    return Responses.from_long(
        frame,
        **roles,
        item_metadata=_steady_columns(frame, roles),
        duplicates=reading.duplicates,
        threshold=reading.threshold,
        scale=reading.scale,
    )


def _check_roles(frame: pd.DataFrame, roles: dict[str, str], name: str) -> None:
    for role in ("subject", "item", "score"):
        if role not in roles:
            raise ResponseError(
                f"{one_line(name)} has no column for the {role}; name it with --{role}, or pass "
                f"--items-in if it is wide (the columns are {list_columns(frame)})"
            )
    check_columns(frame, roles.values())


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

"""Join the answers of many logs, and count copies of the same run once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pandas as pd

from bayesirt.data.cell_rows import check_duplicate_rule
from bayesirt.data.facets import QUESTION, with_facets, with_factors
from bayesirt.data.readers.harness import ANSWER_COLUMNS, LogRows
from bayesirt.data.readers.reading import Reading
from bayesirt.data.scales import PARTS, Scale, in_parts, look_continuous
from bayesirt.data.score_values import count_successes
from bayesirt.data.table_columns import list_columns
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

Logs = Sequence[tuple[str, LogRows]]
"""The displayed name of each file, and rows from it."""
_PAIR = ["subject", "item"]
_NO_LEVELS = ("item", "score", "latency", "content", "subject", "benchmark", "file")


def join_logs(logs: Logs, reading: Reading) -> tuple[pd.DataFrame, int, Scale | None]:
    """Return the runs of all logs, the number of copies, and the scale if scores are not 0 or 1.

    The table has one row per run: subject, item (named ``benchmark/item``), successes, trials,
    latency (NaN if unknown), benchmark, and levels of facets and factors. If duplicates are an
    error, each subject and item occurs once.

    A run holds the answers of one subject to one item in one file; repeated rows of a file, such as
    one that was appended to, are further runs. Trials of a run, such as epochs, add up, or are
    averaged for scores between 0 and 1. Runs with the same successes, trials and length are copies
    of each other.
    """
    check_duplicate_rule(reading.duplicates)
    threshold = reading.threshold
    files = list(dict.fromkeys(name for name, _ in logs))
    answers = _stack(logs, files)
    if answers.empty:
        raise ResponseError("the logs hold no answer with a score; add logs of finished runs")
    answers, described = _with_levels(answers, reading, files)
    _check_content(answers, files)
    scores = answers["score"].to_numpy(float)
    shares = threshold is None and look_continuous(scores)
    scale = Scale("continuous") if shares else None
    parts = [_count(part, threshold, scale) for _, part in answers.groupby("benchmark", sort=False)]
    answers = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    answers["run"] = answers.groupby([*_PAIR, "trial", "file"], sort=False).cumcount()
    keys = [*_PAIR, "file", "run"]
    runs = answers.groupby(keys, sort=False, as_index=False).agg(
        {"successes": "sum", "trials": "sum", "latency": "mean"} | dict.fromkeys(described, "first")
    )
    if scale is not None:
        share = runs["successes"] / runs["trials"]
        runs = runs.assign(successes=in_parts(share.to_numpy()), trials=PARTS)
    copies = 0
    if reading.duplicates == "error":
        runs, copies = _fold_copies(runs, files)
    return runs, copies, scale


def check_alike(logs: Logs, *, by: Sequence[str] = ("metric", "filter")) -> None:
    """Refuse logs that score a benchmark by different metrics or filters."""
    first: dict[str, tuple[str, LogRows]] = {}
    for name, rows in logs:
        if not rows.metric:
            continue
        other, before = first.setdefault(rows.benchmark, (name, rows))
        for option in by:
            one, two = getattr(before, option), getattr(rows, option)
            if one != two:
                raise ResponseError(
                    f"{one_line(rows.benchmark)} is scored by the {option} {one_line(one)!r} in "
                    f"{other} and by {one_line(two)!r} in {name}; choose with --{option}, or leave "
                    f"one out"
                )


def tell_harnesses_apart(logs: Logs) -> tuple[list[tuple[str, LogRows]], list[str]]:
    """Rename benchmarks that several harnesses have, as their items may differ."""
    by_benchmark: dict[str, set[str]] = {}
    for _, rows in logs:
        by_benchmark.setdefault(rows.benchmark, set()).add(rows.harness)
    shared = [benchmark for benchmark, harnesses in by_benchmark.items() if len(harnesses) > 1]
    renamed = [
        (name, replace(rows, benchmark=f"{rows.benchmark} ({rows.harness})"))
        if rows.benchmark in shared
        else (name, rows)
        for name, rows in logs
    ]
    return renamed, shared


def _stack(logs: Logs, files: Sequence[str]) -> pd.DataFrame:
    tables, index = [], {name: k for k, name in enumerate(files)}
    for name, rows in logs:
        if not rows.answers.empty:
            columns = {"subject": rows.subject, "benchmark": rows.benchmark, "file": index[name]}
            if rows.judges:
                columns["judge"] = rows.answers["metric"].map(rows.judges)
            columns["item"] = rows.benchmark + "/" + rows.answers["item"]
            facts = {x: y for x, y in rows.told.items() if x not in (*ANSWER_COLUMNS, "question")}
            tables.append(rows.answers.assign(**{"model": rows.subject} | facts | columns))
    if not tables:
        return pd.DataFrame(columns=["subject", "benchmark", *ANSWER_COLUMNS])
    return pd.concat(tables, ignore_index=True)


def _with_levels(
    answers: pd.DataFrame, reading: Reading, files: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return answers whose items include levels of facets, and the columns of their metadata."""
    columns = answers.columns.drop(list(_NO_LEVELS))
    for column in (*reading.facet, *reading.factors):
        if column not in columns:
            raise ResponseError(
                f"these logs do not record `{one_line(column)}`; besides scores they record "
                f"{list_columns(answers[columns])}"
            )
        untold = answers[column].isna()
        if untold.any():
            raise ResponseError(
                f"{files[answers['file'][untold.idxmax()]]} does not record `{one_line(column)}` "
                f"for every answer; leave that log out, or do without `{one_line(column)}`"
            )
    described = ["benchmark", *reading.facet, *reading.factors]
    if reading.factors:
        answers, _ = with_factors(answers, {"subject": "model"}, reading.factors)
    if reading.facet:
        answers, _ = with_facets(answers, {"item": "item"}, reading.facet)
        described.append(QUESTION)
    return answers, list(dict.fromkeys(described))


def _check_content(answers: pd.DataFrame, files: Sequence[str]) -> None:
    hashed = answers[answers["content"] != ""]
    first = hashed.groupby("item")["content"].transform("first")
    differs = (hashed["content"] != first).to_numpy()
    if differs.any():
        row = hashed.iloc[int(np.argmax(differs))]
        other = hashed[hashed["item"] == row["item"]].iloc[0]
        raise ResponseError(
            f"{one_line(row['item'])} has different texts in {files[other['file']]} and "
            f"{files[row['file']]}, as their hashes differ; leave out the logs of one version of "
            f"the benchmark"
        )


def _count(answers: pd.DataFrame, threshold: float | None, scale: Scale | None) -> pd.DataFrame:
    """Return the answers to one benchmark as successes out of one trial, or of a score's parts."""
    if scale is not None:
        return answers.assign(successes=in_parts(answers["score"].to_numpy(float)), trials=PARTS)
    where = _place(answers)
    metric = one_line(str(answers["metric"].iloc[0]))
    right, trials = count_successes(answers["score"], None, metric, threshold, where)
    return answers.assign(successes=right.astype(np.int64), trials=trials.astype(np.int64))


def _place(answers: pd.DataFrame) -> Callable[[int], str]:
    def where(row: int) -> str:
        subject, item = answers[_PAIR].iloc[row]
        benchmark = one_line(answers["benchmark"].iloc[row])
        return (
            f"at subject {one_line(subject)!r}, item {one_line(item)!r} of benchmark {benchmark!r}"
        )

    return where


def _fold_copies(runs: pd.DataFrame, files: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """Return each subject and item once, with the number of copies; refuse contradicting runs."""
    again = runs.duplicated(_PAIR).to_numpy()
    if not again.any():
        return runs, 0
    groups = runs.groupby(_PAIR, sort=False)
    for column in ("successes", "trials", "latency"):
        differs = groups[column].transform("nunique").to_numpy() > 1
        if differs.any():
            _refuse_contradiction(runs[differs], column, files)
    length = groups["latency"].transform("first")
    return runs.assign(latency=length)[~again], int(again.sum())


def _refuse_contradiction(runs: pd.DataFrame, column: str, files: Sequence[str]) -> NoReturn:
    """Refuse runs of the same subjects and items that differ in a column."""
    pairs = len(runs.drop_duplicates(_PAIR))
    first = runs.iloc[0]
    same = runs[(runs[_PAIR] == first[_PAIR]).all(axis=1)].dropna(subset=column)
    parts = []
    for _, run in same.drop_duplicates(column).head(2).iterrows():
        length = "" if np.isnan(run["latency"]) else f", length {run['latency']:g}"
        parts.append(f"{run['successes']} of {run['trials']}{length} in {files[run['file']]}")
    raise ResponseError(
        f"runs contradict each other (pairs of subject and item: {pairs:,}), first at subject "
        f"{one_line(first['subject'])!r}, item {one_line(first['item'])!r}: {' and '.join(parts)}; "
        f"pass --duplicates first, last or trials, or leave a log out"
    )

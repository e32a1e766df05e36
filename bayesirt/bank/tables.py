"""Tables that an item bank stores: answers to anchors, and scores."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from bayesirt.data.score_values import count_successes, parse_numbers
from bayesirt.data.table_columns import check_columns, encode_names
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, one_line

ANSWER_COLUMNS = ("subject", "item", "successes", "trials")
SCORE_COLUMNS = ("subject", "benchmark", "accuracy", "low", "high")
_KEPT = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_null,
)


def clean_answers(answers: pd.DataFrame) -> pd.DataFrame:
    """Return answers as a bank stores them.

    >>> row = {"subject": "s", "item": 7, "successes": 1.0, "trials": 1, "run": "a"}
    >>> clean_answers(pd.DataFrame([row])).to_dict("records")
    [{'subject': 's', 'item': '7', 'successes': 1, 'trials': 1}]
    """
    check_columns(answers, ANSWER_COLUMNS)
    table = _with_names(answers.loc[:, list(ANSWER_COLUMNS)], ("subject", "item"))
    where = _place(table, "subject", "item")
    counts = count_successes(table["successes"], table["trials"], "successes", None, where)
    for name, values in zip(("successes", "trials"), counts, strict=True):
        table[name] = values.astype(np.int64)
    again = table.duplicated(["subject", "item"]).to_numpy()
    if again.any():
        raise ResponseError(
            f"an answer {where(int(np.argmax(again)))} is duplicated; drop one or add up their "
            f"trials"
        )
    table = table[table["trials"] > 0].reset_index(drop=True)
    if table.empty:
        raise ResponseError("`answers` holds no answer; leave it out")
    return to_arrow(table, "answers").to_pandas()


def clean_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return scores as a bank stores them.

    >>> row = {"subject": "s", "benchmark": 7, "accuracy": 1, "low": 0.5, "high": 1}
    >>> clean_scores(pd.DataFrame([row])).to_dict("records")
    [{'subject': 's', 'benchmark': '7', 'accuracy': 1.0, 'low': 0.5, 'high': 1.0}]
    """
    check_names([str(name) for name in scores.columns], "column of the scores")
    check_columns(scores, SCORE_COLUMNS)
    if "step" in scores.columns:
        raise ResponseError("the scores cannot have a column `step`; rename it")
    if scores.empty:
        raise ResponseError("`scores` holds no score; leave the step out")
    table = _with_names(scores, ("subject", "benchmark"))
    where = _place(table, "subject", "benchmark")
    for name in SCORE_COLUMNS[2:]:
        table[name] = parse_numbers(table[name], name, where, "score the subject again")
    again = table.duplicated(["subject", "benchmark"]).to_numpy()
    if again.any():
        raise ResponseError(f"a score {where(int(np.argmax(again)))} is duplicated; drop one")
    return to_arrow(table, "scores").to_pandas()


def to_arrow(frame: pd.DataFrame, content: str) -> pa.Table:
    """Convert a table to Arrow, and refuse columns of mixed or unsupported types."""
    columns = {}
    for name, values in frame.items():
        try:
            column = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            column = None
        if isinstance(column, pa.DictionaryArray):
            column = column.dictionary_decode()
        if column is None or not any(is_kept(column.type) for is_kept in _KEPT):
            raise ResponseError(
                f"the column `{one_line(str(name))}` of the {content} cannot be stored; it must "
                f"hold only numbers, only text or only booleans"
            )
        columns[name] = column
    return pa.table(columns)


def _with_names(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return a copy with numbered rows, and with names as text in some columns."""
    table = table.reset_index(drop=True)
    for name in columns:
        codes, unique = encode_names(table[name], name)
        check_names(unique, name)
        table[name] = np.array(unique, object)[codes]
    return table.set_axis([str(name) for name in table.columns], axis=1)


def _place(table: pd.DataFrame, first: str, second: str) -> Callable[[int], str]:
    """Return a function that locates rows in words by two names."""
    names = table[first].tolist(), table[second].tolist()

    def where(row: int) -> str:
        return f"at {first} {one_line(names[0][row])!r}, {second} {one_line(names[1][row])!r}"

    return where

"""Scores become successes out of trials, or a sentence that names the cell.

`cli/test_bad_input.py` covers impossible counts and thresholds.
"""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from bayesirt.data.score_values import (
    binary_counts,
    parse_numbers,
    repeated_counts,
)
from bayesirt.errors import ResponseError


def where(row: int) -> str:
    return f"in cell {row}"


def counts(scores: list[float], trials: list[float], column: str = "score") -> list[list[int]]:
    found = repeated_counts(np.array(scores, float), np.array(trials, float), column, where)
    return [c.tolist() for c in found]


NUMBERS = {
    "whole": pd.Series([1, 0, 3], dtype="int8"),
    "floating": pd.Series([1.0, 0.0, 3.0], dtype="float32"),
    "text": pd.Series(["1", " 0 ", "3e0"]),
    "text of pandas": pd.Series(["1", "0", "3.0"], dtype="string"),
    "text as objects": pd.Series(["1", "-0", "3"], dtype=object),
    "words": pd.Series(["True", "FALSE", "3"]),
    "mixed objects": pd.Series([True, Decimal(0), "3"], dtype=object),
    "NumPy objects": pd.Series([np.True_, np.float32(0), np.int8(3)], dtype=object),
    "nullable": pd.Series([1, 0, 3], dtype="Int64"),
    "categories": pd.Series(["1", "0", "3"], dtype="category"),
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_read_from_every_type(values: pd.Series):
    parsed = parse_numbers(values, "score", where)
    assert parsed.dtype == np.float64
    assert parsed.tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([True, False]),
        pd.Series([True, False], dtype="boolean"),
        pd.Series([True, False], dtype=object),
        pd.Series(["true", "False"]),
    ],
)
def test_booleans_are_one_and_zero(values: pd.Series):
    assert parse_numbers(values, "score", where).tolist() == [1, 0]


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, "", "  ", "NA", "nan", "None", "null"])
def test_a_missing_number_is_named(nothing: object):
    with pytest.raises(ResponseError, match=r"^`score` is missing \(.*\) in cell 1; leave it out"):
        parse_numbers(pd.Series(["1", nothing], dtype=object), "score", where)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float64", "string", "category"])
def test_a_null_of_every_type_is_missing(dtype: str):
    values = pd.Series([1, None], dtype=object).astype(dtype)
    with pytest.raises(ResponseError, match=r"is missing .* in cell 1"):
        parse_numbers(values, "score", where)


@pytest.mark.parametrize(
    "other",
    ["maybe", "1,500", "0x1", "1_0", "inf", "-Infinity", "1e999", [1], {"a": 1}, pd.Timestamp(0),
     float("inf"), "\ud800", "two\nlines"],
)  # fmt: skip
def test_what_is_no_number_is_named(other: object):
    values = pd.Series(["1", "0", other], dtype=object)
    with pytest.raises(ResponseError, match=r"^`score` must be a finite number, got ") as refused:
        parse_numbers(values, "score", where)
    assert "in cell 2; score right answers 1" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_hint_replaces_the_advice_on_scores():
    with pytest.raises(ResponseError, match=r"got 'x' in cell 0; try harder$"):
        parse_numbers(pd.Series(["x"]), "tokens", where, "try harder")


def test_single_answers_are_one_trial_each():
    successes, trials = binary_counts(np.array([1.0, 0.0, 1.0]), "score", None, where)
    assert successes.tolist() == [1, 0, 1]
    assert trials.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("threshold", "right"),
    [(0.5, [0, 0, 1, 1]), (0.2, [0, 1, 1, 1]), (-9.0, [0, 1, 1, 1]), (0.9, [0, 0, 0, 1])],
)
def test_scores_at_a_threshold_are_right(threshold: float, right: list[int]):
    scores = np.array([-10, 0.2, 0.5, 0.9])
    assert binary_counts(scores, "score", threshold, where)[0].tolist() == right


@pytest.mark.parametrize(
    ("column", "scores", "trials", "expected"),
    [
        ("score", [2, 0, 3], [3, 3, 3], [2, 0, 3]),
        ("score", [0.5, 0, 1], [4, 4, 4], [2, 0, 4]),
        ("score", [1, 0, 1], [1, 1, 1], [1, 0, 1]),
        ("score", [0.5, 1, 0], [2, 3, 0], [1, 3, 0]),
        ("score", [1 / 3, 2 / 3, 1 - 1e-9], [3, 3, 3], [1, 2, 3]),
        ("successes", [1, 0, 1], [3, 3, 3], [1, 0, 1]),
        ("N_Correct", [1, 0, 1], [3, 3, 3], [1, 0, 1]),
        ("fraction", [1, 0, 1], [3, 3, 3], [3, 0, 3]),
        ("accuracy", [1, 0.5, 0], [2, 2, 2], [2, 1, 0]),
    ],
)
def test_repeated_answers_are_counts_or_fractions(
    column: str, scores: list[float], trials: list[float], expected: list[int]
):
    assert counts(scores, trials, column) == [expected, [int(n) for n in trials]]


def test_no_rows_are_no_counts():
    assert counts([], []) == [[], []]

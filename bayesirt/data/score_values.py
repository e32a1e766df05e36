"""Conversion of raw scores into successes out of trials."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.scales import Column, Scale, on_scale, scored
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

Where = Callable[[int], str]
"""Returns the location of row k in words, such as "at subject 'gpt-x', item 'q17'"."""


def where_of(
    subjects: Sequence[str],
    items: Sequence[str],
    subject: NDArray[np.integer],
    item: NDArray[np.integer],
) -> Where:
    """Return a function that locates rows in words, given their subjects and items."""

    def where(row: int) -> str:
        names = one_line(subjects[subject[row]]), one_line(items[item[row]])
        return f"at subject {names[0]!r}, item {names[1]!r}"

    return where


_COUNT_NAMES = frozenset({"successes", "n_correct", "num_correct", "n_successes"})
_FRACTION_NAMES = frozenset({"fraction", "pass_rate", "accuracy", "acc"})
_WORDS = {
    **dict.fromkeys(("true", "yes", "y", "correct", "right", "pass", "passed"), 1.0),
    **dict.fromkeys(("false", "no", "n", "incorrect", "wrong", "fail", "failed"), 0.0),
}
"""Words for right and wrong."""
_DECIMAL_COMMA = re.compile(r"-?\d+,(\d{1,2}|\d{4,})|-?0,\d+")
"""A number whose comma is a decimal comma, not a thousands separator."""
_WHOLE = 1e-6
_LONG = 40
_MOST_TRIALS = 2**31 - 1


def read_scores(
    scores: pd.Series,
    trials: pd.Series | None,
    column: str,
    threshold: float | None,
    where: Where,
    scale: Scale | None = None,
) -> tuple[NDArray[np.integer], NDArray[np.integer], Scale | None]:
    """Return successes and trials, and their scale if they are not right or wrong."""
    if scale is not None and scale.kind != "binary" and not (threshold is trials is None):
        other = "--threshold" if trials is None else "a column of `trials`"
        raise ResponseError(
            f"{other} makes answers right or wrong; leave out either it or --kind, --order and "
            f"--scale"
        )
    binary = scale is not None and scale.kind == "binary"
    if trials is None and threshold is None and not binary:
        clean = scale is None and _clean_answers(scores) is not None
        held = None if clean else _column(scores, column, where, scale)
        result = None if held is None else scored(held, scale)
        if result is not None:
            return result[0], np.full(len(scores), result[1].steps, np.int64), result[1]
    return *count_successes(scores, trials, column, threshold, where), None


def read_on_scale(
    scores: pd.Series, column: str, where: Where, scale: Scale
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return successes and trials of answers on a known scale."""
    held = _column(scores, column, where, scale)
    if held is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return on_scale(held, scale), np.full(len(scores), scale.steps, np.int64)


def _column(scores: pd.Series, name: str, where: Where, scale: Scale | None) -> Column | None:
    """Return a column of scores, or None if empty or with lists; refuse missing values."""
    try:
        codes, distinct = pd.factorize(scores)
    except TypeError:  # a value such as a list, which cannot be looked up
        return None
    values = np.asarray(distinct, object)
    missing = np.append([_is_missing(value) for value in values], True)[codes]
    if missing.any():
        row = int(np.argmax(missing))
        _refuse_number(scores.iloc[row], name, where(row), None)
    of_distinct = _as_numbers(values)
    if scale is not None and scale.fine:
        parse_numbers(scores, name, where, "give numbers, or percentages throughout")
        if scale.full != 1 and any(_text_of(value).endswith("%") for value in values):
            raise ResponseError(
                f"`{name}` holds percentages, whose full score is 100%; leave out --scale"
            )
    numbers = of_distinct[codes] if np.isfinite(of_distinct).all() else None
    return Column(name, codes, values, numbers, where) if len(values) else None


def count_successes(
    scores: pd.Series,
    trials: pd.Series | None,
    column: str,
    threshold: float | None,
    where: Where,
    *,
    fractions: bool | None = None,
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return successes and trials of right and wrong answers, single or counted."""
    if threshold is not None and not np.isfinite(threshold):
        raise ResponseError(f"--threshold must be a finite number, got {threshold}")
    right = _clean_answers(scores) if trials is None and threshold is None else None
    if right is not None:
        return right, np.ones(len(right), np.int8)
    numbers = parse_numbers(scores, column, where)
    if trials is None:
        return binary_counts(numbers, column, threshold, where)
    if threshold is not None:
        raise ResponseError(
            "--threshold cuts single answers, but the file counts `trials`; leave out either"
        )
    hint = "give the number of answers, 0 if the item was not run"
    counts = parse_numbers(trials, "trials", where, hint)
    return repeated_counts(numbers, counts, column, where, fractions=fractions)


def _clean_answers(scores: pd.Series) -> NDArray[np.int8] | None:
    """Return 0 and 1 as they are, or None if the column holds anything else."""
    if not isinstance(scores.dtype, np.dtype) or scores.dtype.kind not in "biuf":
        return None
    values = scores.to_numpy()
    right = values == 1
    return right.astype(np.int8) if (right | (values == 0)).all() else None


def parse_numbers(
    values: pd.Series, column: str, where: Where, hint: str | None = None
) -> NDArray[np.float64]:
    """Return finite numbers, or refuse the first cell that is not one."""
    if values.dtype.kind in "biuf":
        numbers = values.to_numpy(np.float64, na_value=np.nan)
    else:
        try:
            codes, distinct = pd.factorize(values)
        except TypeError:  # a value such as a list, which cannot be looked up
            numbers = _as_numbers(values.to_numpy(object))
        else:  # The last entry is for nulls, whose code is -1.
            numbers = np.append(_as_numbers(np.asarray(distinct, object)), np.nan)[codes]
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        _refuse_number(values.iloc[row], column, where(row), hint)
    return numbers


def _as_numbers(raw: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return values as numbers; anything else, or a percentage among numbers, is not finite."""
    try:
        numbers = np.array(pd.to_numeric(raw, errors="coerce"), np.float64)
    except OverflowError:  # A whole number too large for a float; as text it becomes infinite.
        return _as_numbers(np.array([str(value) for value in raw], object))
    shares = np.zeros(len(numbers), bool)
    for k in np.flatnonzero(~np.isfinite(numbers)):
        text = str(raw[k]).strip().lower()
        numbers[k] = _WORDS.get(text, np.nan)
        if _DECIMAL_COMMA.fullmatch(text.removesuffix("%")):
            text = text.replace(",", ".")
            numbers[k] = pd.to_numeric(text, errors="coerce")
        if text.endswith("%") and len(text) < _LONG:
            numbers[k], shares[k] = pd.to_numeric(text[:-1], errors="coerce") / 100, True
    if not shares.all():
        numbers[shares] = np.nan
    return numbers


def _refuse_number(raw: object, column: str, place: str, hint: str | None) -> NoReturn:
    text = _text_of(raw)
    if _is_missing(raw):
        hint = hint or "leave it out if the item was not run, or score it 0 if it failed"
        raise ResponseError(f"`{column}` is missing ({text!r}) {place}; {hint}")
    hint = hint or "score right answers 1, wrong ones 0, and leave out items that were not run"
    raise ResponseError(f"`{column}` must be a finite number, got {text[:40]!r} {place}; {hint}")


def told_not_run(n: int, rows: int, name: str) -> str:
    """Return a sentence on rows without a score, which count as not run."""
    return f"{n:,} of {rows:,} rows of {one_line(name)} have no score and count as not run"


def without_score(scores: pd.Series) -> NDArray[np.bool_] | None:
    """Return which rows have no score, or None if all have one."""
    if scores.dtype.kind in "biu":
        return None
    if scores.dtype.kind == "f" and isinstance(scores.dtype, np.dtype):
        missing = np.isnan(scores.to_numpy())
        return missing if missing.any() else None
    try:
        codes, distinct = pd.factorize(scores)
    except TypeError:  # Values such as lists, none of which are missing.
        return None
    empty = [_is_missing(value) for value in np.asarray(distinct, object)]
    missing = np.append(np.array(empty, bool), True)[codes]
    return missing if missing.any() else None


def _text_of(raw: object) -> str:
    return "" if raw is None or raw is pd.NA else str(raw).strip()


def _is_missing(raw: object) -> bool:
    return _text_of(raw).lower() in {"", "nan", "na", "none", "null"}


def binary_counts(
    scores: NDArray[np.float64], column: str, threshold: float | None, where: Where
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return successes and trials of single answers, each 0 or 1 or cut at a threshold."""
    if threshold is not None:
        scores = (scores >= threshold).astype(np.float64)
    bad = (scores != 0) & (scores != 1)
    if bad.any():
        row = int(np.argmax(bad))
        hint = ", or --scale 100" if 1 < scores.max() <= 100 and scores.min() >= 0 else ""
        if scores.max() > 1 or scores.min() < 0:
            hint += ", or --kind unbounded for scores of any size"
        raise ResponseError(
            f"`{column}` must be 0 or 1, or successes with a column of `trials`, got "
            f"{scores[row]:g} {where(row)}; pass --threshold to binarise, or --kind graded or "
            f"continuous{hint}"
        )
    return scores.astype(np.int8), np.ones(len(scores), np.int8)


def repeated_counts(
    scores: NDArray[np.float64],
    trials: NDArray[np.float64],
    column: str,
    where: Where,
    *,
    fractions: bool | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return successes and trials of repeated answers; scores are counts or fractions of trials.

    A column named `successes` or `n_correct` holds counts; one named `fraction` or `accuracy` holds
    fractions. Any other holds fractions if one of its values is not whole, else counts.
    """
    _refuse_first(
        (trials < 0) | (trials != np.round(trials)) | (trials > _MOST_TRIALS),
        lambda k: (
            f"`trials` must be a whole number from 0 to {_MOST_TRIALS}, got {trials[k]:g} "
            f"{where(k)}; correct the row"
        ),
    )
    if fractions is None:
        fractions = are_fractions([(scores, trials)], column)
    successes = scores * trials if fractions else scores
    _refuse_first(
        (scores < 0) | (np.abs(successes - np.round(successes)) > _WHOLE),
        lambda k: (
            f"`{column}` must be successes or a fraction of `trials`, got {scores[k]:g} of "
            f"{trials[k]:g} {where(k)}; correct the row"
        ),
    )
    _refuse_first(
        np.round(successes) > trials,
        lambda k: (
            f"`{column}` is above `trials`: {scores[k]:g} of {trials[k]:g} {where(k)}; correct "
            f"the row"
        ),
    )
    return np.round(successes).astype(np.int64), trials.astype(np.int64)


def are_fractions(
    parts: Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]], column: str
) -> bool:
    """Return whether the scores of all parts are fractions of their trials, rather than counts."""
    name = column.lower()
    if name in _COUNT_NAMES or name in _FRACTION_NAMES:
        return name in _FRACTION_NAMES
    whole, largest, most = True, 0.0, 0.0
    for scores, trials in parts:
        whole = whole and bool((scores == np.round(scores)).all())
        largest, most = max(largest, scores.max(initial=0)), max(most, trials.max(initial=0))
    if whole and largest <= 1 and most > 1:
        raise ResponseError(
            f"`{column}` holds only 0 and 1 though `trials` go up to {most:g}, so it may "
            f"be counts or fractions; rename it `successes` or `fraction`"
        )
    return not whole


def _refuse_first(bad: NDArray[np.bool_], sentence: Callable[[int], str]) -> None:
    if bad.any():
        raise ResponseError(sentence(int(np.argmax(bad))))

"""Scores as they come, turned into successes out of trials."""

from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.errors import ResponseError

Where = Callable[[int], str]
"""Says in words where row k stands, such as "at model 'gpt-x', item 'q17'"."""

_COUNT_NAMES = frozenset({"successes", "n_correct", "num_correct", "n_successes"})
_FRACTION_NAMES = frozenset({"fraction", "pass_rate", "accuracy", "acc"})
_BOOLEANS = {"true": "1", "false": "0"}
_WHOLE = 1e-6


def parse_numbers(values: pd.Series, column: str, where: Where) -> NDArray[np.float64]:
    """Return finite numbers, or say which cell is none.

    Parameters
    ----------
    values : Series, shape (cell,)
        Text, numbers or booleans; ``true`` and ``false`` count as 1 and 0.
    column : str
        The column's name, for the message.
    where : callable
        Says in words where cell k stands.

    Returns
    -------
    float array, shape (cell,)

    Raises
    ------
    ResponseError
        At the first value that is missing, not a number or not finite.
    """
    if values.dtype.kind in "biuf":
        numbers = values.to_numpy(np.float64)
    else:
        text = values.astype(object).map(_as_text)
        numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        _refuse_number(values, int(np.argmax(bad)), column, where)
    return numbers


def _as_text(value: object) -> str:
    text = "" if value is None or value is pd.NA else str(value).strip()
    return _BOOLEANS.get(text.lower(), text)


def _refuse_number(values: pd.Series, row: int, column: str, where: Where) -> NoReturn:
    raw = values.iloc[row]
    text = _as_text(raw)
    if text.lower() in {"", "nan", "na", "none", "null"}:
        raise ResponseError(
            f"`{column}` is missing ({text!r}) {where(row)}; leave the row out if the item was "
            f"not run, or score it 0 if it failed"
        )
    raise ResponseError(
        f"`{column}` must be a number, got {text[:40]!r} {where(row)}; score right answers 1 and "
        f"wrong ones 0"
    )


def binary_counts(
    scores: NDArray[np.float64], column: str, threshold: float | None, where: Where
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return successes and trials of single answers, each 0 or 1 or cut at a threshold.

    Parameters
    ----------
    scores : float array, shape (cell,)
    column : str
        The column's name, for the message.
    threshold : float or None
        Scores at or above it count as right.
    where : callable
        Says in words where cell k stands.

    Returns
    -------
    successes, trials : int array, shape (cell,)

    Raises
    ------
    ResponseError
        At the first score that is neither 0 nor 1 where no threshold is given.
    """
    if threshold is not None:
        scores = (scores >= threshold).astype(np.float64)
    bad = (scores != 0) & (scores != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ResponseError(
            f"`{column}` must be 0 or 1, or successes with a column of `trials`, got "
            f"{scores[row]:g} {where(row)}; pass --threshold to binarise"
        )
    return scores.astype(np.int64), np.ones(len(scores), np.int64)


def repeated_counts(
    scores: NDArray[np.float64], trials: NDArray[np.float64], column: str, where: Where
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return successes and trials of repeated answers; scores are counts or fractions of trials.

    A column called `successes` or `n_correct` holds counts, one called `fraction` or `accuracy`
    fractions; any other holds fractions if one of its values is not whole, else counts.

    Parameters
    ----------
    scores, trials : float array, shape (cell,)
    column : str
        The score column's name.
    where : callable
        Says in words where cell k stands.

    Returns
    -------
    successes, trials : int array, shape (cell,)

    Raises
    ------
    ResponseError
        Where trials are not whole or negative, successes exceed trials, a fraction of the trials
        is not whole, or it cannot be told whether 0 and 1 are counts or fractions.
    """
    _refuse_first(
        (trials < 0) | (trials != np.round(trials)),
        lambda k: f"`trials` must be a whole number from 0 on, got {trials[k]:g} {where(k)}",
    )
    successes = scores * trials if _are_fractions(scores, trials, column) else scores
    _refuse_first(
        (scores < 0) | (np.abs(successes - np.round(successes)) > _WHOLE),
        lambda k: (
            f"`{column}` must be successes or a fraction of `trials`, got {scores[k]:g} of "
            f"{trials[k]:g} {where(k)}; correct the row"
        ),
    )
    _refuse_first(
        np.round(successes) > trials,
        lambda k: f"`{column}` is above `trials`: {scores[k]:g} of {trials[k]:g} {where(k)}",
    )
    return np.round(successes).astype(np.int64), trials.astype(np.int64)


def _are_fractions(scores: NDArray[np.float64], trials: NDArray[np.float64], column: str) -> bool:
    name = column.lower()
    if name in _COUNT_NAMES or name in _FRACTION_NAMES:
        return name in _FRACTION_NAMES
    whole = bool((scores == np.round(scores)).all())
    if whole and scores.max(initial=0) <= 1 and trials.max(initial=0) > 1:
        raise ResponseError(
            f"`{column}` holds only 0 and 1 though `trials` go up to {trials.max():g}, so it may "
            f"be counts or fractions; rename it `successes` or `fraction`"
        )
    return not whole


def _refuse_first(bad: NDArray[np.bool_], sentence: Callable[[int], str]) -> None:
    if bad.any():
        raise ResponseError(sentence(int(np.argmax(bad))))

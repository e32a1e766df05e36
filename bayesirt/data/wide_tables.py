"""Fast conversion of clean matrices of answers, without making a row for each cell."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesirt.data.cells import Cells, DenseCells, better_sparse, smallest_int, store_cells
from bayesirt.data.score_values import parse_numbers
from bayesirt.errors import ResponseError

_AT_ONCE = 1 << 20
"""Cells of a table that are held as objects at the same time."""
_MOST_TRIALS = np.iinfo(np.int32).max

_left_empty = np.frompyfunc(lambda value: isinstance(value, str) and value in ("", "NA"), 1, 1)


def clean_cells(successes: ArrayLike, trials: ArrayLike | None) -> Cells | None:
    """Return the cells of clean matrices, or None if any value needs a closer look."""
    try:
        answers, counts = np.asarray(successes), np.asarray(trials)
    except ValueError:  # rows of different lengths
        return None
    return cells_of_answers(answers) if trials is None else cells_of_counts(answers, counts)


def as_matrix(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a matrix of numbers."""
    try:
        matrix = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ResponseError(f"`{name}` must be a matrix of numbers") from None
    if matrix.ndim != 2:
        raise ResponseError(
            f"`{name}` must be a matrix of subjects x items, got {matrix.ndim} dimensions"
        )
    return matrix


def cells_of_answers(values: NDArray[Any], threshold: float | None = None) -> Cells | None:
    """Count a matrix of single answers, or return None if a cell is not an answer."""
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        return None
    seen = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    right = values == 1 if threshold is None else values >= threshold
    answers = right | (values == 0) if threshold is None else np.isfinite(values)
    if (answers != seen).any():
        return None
    return _in_layout(DenseCells(right.astype(np.int8), seen.astype(np.int8)))


def cells_of_counts(successes: NDArray[Any], trials: NDArray[Any]) -> Cells | None:
    """Return the cells of count matrices, or None if a count does not fit its number of trials."""
    kinds = successes.dtype.kind + trials.dtype.kind
    if trials.ndim != 2 or successes.shape != trials.shape or not set(kinds) <= set("biu"):
        return None
    most = trials.max(initial=0)
    if trials.min(initial=0) < 0 or most > _MOST_TRIALS:
        return None
    seen = trials > 0
    if (seen & ((successes < 0) | (successes > trials))).any():
        return None
    kind = smallest_int(int(most))
    return _in_layout(DenseCells(np.where(seen, successes, 0).astype(kind), trials.astype(kind)))


def cells_of_table(frame: pd.DataFrame, threshold: float | None = None) -> Cells | None:
    """Count a table of single answers of any type, or return None if a cell is not an answer."""
    if threshold is not None and not np.isfinite(threshold):
        return None
    if all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in frame.dtypes):
        return cells_of_answers(frame.to_numpy(), threshold)
    successes, trials = np.zeros((2, *frame.shape), np.int8)
    columns = max(1, _AT_ONCE // max(1, len(frame)))
    for start in range(0, frame.shape[1], columns):
        part = slice(start, start + columns)
        scores = _scores(frame.iloc[:, part].to_numpy(object))
        cells = None if scores is None else cells_of_answers(scores, threshold)
        if cells is None:
            return None
        successes[:, part], trials[:, part] = cells.matrices()
    return _in_layout(DenseCells(successes, trials))


def _scores(values: NDArray[np.object_]) -> NDArray[np.float64] | None:
    """Return scores as numbers, NaN for empty cells, or None if a score is not a number."""
    try:
        codes, distinct = pd.factorize(values.ravel())
    except TypeError:  # a value such as a list, which cannot be looked up
        return None
    empty = np.array([isinstance(v, str) and v in ("", "NA") for v in distinct], bool)
    numbers = np.full(len(distinct) + 1, np.nan)  # The last entry is for nulls, whose code is -1.
    try:
        given = pd.Series(distinct[~empty], dtype=object)
        numbers[:-1][~empty] = parse_numbers(given, "score", str)
    except ResponseError:
        return None
    return numbers[codes].reshape(values.shape)


def _in_layout(cells: DenseCells) -> Cells:
    few = better_sparse(cells.shape, cells.n_observed)
    return store_cells(cells.shape, *cells.listed()) if few else cells


def filled_cells(
    frame: pd.DataFrame,
) -> tuple[NDArray[np.intp], NDArray[np.intp], dict[str, pd.Series]]:
    """Return the positions of the cells that are not empty, and their scores."""
    values = frame.to_numpy(object)
    seen = ~(pd.isna(values) | _left_empty(values).astype(bool))
    subject, item = np.nonzero(seen)
    return subject, item, {"score": pd.Series(values[seen], dtype=object)}

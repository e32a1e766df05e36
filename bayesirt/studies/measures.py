"""Helpers of studies: printed figures, groups of rows, errors, correlations, resampling."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.data.responses import Responses

RESAMPLES = 2000
Floats = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]
Counts = NDArray[np.integer] | NDArray[np.float64]


def read_printed(name: str, separator: str = ",") -> pd.DataFrame:
    """Return a small table, such as figures that a paper prints; NaN where empty."""
    path = files("bayesirt.studies").joinpath(f"{name}.csv")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, sep=separator)


def read_notes(name: str) -> list[str]:
    """Return the notes on the figures of a study, one line each."""
    path = files("bayesirt.studies").joinpath(f"notes_{name}.txt")
    return path.read_text("utf-8").splitlines()


def groups_of(
    rows: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield groups in order of appearance, each with the values that its rows share."""
    for values, group in rows.groupby(list(by), sort=False):
        yield dict(zip(by, values, strict=True)), group


def ratio_se(part: Any, whole: Any) -> float:
    """Return the standard error of Σ part / Σ whole between independent suites."""
    n = np.count_nonzero(whole)
    if n < 2:
        return float("nan")
    residual = np.asarray(part - part.sum() / whole.sum() * whole)
    return float(np.sqrt(n / (n - 1) * (residual**2).sum()) / whole.sum())


def spearman(one: NDArray[np.floating], other: NDArray[np.floating]) -> Floats:
    """Return Spearman's ρ, perhaps of many rows; tied values share their mean rank."""
    x, y = (_unit(rankdata(values, axis=-1)) for values in (one, other))
    return y @ x


def _unit(values: Floats) -> Floats:
    centred = values - values.mean(-1, keepdims=True)
    norm = np.sqrt((centred**2).sum(-1, keepdims=True))
    return np.divide(centred, norm, out=np.full_like(centred, np.nan), where=norm > 0)


def log_losses(p: Floats, right: Counts, wrong: Counts) -> Floats:
    """Return the negative log probability of the answers of each cell."""
    losses = -right * np.log(np.maximum(p, np.finfo(float).tiny))
    return np.asarray(losses - wrong * np.log(np.maximum(1 - p, np.finfo(float).eps)))


def n_covered(
    true: NDArray[np.floating], low: NDArray[np.floating], high: NDArray[np.floating]
) -> float:
    """Return how many true values lie in their intervals."""
    return float(((low <= true) & (true <= high)).sum())


def resampled_sums(values: Floats, labels: NDArray[np.intp], rng: np.random.Generator) -> Floats:
    """Return sums of the rows of `values` over resampled groups, many times."""
    codes = np.unique(labels, return_inverse=True)[1]
    sums = np.zeros((codes.max() + 1, values.shape[1]))
    np.add.at(sums, codes, values)
    counts = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), RESAMPLES)
    return np.asarray(counts @ sums)


def with_answers(
    responses: Responses, subjects: NDArray[np.intp], items: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the subjects and items that have responses to each other."""
    seen = responses.cells.matrices()[1][np.ix_(subjects, items)] > 0
    return subjects[seen.any(1)], items[seen.any(0)]

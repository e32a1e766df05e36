"""Costs of the answers of each subject, which are shown with scores but not modelled."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.table_columns import parse_amounts
from bayesirt.errors import ResponseError
from bayesirt.names import one_line


def costs_of_rows(
    values: pd.Series, subject: NDArray[np.integer], subjects: Sequence[str]
) -> NDArray[np.float64]:
    """Return the mean cost of each subject's rows.

    >>> costs_of_rows(pd.Series([0.2, 0.4, None]), np.array([0, 0, 1]), ["x", "y"])
    array([0.3, nan])
    """

    def where(row: int) -> str:
        return f"at subject {one_line(subjects[subject[row]])!r}"

    title = one_line(str(values.name))
    costs = parse_amounts(values.reset_index(drop=True), title, where, "cost of an answer")
    given = ~np.isnan(costs)
    subject, costs = subject[given], costs[given]
    codes, first = np.unique(subject, return_index=True)
    start = np.full(len(subjects), np.nan)
    start[codes] = costs[first]
    # Differences from the first cost make the mean of equal costs exactly that cost.
    more = np.bincount(subject, costs - start[subject], len(subjects))
    n = np.bincount(subject, minlength=len(subjects))
    return start + more / np.maximum(n, 1)


def check_costs(costs: NDArray[np.float64], n_subjects: int) -> None:
    """Refuse costs whose number is wrong, or that are negative or infinite."""
    if costs.shape != (n_subjects,):
        raise ResponseError(
            f"there are {n_subjects} subjects, but costs have shape {costs.shape}; give one for "
            f"each, NaN where it is unknown"
        )
    values = costs[~np.isnan(costs)]
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ResponseError("a cost must be a finite, non-negative number or NaN")

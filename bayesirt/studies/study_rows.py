"""Rows of studies: what a paper prints, a log's rows in order, groups of rows and their errors."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd


def read_printed(name: str) -> pd.DataFrame:
    """Return a small table of figures that a paper prints; NaN where it prints nothing."""
    path = files("bayesirt.studies").joinpath(f"{name}.csv")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file)


def with_conditions(
    rows: pd.DataFrame,
    conditions: Sequence[Any],
    columns: dict[str, str],
    methods: Sequence[str] | None = None,
    *,
    replication: str = "replication",
) -> pd.DataFrame:
    """Return a log's rows, ordered, with what their conditions say in place of `condition`."""
    by = [rows["condition"], rows[replication]]
    if methods is not None:
        by.append(rows["method"].map(list(methods).index))
    order = pd.concat(by, axis=1).sort_values([key.name for key in by], kind="stable").index
    ordered = rows.loc[order].reset_index(drop=True)
    chosen = [conditions[int(k)] for k in ordered["condition"]]
    for place, (column, attribute) in enumerate(columns.items()):
        ordered.insert(place, column, [getattr(c, attribute) for c in chosen])
    return ordered.drop(columns="condition")


def groups_of(
    rows: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield groups in the order in which they appear, each with what its rows share."""
    for place, own in rows.groupby(list(by), sort=False):
        yield dict(zip(by, place, strict=True)), own


def ratio_se(part: "pd.Series[float]", whole: "pd.Series[float]") -> float:
    """Return the standard error of Σ part / Σ whole between independent suites."""
    n = len(part)
    if n < 2:
        return float("nan")
    residual = (part - part.sum() / whole.sum() * whole).to_numpy()
    return float(np.sqrt(n / (n - 1) * (residual**2).sum()) / whole.sum())

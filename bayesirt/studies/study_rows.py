"""Rows of studies: the figures that a paper prints, and a log's rows in order."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pandas as pd


def read_printed(name: str) -> pd.DataFrame:
    """Return a small table of figures that a paper prints.

    NaN where the paper prints nothing.
    """
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
    """Return a log's rows, ordered, with what their conditions say in front.

    Without `condition`.
    """
    by = [rows["condition"], rows[replication]]
    if methods is not None:
        by.append(rows["method"].map(list(methods).index))
    order = pd.concat(by, axis=1).sort_values([key.name for key in by], kind="stable").index
    ordered = rows.loc[order].reset_index(drop=True)
    chosen = [conditions[int(k)] for k in ordered["condition"]]
    for place, (column, attribute) in enumerate(columns.items()):
        ordered.insert(place, column, [getattr(c, attribute) for c in chosen])
    return ordered.drop(columns="condition")

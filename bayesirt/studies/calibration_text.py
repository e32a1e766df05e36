"""What the tables of a calibration study say, in words."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.calibration_tables import CALIBRATED, CELL, SLACK
from bayesirt.studies.replication import GROUPS, QUANTITIES

_LEAST_P = 1e-9


def verdicts_in_words(
    replications: pd.DataFrame, ranks: pd.DataFrame, coverage: pd.DataFrame
) -> list[str]:
    """Return one sentence on each engine and size."""
    return [
        f"{place[0]}, {place[1]} x {place[2]}, {len(runs)} replications: "
        + "; ".join(
            [
                *_by_ranks(_of_cell(ranks, place)),
                *_by_coverage(_of_cell(coverage, place)),
                *_trouble(runs),
            ]
        )
        + "."
        for place, runs in replications.groupby(CELL, sort=False)
    ]


def trust_in_words(trust: pd.DataFrame) -> list[str]:
    """Return one sentence on each engine: from which size on its intervals may be trusted."""
    return [
        f"{engine}: {LEVEL:.0%} intervals that surely cover {LEVEL - SLACK:.0%} or more: "
        + "; ".join(f"of {GROUPS[row.group]} {_where(row)}" for row in own.itertuples())
        + "."
        for engine, own in trust.groupby("engine", sort=False)
    ]


def ranks_in_words(rows: pd.DataFrame) -> str:
    """Return which quantities of one engine at one size are calibrated."""
    wrong = rows[rows["verdict"] != CALIBRATED]
    if not len(wrong):
        return f"ranks {CALIBRATED} in all {len(rows)} quantities"
    listed = ", ".join(
        f"{QUANTITIES[row.quantity]} {row.verdict} ({_p_in_words(row.p_value)})"
        for row in wrong.itertuples()
    )
    return f"ranks {CALIBRATED} in {len(rows) - len(wrong)} of {len(rows)} quantities, but {listed}"


def _p_in_words(p_value: float) -> str:
    return f"p {p_value:.1g}" if p_value >= _LEAST_P else f"p < {_LEAST_P:.0g}"


def _by_ranks(rows: pd.DataFrame) -> Iterator[str]:
    if not len(rows):
        return
    yield ranks_in_words(rows)
    dependent = rows[rows["dependent"] > 0]
    if len(dependent):
        yield (
            f"too few effective draws in up to {dependent['dependent'].max()} replications, for "
            f"{len(dependent)} quantities"
        )


def _by_coverage(rows: pd.DataFrame) -> Iterator[str]:
    if not len(rows):
        return
    listed = ", ".join(
        f"{row.coverage:.1%} of {GROUPS[row.group]}"
        + ("" if row.verdict == CALIBRATED else f" ({row.verdict})")
        for row in rows[rows["level"] == LEVEL].itertuples()
    )
    yield f"{LEVEL:.0%} intervals cover {listed}"


def _trouble(runs: pd.DataFrame) -> Iterator[str]:
    for trouble in ("failed", "warned"):
        said = runs.loc[runs[trouble] != "", trouble]
        if len(said):
            yield f"{trouble} in {len(said)}, first with: {said.iloc[0]}"


def _of_cell(table: pd.DataFrame, place: tuple[Any, ...]) -> pd.DataFrame:
    return table[(table[CELL] == list(place)).all(axis=1)] if len(table) else table


def _where(row: Any) -> str:
    if np.isnan(row.n_subjects):
        return "at none of the sizes"
    return f"from {row.n_subjects:.0f} x {row.n_items:.0f} on"

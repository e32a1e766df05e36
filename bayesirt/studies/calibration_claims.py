"""Claims of a calibration study."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.calibration_tables import CALIBRATED, CELL, SLACK
from bayesirt.studies.claims import Claim
from bayesirt.studies.replication import GROUPS, QUANTITIES
from bayesirt.studies.study_rows import groups_of

_TITLE = "{engine}, {n_subjects} x {n_items}"


def calibration_claims(
    replications: pd.DataFrame, ranks: pd.DataFrame, coverage: pd.DataFrame, trust: pd.DataFrame
) -> Iterator[Claim]:
    """Yield by engine and size which ranks and intervals are right, and from where on they are."""
    for place, runs in groups_of(replications, CELL):
        title = _TITLE.format(**place)
        yield Claim(f"{title}, replications", len(runs))
        yield from _on_ranks(title, _of_cell(ranks, place))
        rows = _of_cell(coverage, place)
        for row in rows[rows["level"] == LEVEL].itertuples() if len(rows) else ():
            text = f"{title}, coverage of {LEVEL:.0%} intervals of {GROUPS[row.group]}"
            yield Claim(text, row.coverage, row.se, verdict=row.verdict)
        for trouble in ("failed", "warned"):
            said = runs.loc[runs[trouble] != "", trouble]
            if len(said):
                verdict = f"first with: {said.iloc[0]}"
                yield Claim(f"{title}, replications that {trouble}", len(said), verdict=verdict)
    for row in trust.itertuples():
        where = trusted_from(row.n_subjects, row.n_items)
        text = f"{row.engine}, fewest answers with which {LEVEL:.0%} intervals of"
        text = f"{text} {GROUPS[row.group]} surely cover {LEVEL - SLACK:.0%} or more"
        yield Claim(text, row.n_subjects * row.n_items, verdict=where)


def _on_ranks(title: str, rows: pd.DataFrame) -> Iterator[Claim]:
    """Yield how many quantities of one engine at one size are calibrated, and which are not."""
    if not len(rows):
        return
    wrong = rows[rows["verdict"] != CALIBRATED]
    text = f"{title}, quantities of {len(rows)} whose ranks are {CALIBRATED}"
    yield Claim(text, len(rows) - len(wrong))
    for row in wrong.itertuples():
        text = f"{title}, p of the ranks of the {QUANTITIES[row.quantity]}"
        yield Claim(text, row.p_value, verdict=row.verdict)
    dependent = rows[rows["dependent"] > 0]["dependent"]
    if len(dependent):
        text = f"{title}, most replications with too few effective draws"
        yield Claim(text, dependent.max(), verdict=f"for {len(dependent)} quantities")


def calibration_notes(false_alarm: float) -> Iterator[str]:
    """Yield what a verdict means."""
    yield (
        f"'{CALIBRATED}' means that these replications show no departure; of studies of right "
        f"engines, {false_alarm:.2g} show one by ranks and as many by coverage."
    )


def trusted_from(n_subjects: float, n_items: float) -> str:
    """Say from which size on intervals may be trusted."""
    if np.isnan(n_subjects):
        return "at none of the sizes"
    return f"from {n_subjects:.0f} x {n_items:.0f} on"


def _of_cell(table: pd.DataFrame, place: dict[str, object]) -> pd.DataFrame:
    return table[(table[CELL] == pd.Series(place)).all(axis=1)] if len(table) else table

"""Corrections that people made on a review sheet, and the error rate of all items."""

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import beta

from bayesirt.data.readers.tables import read_table
from bayesirt.data.table_columns import check_columns
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, one_line
from bayesirt.profiles.annotation.annotation import Annotation
from bayesirt.profiles.annotation.review_sheet import (
    ABILITIES,
    ITEM,
    OK,
    VERDICT,
    escaped,
    split_names,
    unescaped,
)


@dataclass(frozen=True, eq=False, repr=False)
class Corrections:
    """An annotation that people corrected, and its error rate."""

    annotation: Annotation  # Annotation with the abilities of corrected items replaced.
    # One row per checked item: item, wrong, and the abilities added and removed as tuples.
    summary: pd.DataFrame
    prob: float = 0.9  # Probability of the interval.

    def __repr__(self) -> str:
        return f"<Corrections: {self.to_text()}>"

    @property
    def n_checked(self) -> int:
        """Number of items that people checked."""
        return len(self.summary)

    @property
    def n_wrong(self) -> int:
        """Number of items whose abilities they changed."""
        return int(self.summary["wrong"].sum())

    @property
    def error_rate(self) -> float:
        """Share of the checked items that were wrong."""
        return self.n_wrong / self.n_checked

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the share of wrong items among all items that the sheet was drawn from.

        Quantiles of Beta(½ + wrong, ½ + right), the posterior under Jeffreys' prior; the lower end
        is 0 if no item was wrong, the upper end 1 if every item was. It assumes a large population
        of items, and so is slightly wide if a large share of all was checked.
        """
        wrong, right, tail = self.n_wrong, self.n_checked - self.n_wrong, (1 - self.prob) / 2
        low, high = beta.ppf([tail, 1 - tail], wrong + 0.5, right + 0.5)
        return (float(low) if wrong else 0.0), (float(high) if right else 1.0)

    def to_text(self) -> str:
        """Return the error rate of the annotation in words."""
        low, high = self.interval
        return (
            f"{self.n_wrong} of {self.n_checked} checked items were wrong "
            f"({self.error_rate:.1%}, {self.prob:.0%} interval {low:.1%} to {high:.1%}): "
            f"{self.summary['added'].map(len).sum()} abilities added, "
            f"{self.summary['removed'].map(len).sum()} removed."
        )


def read_corrections(path: str | Path, annotation: Annotation, *, prob: float = 0.9) -> Corrections:
    """Read a sheet that `spot_check` wrote and people filled in.

    Parameters
    ----------
    path : str or Path
        The sheet, saved as CSV. In each row the last column holds ``ok``, or all abilities that
        the item needs. Rows may be deleted, but not depending on their content.
    annotation : Annotation
        The annotation that the sheet was made from.
    prob : float
        Probability of the interval of the error rate.

    Returns
    -------
    Corrections

    Raises
    ------
    ResponseError
        At the first row that is not filled in, names something unknown, or does not fit the
        annotation.
    """
    if not 0 < prob < 1:
        raise ResponseError(f"`prob` must lie between 0 and 1, got {prob}")
    sheet = read_table(Path(path))
    check_columns(sheet, [ITEM, ABILITIES, VERDICT])
    items = _known_items(sheet[ITEM], annotation)
    right = {
        item: _right_abilities(item, str(shown), str(verdict), annotation)
        for item, shown, verdict in zip(items, sheet[ABILITIES], sheet[VERDICT], strict=True)
    }
    rows = [_compare(item, annotation.needs[item], needs) for item, needs in right.items()]
    corrected = replace(annotation, needs={**annotation.needs, **right})
    return Corrections(corrected, pd.DataFrame(rows), prob)


def _known_items(cells: "pd.Series[str]", annotation: Annotation) -> list[str]:
    name_of = {name: name for name in annotation.needs}
    name_of |= {escaped(name): name for name in annotation.needs}
    unknown = [str(cell) for cell in cells if cell not in name_of]
    if unknown:
        raise ResponseError(
            f"the sheet has an item {one_line(unknown[0])!r} that the annotation does not have; "
            f"name the annotation it was made from, and keep its names as text"
        )
    items = [name_of[str(cell)] for cell in cells]
    check_names(items, "item")
    return items


def _right_abilities(
    item: str, shown: str, verdict: str, annotation: Annotation
) -> tuple[str, ...]:
    """Return the abilities that an item needs according to people, in the annotation's order."""
    where = f"of item {one_line(item)!r}"
    needs = annotation.needs[item]
    if set(_names_in(shown, annotation.abilities, f"column {ABILITIES!r} {where}")) != set(needs):
        raise ResponseError(
            f"the abilities {where} are not those of the annotation; write corrections into the "
            f"column {VERDICT!r}, or name the annotation that the sheet was made from"
        )
    if verdict.strip().casefold() == OK:
        return needs
    named = _names_in(verdict, annotation.abilities, f"column {VERDICT!r} {where}")
    return tuple(ability for ability in annotation.abilities if ability in named)


def _names_in(cell: str, abilities: Mapping[str, str], where: str) -> set[str]:
    if not cell.strip():
        raise ResponseError(
            f"{where} is empty; write ok if the abilities are right, or else list the right ones"
        )
    readings = [_look_up(text, abilities) for text in (unescaped(cell), cell)]
    names = next((names for names in readings if None not in names), None)
    if names is None:
        raise ResponseError(
            f"{where} holds {one_line(cell, 80)!r}, which is not a list of known abilities; write "
            f"their exact names, separated by ;"
        )
    return {name for name in names if name is not None}


def _look_up(cell: str, abilities: Mapping[str, str]) -> Collection[str | None]:
    """Return the abilities that a cell names, with None for unknown names."""
    stripped = {name.strip(): name for name in abilities}
    try:
        names = split_names(cell)
    except csv.Error:
        return [None]
    return [name if name in abilities else stripped.get(name.strip()) for name in names] or [None]


def _compare(item: str, given: Collection[str], right: Collection[str]) -> dict[str, Any]:
    added = tuple(name for name in right if name not in given)
    removed = tuple(name for name in given if name not in right)
    return {"item": item, "wrong": bool(added or removed), "added": added, "removed": removed}

"""Claims of a study: what a paper prints, what we get, and whether they differ."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

_ERRORS = 2.0  # Standard errors within which two figures agree, or a stated coverage holds.


class Claim(NamedTuple):
    """One figure."""

    claim: str
    here: float
    error: float = np.nan  # Standard error of ours.
    paper: float = np.nan
    verdict: str = ""


def beside(
    claim: str, here: float, error: float, paper: float, paper_error: float, rounding: float = 0.0
) -> Claim:
    """Return a figure beside the paper's: they agree within two standard errors and rounding."""
    apart, limit = abs(here - paper), _ERRORS * np.hypot(error, paper_error) + rounding
    verdict = "" if np.isnan(apart + limit) else "agrees" if apart <= limit else "differs"
    return Claim(claim, here, error, paper, verdict)


def at_least(claim: str, here: float, error: float, stated: float) -> Claim:
    """Return a coverage, and whether intervals hold as often as they say."""
    verdict = "holds" if here >= stated - _ERRORS * np.nan_to_num(error) else "does not hold"
    return Claim(claim, here, error, verdict=verdict)


def against_zero(claim: str, here: float, error: float) -> Claim:
    """Return a difference, and whether it is more than two standard errors."""
    reach = _ERRORS * error
    return Claim(claim, here, error, verdict=sign_of(here - reach, here + reach))


def spanning(claim: str, row: Any, value: str = "value", paper: float = np.nan) -> Claim:
    """Return a row's figure and, as its verdict, the bounds `low` and `high` of its interval."""
    return Claim(claim, float(row[value]), paper=paper, verdict=_bounds(row["low"], row["high"]))


def ranging(claim: str, values: "pd.Series[float]") -> Claim:
    """Return the least of some figures and, as its verdict, the largest."""
    low, high = float(values.min()), float(values.max())
    return Claim(claim, low, verdict="" if np.isclose(low, high) else f"up to {high:.4g}")


def difference(claim: str, here: float, low: float, high: float) -> Claim:
    """Return a difference, the bounds of its interval, and whether that holds 0."""
    return Claim(claim, here, verdict=f"{_bounds(low, high)}: {sign_of(low, high)}")


def figures_of(
    title: str, row: Any, words: Mapping[str, str], papers: Mapping[str, float] | None = None
) -> Iterator[Claim]:
    """Yield a row's figures by column, with their standard errors where it has these (`_se`)."""
    for column, text in words.items():
        error = row.get(f"{column}_se", np.nan)
        yield Claim(
            f"{title}, {text}", float(row[column]), error, (papers or {}).get(column, np.nan)
        )


def rows_of(
    table: pd.DataFrame, title: str, words: Mapping[str, str], **names: Mapping[Any, str]
) -> Iterator[Claim]:
    """Yield the figures of every row, under a title that its columns fill in, some by `names`."""
    for row in table.to_dict("records"):
        shown = row | {column: of[row[column]] for column, of in names.items()}
        yield from figures_of(title.format(**shown), row, words)


def claim_table(claims: Iterable[Claim]) -> pd.DataFrame:
    """Return one row a claim."""
    return pd.DataFrame(list(claims), columns=list(Claim._fields))


def in_words(claims: pd.DataFrame, notes: Iterable[str] = ()) -> list[str]:
    """Return one line a claim and a note."""
    return [
        *(_line(*row) for row in claims.itertuples(index=False)),
        *(f"Note: {n}" for n in notes),
    ]


def _line(claim: str, here: float, error: float, paper: float, verdict: str) -> str:
    found = "none" if np.isnan(here) else _number(here)
    found += "" if np.isnan(error) else f" ± {error:.3g}"
    found += "" if np.isnan(paper) else f" (paper {paper:g})"
    return f"{claim}: {found}" + (f"; {verdict}" if verdict else "")


def _number(value: float) -> str:
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _bounds(low: float, high: float) -> str:
    return f"{low:.4g} to {high:.4g}"


def sign_of(low: float, high: float) -> str:
    """Say whether an interval lies above 0, below it, or around it."""
    return "above 0" if low > 0 else "below 0" if high < 0 else "not told from 0"

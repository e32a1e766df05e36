"""Claims of a study: what a paper prints, what we get, and whether they differ."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

_ERRORS = 2.0
"""Standard errors within which two figures agree, or a stated coverage holds."""


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
    found = "none" if np.isnan(here) else f"{here:.4g}"
    found += "" if np.isnan(error) else f" ± {error:.2g}"
    found += "" if np.isnan(paper) else f" (paper {paper:.4g})"
    return f"{claim}: {found}" + (f"; {verdict}" if verdict else "")

"""Claims of a study: what a paper prints, what we get, and whether they differ.

A file `claims_x.csv` defines the claims of study x: one line per figure, which is reported for
every row of a table. `table`, `where` and `title` hold until the next line that names a table; the
lines of one table are reported together, row by row. Braces in texts are filled from the row:
`{method}` as logged, `{method_name}` in words. `here`, `error` and `paper` are columns or
expressions of columns; the default error is the `_se` column of `here`, if there is one. A
`verdict` is a rule (see `_ruled`), perhaps with the column that it needs in brackets, or a text; of
several texts (`one if x > 0 | other`) the first whose condition the row meets is used.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.measures import read_printed

_ERRORS = 2.0  # Standard errors within which two figures agree, or a nominal coverage holds.
_ROUNDING = 5e-4  # Rounding error of printed figures.
_HOLDS_ON = ["table", "where", "title"]


class Claim(NamedTuple):
    """One figure."""

    claim: str
    here: float
    error: float = np.nan  # Standard error of ours.
    paper: float = np.nan
    verdict: str = ""


def agreement(claim: Claim, paper_error: float) -> str:
    """Say whether a figure agrees with the paper's, within two standard errors and rounding."""
    limit = _ERRORS * np.hypot(claim.error, paper_error) + _ROUNDING
    gap = abs(claim.here - claim.paper)
    return "" if np.isnan(gap + limit) else "agrees" if gap <= limit else "differs"


def holding(claim: Claim) -> str:
    """Say whether intervals have nominal coverage, within two standard errors."""
    enough = claim.here >= LEVEL - _ERRORS * np.nan_to_num(claim.error)
    return "holds" if enough else "does not hold"


def sign_of(low: float, high: float) -> str:
    """Say whether an interval lies above 0, below it, or around it."""
    return "above 0" if low > 0 else "below 0" if high < 0 else "not told from 0"


def claims_from(
    study: str,
    tables: Mapping[str, pd.DataFrame],
    names: Mapping[str, Mapping[Any, str]] | None = None,
) -> Iterator[Claim]:
    """Yield the claims of a study on its tables; `names` are words for the values of columns."""
    lines = read_printed(f"claims_{study}", ";").astype(object)
    begins = lines["table"].notna()
    lines.loc[begins, _HOLDS_ON] = lines.loc[begins, _HOLDS_ON].fillna("")
    lines = lines.assign(**lines[_HOLDS_ON].ffill()).fillna("")
    for _, group in lines.groupby(begins.cumsum()):
        table = tables[group["table"].iloc[0]]
        if len(table):
            words = {f"{c}_name": table[c].map(of) for c, of in (names or {}).items() if c in table}
            yield from _of_table(table.assign(**words, LEVEL=f"{LEVEL:.0%}"), group)


def _of_table(table: pd.DataFrame, lines: pd.DataFrame) -> Iterator[Claim]:
    """Yield the figures of a table row by row, and line by line within a row."""
    entries = [(line, *_figures(table, line)) for line in lines.itertuples()]
    for k, row in enumerate(table.to_dict("records")):
        for line, shown, *figures in entries:
            if shown.iloc[k]:
                text = ", ".join(filter(None, (line.title, line.claim))).format(**row)
                here, error, paper = (float(values.iloc[k]) for values in figures)
                claim = Claim(text, here, error, paper)
                yield claim._replace(verdict=_verdict(line.verdict, claim, row))


def _figures(table: pd.DataFrame, line: Any) -> "list[pd.Series[Any]]":
    """Return which rows a line applies to, and its figures: here, error and paper."""
    error = line.error or (f"{line.here}_se" if f"{line.here}_se" in table else "")
    return [_column(table, text) for text in (line.where or "True", line.here, error, line.paper)]


def _column(table: pd.DataFrame, text: str) -> "pd.Series[Any]":
    """Return a column, or the value of an expression of columns; NaN without either."""
    values = table[text] if text in table else table.eval(text, engine="python") if text else np.nan
    return values if isinstance(values, pd.Series) else pd.Series(values, table.index)


def _verdict(verdict: str, claim: Claim, row: Mapping[str, Any]) -> str:
    """Return the result of a rule on a figure, with any text after it, or a text alone."""
    rule, comma, text = verdict.partition(", ")
    result = _ruled(rule, claim, row)
    if result is not None:
        return result + comma + text.format(**row)
    for choice in verdict.split(" | "):
        result, _, condition = choice.partition(" if ")
        if not condition or pd.DataFrame([row]).eval(condition, engine="python").all():
            return result.format(**row)
    return ""


def _ruled(rule: str, claim: Claim, row: Mapping[str, Any]) -> str | None:
    name, _, column = rule.removesuffix(")").partition("(")
    match name:
        case "agrees":
            return agreement(claim, row[column])
        case "holds":
            return holding(claim)
        case "sign":  # Of a difference, within two standard errors.
            reach = _ERRORS * claim.error
            return sign_of(claim.here - reach, claim.here + reach)
        case "bounds":  # Of the interval.
            return f"{row['low']:.4g} to {row['high']:.4g}"
        case "gain":
            return f"{row['low']:.4g} to {row['high']:.4g}: {sign_of(row['low'], row['high'])}"
        case "up_to":  # The largest of a range whose least value is the figure.
            return "" if np.isclose(claim.here, row[column]) else f"up to {row[column]:.4g}"
    return None


def claim_table(claims: Iterable[Claim]) -> pd.DataFrame:
    """Return one row per claim."""
    return pd.DataFrame(list(claims), columns=list(Claim._fields))


def in_words(claims: pd.DataFrame, notes: Iterable[str] = ()) -> list[str]:
    """Return one line per claim and per note."""
    return [
        *(_line(*row) for row in claims.itertuples(index=False)),
        *(f"Note: {n}" for n in notes),
    ]


def _line(claim: str, here: float, error: float, paper: float, verdict: str) -> str:
    figure = "none" if np.isnan(here) else _number(here)
    figure += "" if np.isnan(error) else f" ± {error:.3g}"
    figure += "" if np.isnan(paper) else f" (paper {paper:g})"
    return f"{claim}: {figure}" + (f"; {verdict}" if verdict else "")


def _number(value: float) -> str:
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"

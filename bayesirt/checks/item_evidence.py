"""Evidence on each item: probabilities of what may be wrong, and a description in words."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.checks.duplicate_items import agreement, identical_items
from bayesirt.checks.fit.cell_residuals import Draw, thinned
from bayesirt.checks.fit.item_pairs import LocalDependence
from bayesirt.names import in_percent, one_line
from bayesirt.posterior import Posterior

SATURATED = 0.98
"""Expected proportion correct from which, or from 1 minus which, an item is saturated."""
NEARLY_THE_SAME = 0.5
"""Residual correlation from which two dependent items are called near-duplicates."""

_MOST_DRAWS, _CELL_DRAWS = 200, 100_000_000


def saturation_probability(posterior: Posterior) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probability that each item is saturated, and its expected proportion correct."""
    most = min(_MOST_DRAWS, _CELL_DRAWS / posterior.trials.size)
    shares = np.asarray(_expected_shares(posterior.link, thinned(posterior, most)), np.float64)
    return (np.abs(shares - 0.5) >= SATURATED - 0.5).mean(0), shares.mean(0)


@partial(jax.jit, static_argnums=0)
def _expected_shares(link: str, draws: Draw) -> Float[Array, "draw item"]:
    def of_draw(draw: Draw) -> Array:
        return draw.answers(link).probability(draw.theta[:, None] * draw.a + draw.d).mean(0)

    return jax.lax.map(of_draw, draws)


def duplicate_columns(posterior: Posterior, *, q: float) -> pd.DataFrame:
    """Find items with identical answers that chance does not explain.

    One row per item: `duplicate_of` (the first item with the same answers, else ""), `p_chance`
    (the probability that two items with these parameters would agree in every cell) and
    `duplicated` (`p_chance` times the number of pairs is at most q).
    """
    n_items = len(posterior.items)
    first = identical_items(posterior.successes, posterior.trials)
    again = np.flatnonzero(first != np.arange(n_items))
    names = np.asarray(posterior.items, object)
    originals, p = np.full(n_items, "", object), np.full(n_items, np.nan)
    if len(again):
        originals[again] = names[first[again]]
        p[again] = np.exp(agreement(posterior, first[again], again).log_all)
    duplicated = p * (n_items * (n_items - 1) / 2) <= q
    return pd.DataFrame({"duplicate_of": originals, "p_chance": p, "duplicated": duplicated})


def near_duplicates(posterior: Posterior, dependence: LocalDependence | None) -> pd.DataFrame:
    """Find the item whose answers correlate with each item's far beyond what ability explains.

    One row per item: `near_duplicate_of` (else ""), `q3`, and the observed and expected shares of
    subjects that answer both alike, `agree` and `agree_expected`.
    """
    n_items = len(posterior.items)
    table = pd.DataFrame(
        {
            "near_duplicate_of": np.full(n_items, "", object),
            **{name: np.full(n_items, np.nan) for name in ("q3", "agree", "agree_expected")},
        }
    )
    if dependence is None:
        return table
    pairs = dependence.pairs
    near = pairs[pairs["dependent"] & (pairs["q3"] >= NEARLY_THE_SAME)]
    if near.empty:
        return table
    turned = near.rename(columns={"item_1": "item_2", "item_2": "item_1"})
    both = pd.concat([near, turned]).sort_values("q3", ascending=False, kind="stable")
    best = both.drop_duplicates("item_1")
    index = pd.Index(posterior.items)
    one, other = (index.get_indexer(best[name]) for name in ("item_1", "item_2"))
    agreements = agreement(posterior, one, other)
    columns = best["item_2"], best["q3"], agreements.observed, agreements.share
    for name, values in zip(table.columns, columns, strict=True):
        table.loc[one, name] = np.asarray(values)
    return table


def in_words(table: pd.DataFrame, a_min: float, *, binary: bool = True) -> list[str]:
    """Return the evidence on each item in words, readable without the table."""
    return [_of_item(row, a_min, binary) for row in table.to_dict("records")]


def _of_item(row: dict[str, Any], a_min: float, binary: bool) -> str:
    has_quarters = row["best_quarter"] == row["best_quarter"]
    right, of, got = ("right for", "of", " got it right,")
    if not binary:
        right, of, got = "mean score", "of the full score in", ","
    parts = [f"asked of {row['n_subjects']:,} subjects, {right} {row['accuracy']:.0%}"]
    if has_quarters:
        parts = [
            f"asked of {row['n_subjects']:,} subjects: {row['best_quarter']:.0%} {of} the top "
            f"quarter (ranked on the other items){got} {row['weakest_quarter']:.0%} {of} the "
            f"bottom quarter"
        ]
    if row["flipped"]:
        parts.append(
            f"better subjects do worse on it with probability {in_percent(row['p_negative'])}"
        )
    if row["miskeyed"]:
        parts.append(
            f"correlation with the other items {row['rest_correlation']:+.2f} "
            f"(p = {row['p_rest']:.2g})"
        )
    if row["redundant"]:
        parts.append(f"|a| below {a_min:g} with probability {in_percent(row['p_nil'])}")
    if row["saturated"]:
        parts.append(
            f"{row['expected']:.1%} of subjects are expected to get it right"
            if binary
            else f"the expected score is {row['expected']:.1%} of the full score"
        )
    parts += _of_grades(row)
    if row["duplicated"]:
        other = one_line(str(row["duplicate_of"]))
        parts.append(f"every answer matches the one to {other} (by chance: {row['p_chance']:.1g})")
    elif row["near_duplicate_of"]:
        other = one_line(str(row["near_duplicate_of"]))
        parts.append(
            f"correlates with {other} far beyond what ability explains (Q3 {row['q3']:.2f})"
        )
        if row["agree"] == row["agree"]:
            parts[-1] = (
                f"{row['agree']:.0%} of answers match those to {other}, "
                f"{row['agree_expected']:.0%} expected"
            )
    return "; ".join(parts)


def _of_grades(row: dict[str, Any]) -> list[str]:
    """Return the unused and merged grades of an item that is listed for them."""
    parts = []
    if row.get("unused"):
        grades = str(row["never_given"]).replace(", ", " or ")
        parts.append(f"never graded {grades} (by chance: {row['p_unused']:.1g})")
    if row.get("merged"):
        grades = str(row["merged_grades"]).replace(", ", " or ")
        surely = in_percent(row["p_merged"])
        parts.append(f"at no ability is grade {grades} the most probable (probability {surely})")
    return parts

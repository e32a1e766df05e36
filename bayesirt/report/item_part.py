"""The report's section on items: curves of a few, and a list for their authors."""

from typing import Any

import pandas as pd

from bayesirt.checks.grade_review import is_graded
from bayesirt.checks.item_review import ItemReview, review_items
from bayesirt.names import counted, in_percent, one_line
from bayesirt.ranking.finished_run import Run
from bayesirt.report.page import svg
from bayesirt.report.ranking_plots import plot_item_curves

MOST_LISTED = 1_000
"""Rows shown in a table of items; the run's own tables hold all of them."""
_MOST_REVIEWED, _OF_EACH, _IF_NONE = 5, 2, 3
_TO_ACT_ON = ("flipped", "miskeyed", "duplicated", "near_duplicate")
_CALLED = {
    "flipped": "flipped",
    "miskeyed": "mis-keyed",
    "duplicated": "copy",
    "near_duplicate": "near-copy",
    "saturated": "saturated",
    "redundant": "redundant",
    "unused": "grade never used",
    "merged": "grade nowhere probable",
}


def items_to_look_at(run: Run) -> dict[str, Any]:
    """Return the report's section on the review of a run's items.

    `text` is the review in words; `note` a sentence on items that need action, or empty; `rows`
    the rows of the table, and `listed` the number of items; `curves` a figure; `near` whether
    near-copies were looked for, as a fit check does; `graded` whether answers are grades.
    """
    dependence = None if run.fit is None else run.fit.dependence
    review = review_items(run.posterior, dependence=dependence)
    chosen = chosen_items(review, run.items)
    figure = plot_item_curves(run.posterior, list(chosen), notes=list(chosen.values()))
    return {
        "text": review.to_text(),
        "note": _note(review),
        "rows": [_row(row) for row in review.listed.head(MOST_LISTED).to_dict("records")],
        "listed": len(review.listed),
        "curves": svg(figure, "Proportion correct by ability for a few items"),
        "near": dependence is not None,
        "graded": is_graded(review.answers),
    }


def chosen_items(review: ItemReview, items: pd.DataFrame) -> dict[str, str]:
    """Return the items whose curves are drawn, each with its reason.

    These are the two steepest and the two hardest items without complaints (three of each if no
    item is listed), and up to five listed ones, taken from the top of each list in turn.
    """
    table = review.summary
    flagged = items.loc[items["flag"] != "", "item"]
    plain = table[(table["reasons"] == "") & ~table["item"].isin(flagged)]
    plain = table if plain.empty else plain
    most = _IF_NONE if review.listed.empty else _OF_EACH
    chosen = dict.fromkeys(plain.nlargest(most, "a")["item"], "among the steepest")
    for name in plain.nsmallest(most, "expected")["item"]:
        chosen.setdefault(name, "among the hardest")
    lists = {reason: getattr(review, reason) for reason in _CALLED}
    in_turn = sorted(
        (position, order, name, reason)
        for order, (reason, names) in enumerate(lists.items())
        for position, name in enumerate(names[:_MOST_REVIEWED])
    )
    listed: dict[str, str] = {}
    for _, _, name, reason in in_turn:
        if len(listed) < _MOST_REVIEWED:
            listed.setdefault(name, _CALLED[reason])
    return chosen | listed


def _row(row: dict[str, Any]) -> dict[str, str]:
    """Return a listed item's row: its lists, how certain they are, and the evidence."""
    sure = {
        "flipped": lambda: in_percent(row["p_negative"]),
        "miskeyed": lambda: f"p = {row['p_rest']:.1g}",
        "duplicated": lambda: f"by chance {row['p_chance']:.0e}",
        "near_duplicate": lambda: f"Q3 {row['q3']:+.2f}",
        "saturated": lambda: in_percent(row["p_saturated"]),
        "redundant": lambda: in_percent(row["p_nil"]),
        "unused": lambda: f"by chance {row['p_unused']:.0e}",
        "merged": lambda: in_percent(row["p_merged"]),
    }
    reasons = [reason for reason in _CALLED if row.get(reason)]
    return {
        "item": row["item"],
        "reasons": ", ".join(_CALLED[reason] for reason in reasons),
        "sure": ", ".join(sure[reason]() for reason in reasons),
        "evidence": row["evidence"],
    }


def _note(review: ItemReview) -> str:
    """Return a sentence on how many items need action, or an empty string."""
    keys = set(review.flipped) | set(review.miskeyed)
    copies = set(review.duplicated) | set(review.near_duplicate)
    if not keys | copies:
        return ""
    wrong = "may have a wrong key" if review.answers is None else "may be graded the wrong way"
    counts = [
        f"{counted(len(names), 'item')} {fault}"
        for names, fault in ((keys, wrong), (copies, "may be copied"))
        if names
    ]
    first = one_line(next(n for r in _TO_ACT_ON for n in getattr(review, r)), 60)
    items = counted(len(review.summary), "item")
    return f"Of {items}, {' and '.join(counts)}, {first} first: see the items to look at."

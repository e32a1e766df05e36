"""What the report says of single items: curves of a few, and those to hand to their authors."""

from typing import Any

import pandas as pd

from bayesirt.checks.grade_review import is_graded
from bayesirt.checks.item_review import ItemReview, review_items
from bayesirt.names import counted, in_percent, one_line
from bayesirt.ranking.finished_run import Run
from bayesirt.report.page import svg
from bayesirt.report.ranking_plots import plot_item_curves

MOST_LISTED = 1_000
"""Rows of a table of items: the page stays small, and all are in the run's own tables."""
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
    """Return what a report shows of the review of a run's items.

    `text`, the review in words, and `note`, a sentence on items that need somebody to act, or
    nothing; `rows` of a table and how many are `listed`; `curves`, a figure; `near`, whether
    near-copies were sought, which a check of fit does; `graded`, whether answers are grades.
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
        "curves": svg(figure, "Proportion correct by ability, of a few items"),
        "near": dependence is not None,
        "graded": is_graded(review.answers),
    }


def chosen_items(review: ItemReview, items: pd.DataFrame) -> dict[str, str]:
    """Return the items whose curves are worth a look, with the reason of each.

    The two steepest and the two hardest that nothing is held against (three of each where nothing
    is listed), and up to five that are listed, of each list the first before the second of any.
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
        (place, order, name, reason)
        for order, (reason, names) in enumerate(lists.items())
        for place, name in enumerate(names[:_MOST_REVIEWED])
    )
    listed: dict[str, str] = {}
    for _, _, name, reason in in_turn:
        if len(listed) < _MOST_REVIEWED:
            listed.setdefault(name, _CALLED[reason])
    return chosen | listed


def _row(row: dict[str, Any]) -> dict[str, str]:
    """Return an item that is listed: as what, how surely, and on what evidence."""
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
    """Say in a sentence how many items need somebody to act."""
    keys = set(review.flipped) | set(review.miskeyed)
    copies = set(review.duplicated) | set(review.near_duplicate)
    if not keys | copies:
        return ""
    wrong = "may have a wrong key" if review.answers is None else "may be graded the wrong way"
    said = [
        f"{counted(len(names), 'item')} {what}"
        for names, what in ((keys, wrong), (copies, "may be copied"))
        if names
    ]
    first = one_line(next(n for r in _TO_ACT_ON for n in getattr(review, r)), 60)
    of = counted(len(review.summary), "item")
    return f"Of {of}, {' and '.join(said)}, {first} first: see the items to look at."

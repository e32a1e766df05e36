"""The report of an item bank."""

from typing import Any

import pandas as pd

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.review import BankReview
from bayesirt.bank.step import BankStep
from bayesirt.names import one_line
from bayesirt.report.bank_plots import (
    MOST_BENCHMARKS,
    MOST_SCORED,
    last_scores,
    plot_bank_items,
    plot_score_history,
)
from bayesirt.report.page import render_page, svg

_MOST_ALARMS = 12
_MOST_ANCHORS = 50
_MOST_SCORES = 2_000
"""Rows of the table of scores: a browser takes that many without a thought."""


def render_bank_report(bank: ItemBank, review: BankReview) -> str:
    """Return the report of an item bank and its review, a whole HTML document."""
    scores = last_scores(bank)
    tested = review.anchors[review.anchors["n_recent"] > 0]
    return render_page(
        "bank.html.j2",
        bank=bank,
        review=review,
        alarms=review.alarms[:_MOST_ALARMS],
        benchmarks=review.benchmarks.to_dict("records"),
        n_drawn=min(len(bank.benchmark_names), MOST_BENCHMARKS),
        item_map=svg(plot_bank_items(bank), "Items of each benchmark, with anchors marked"),
        n_scored=scores["subject"].nunique(),
        most_scored=MOST_SCORED,
        history="" if scores.empty else svg(plot_score_history(bank), "Scores that were given"),
        scores=scores.iloc[::-1].head(_MOST_SCORES).to_dict("records"),
        n_scores=len(scores),
        anchors=tested.head(_MOST_ANCHORS).to_dict("records"),
        n_tested=len(tested),
        steps=[_step(name, step) for name, step in zip(bank.step_names, bank.steps, strict=True)],
    )


def _step(name: str, step: BankStep) -> dict[str, Any]:
    """Return what a step brought, in words."""
    if step.items is not None:
        names = step.items.benchmark_names
        brought = f"{len(step.items.benchmarks):,} items of {_listed(names)}"
    else:
        subjects = pd.unique(_scored(step)["subject"])
        brought = f"scores of {_listed(tuple(map(str, subjects)))}"
    return {"name": name, "brought": brought, "source": step.source.get("name", "memory")}


def _scored(step: BankStep) -> pd.DataFrame:
    assert step.scores is not None
    return step.scores


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(name, 40) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5:,} more"

"""The report of an item bank."""

from collections.abc import Iterable
from typing import Any

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.review import BankReview
from bayesirt.bank.step import BankStep
from bayesirt.names import first_few, one_line
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
"""Most rows in the table of scores; a browser handles that many easily."""


def render_bank_report(bank: ItemBank, review: BankReview) -> str:
    """Render the report of an item bank and its review as a complete HTML document."""
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
        history="" if scores.empty else svg(plot_score_history(bank), "Scores so far"),
        scores=scores.iloc[::-1].head(_MOST_SCORES).to_dict("records"),
        n_scores=len(scores),
        anchors=tested.head(_MOST_ANCHORS).to_dict("records"),
        n_tested=len(tested),
        steps=[_step(name, step) for name, step in zip(bank.step_names, bank.steps, strict=True)],
    )


def _step(name: str, step: BankStep) -> dict[str, Any]:
    """Return what a step added, in words."""
    if step.items is not None:
        n_items = len(step.items.benchmarks)
        brought = f"{n_items:,} items of {_listed(step.items.benchmark_names)}"
    else:
        assert step.scores is not None
        brought = f"scores of {_listed(step.scores['subject'].unique())}"
    return {"name": name, "brought": brought, "source": step.source.get("name", "memory")}


def _listed(names: Iterable[str]) -> str:
    return first_few([one_line(name, 40) for name in names], 5)

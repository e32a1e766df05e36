"""Output of the item bank commands. Names are printed as text, never as markup."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich.text import Text

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.next_anchors import NextAnchors
from bayesirt.bank.review import BankReview
from bayesirt.bank.scoring import NewScores
from bayesirt.names import one_line
from bayesirt.report.json_rows import rows_for_json
from bayesirt.report.terminal_parts import MOST_ROWS, new_console, new_table, say_more

_MOST_ALARMS, _MOST_ANCHORS = 20, 5


def print_bank(bank: ItemBank) -> None:
    """Print the numbers of items and anchors of each benchmark, and the next step."""
    console = new_console()
    table = new_table("benchmark", "items", "anchors")
    for name in bank.benchmark_names[:MOST_ROWS]:
        n_items = bank.benchmarks.count(name)
        table.add_row(name, f"{n_items:,}", f"{len(bank.anchors(name)):,}")
    console.print(table)
    abilities = "1 ability" if bank.n_abilities == 1 else f"{bank.n_abilities} abilities"
    console.print(
        Text(
            f"{len(bank.benchmarks):,} items on one scale of {abilities}; new subjects answer "
            f"{len(bank.anchor_items):,} anchors."
        )
    )


def print_suite_scores(scores: NewScores) -> None:
    """Print each new subject's accuracies and suite score with intervals."""
    console = new_console()
    table = new_table("subject", "benchmark", "accuracy", "interval", "answered", "items",
                      drop=("items", "answered"))  # fmt: skip
    for row in scores.summary.head(MOST_ROWS).itertuples():
        table.add_row(
            str(row.subject),
            str(row.benchmark),
            f"{row.accuracy:.1%}",
            f"{row.low:.1%} {row.high:.1%}",
            f"{row.n_answered:,.0f}",
            f"{row.n_items:,.0f}",
        )
    console.print(table)
    say_more(console, scores.summary)
    for sentence in scores.to_text().splitlines()[:MOST_ROWS]:
        console.print(Text(sentence))


def suite_scores_as_json(scores: NewScores) -> dict[str, Any]:
    """Return new subjects' scores, ready for JSON."""
    return {
        "text": scores.to_text(),
        "ranked": scores.n_ranked,
        "suite": rows_for_json(scores.suite),
        "benchmarks": rows_for_json(scores.summary),
    }


def print_next_anchors(
    suggestions: Mapping[str, NextAnchors], n: int, stop_width: float | None
) -> None:
    """Print each subject's score so far, its next items, and whether to stop."""
    console = new_console()
    for name, anchors in suggestions.items():
        console.print(Text(f"{one_line(name)}: {anchors.so_far.to_text(stop_width)}"))
        table = new_table("item", "benchmark", "P(right)", "sd after, points")
        for row in anchors.summary.head(n).itertuples():
            table.add_row(
                str(row.item),
                str(row.benchmark),
                f"{row.p_right:.0%}",
                f"{100 * row.sd:.2f}",
            )
        console.print(table)
        console.print(Text(anchors.to_text(stop_width)))


def next_anchors_as_json(
    suggestions: Mapping[str, NextAnchors], n: int, stop_width: float | None
) -> dict[str, Any]:
    """Return each subject's score so far and its next items, ready for JSON."""
    subjects = [
        {
            "subject": name,
            "score": anchors.so_far._asdict(),
            "stop": stop_width and {"width": stop_width, "met": anchors.so_far.stops(stop_width)},
            "text": f"{anchors.so_far.to_text(stop_width)} {anchors.to_text(stop_width)}".strip(),
            "next": rows_for_json(anchors.summary.head(n)),
        }
        for name, anchors in suggestions.items()
    ]
    return {"subjects": subjects}


def print_review(review: BankReview) -> None:
    """Print a line for each benchmark, the alarms, and the anchors that drift most."""
    console = new_console()
    table = new_table("benchmark", "items", "anchors", "reference", "compared", "drift",
                      "best right", "alarms",
                      drop=("reference", "compared", "anchors", "items"))  # fmt: skip
    for row in review.benchmarks.head(MOST_ROWS).itertuples():
        table.add_row(
            str(row.benchmark),
            f"{row.n_items:,}",
            f"{row.n_anchors:,}",
            _shown(row.n_reference, ",.0f"),
            _shown(row.n_compared, ",.0f"),
            _shown(100 * row.drift, "+.1f"),
            _shown(row.best_accuracy, ".1%"),
            f"{row.n_alarms:,}",
        )
    console.print(table)
    console.print(Text(review.headline, style="bold" if review.alarms else ""))
    of_kind: Counter[str] = Counter()
    for alarm in review.alarms:
        of_kind[alarm.kind] += 1
        if of_kind[alarm.kind] <= _MOST_ALARMS:
            console.print(Text(alarm.sentence))
    for kind, n in of_kind.items():
        if n > _MOST_ALARMS:
            console.print(
                Text(f"... and {n - _MOST_ALARMS:,} more alarms of kind {kind}; see --json")
            )
    answered = review.anchors[review.anchors["n_recent"] > 0].head(_MOST_ANCHORS)
    if len(answered):
        _print_anchors(answered)


def review_as_json(review: BankReview) -> dict[str, Any]:
    """Return a review, ready for JSON."""
    return {
        "text": review.to_text(),
        "recent": review.n_recent,
        "alarms": [alarm._asdict() for alarm in review.alarms],
        "benchmarks": rows_for_json(review.benchmarks),
        "anchors": rows_for_json(review.anchors),
    }


def _print_anchors(anchors: pd.DataFrame) -> None:
    console = new_console()
    table = new_table(
        "anchor", "benchmark", "answers", "expected", "observed", "p", drop=("benchmark", "answers")
    )
    for row in anchors.itertuples():
        table.add_row(
            str(row.item),
            str(row.benchmark),
            f"{row.n_recent:,}",
            f"{row.expected:.0%}",
            f"{row.observed:.0%}",
            f"{row.p:.2g}",
        )
    console.print(Text("Anchors that drift most (p adjusted for all anchors):"))
    console.print(table)


def _shown(value: float, form: str) -> str:
    return "" if pd.isna(value) else format(value, form)

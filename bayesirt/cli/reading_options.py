"""Options for how results are read, which many commands share."""

from typing import Annotated, Any

import typer

from bayesirt.cli.options import Duplicates, ItemsIn, ScoreKind, unset


def _full_score(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a full score such as 100; --kind sets the kind of scores, and "
            f"--order the order of grades"
        ) from None


Column = Annotated[str | None, unset(help="Name of this column in a long file, if not detected.")]
ClusterOption = Annotated[
    str | None,
    unset(
        help="Column of a long file that groups subjects, such as the LLM they are runs of; or a "
        "file with the columns subject and cluster."
    ),
]
CostOption = Annotated[
    str | None,
    unset(
        help="Column of a long file with the cost of each answer; or a file with the columns "
        "subject and cost."
    ),
]
FacetOption = Annotated[
    list[str],
    unset(
        help="Column of a long file, or of logs, that varies between answers to a question, such "
        "as judge."
    ),
]
FactorsOption = Annotated[
    list[str],
    unset(
        "--subject-factors",
        help="Columns with the parts of a subject, such as llm,scaffold (of logs: model,solver): "
        "each is ranked.",
    ),
]
SubjectTable = Annotated[
    str | None, unset(help="File with the column subject and columns that describe it.")
]
ItemTable = Annotated[
    str | None, unset(help="File with the column item and columns that describe it.")
]
Orientation = Annotated[
    ItemsIn | None, unset(help="Whether a wide file has its items in rows or in columns.")
]
Repeated = Annotated[
    Duplicates, typer.Option(help="How to treat repeated rows of a subject and item.")
]
Threshold = Annotated[float | None, unset(help="Count scores at or above this as correct.")]
KindOption = Annotated[ScoreKind | None, unset(help="Kind of scores; by default detected.")]
Order = Annotated[list[str], unset(help="Grades, the lowest first: poor,fair,good.")]
FullScore = Annotated[
    float | None,
    unset("--scale", help="Full score, such as 100.", parser=_full_score, metavar="FLOAT"),
]
Metric = Annotated[
    list[str],
    unset(
        help="Metric, scorer or statistic to read from logs: NAME, or BENCHMARK=NAME. Repeatable."
    ),
]
Filter = Annotated[
    list[str], unset(help="Filter to read from lm-eval logs: NAME, or BENCHMARK=NAME. Repeatable.")
]
SkipDamaged = Annotated[
    bool, typer.Option("--skip-damaged", help="Skip logs that cannot be read, and list them.")
]
READING: dict[str, tuple[Any, Any]] = {
    "subject": (Column, None),
    "item": (Column, None),
    "score": (Column, None),
    "trials": (Column, None),
    "latency": (Column, None),
    "items_in": (Orientation, None),
    "cluster": (ClusterOption, None),
    "cost": (CostOption, None),
    "facet": (FacetOption, []),
    "factors": (FactorsOption, []),
    "item_table": (ItemTable, None),
    "subject_table": (SubjectTable, None),
    "duplicates": (Repeated, Duplicates.error),
    "threshold": (Threshold, None),
    "kind": (KindOption, None),
    "order": (Order, []),
    "full": (FullScore, None),
    "metric": (Metric, []),
    "filter": (Filter, []),
    "skip_damaged": (SkipDamaged, False),
}
"""Every option for how results are read, with its default."""

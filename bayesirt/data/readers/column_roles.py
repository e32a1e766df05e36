"""Which column of a long file is which, by its common names."""

from collections.abc import Iterable

SUBJECT_NAMES = ("subject", "model", "system", "llm", "model_name", "model_id", "classifier")
ITEM_NAMES = ("item", "question", "task_id", "doc_id", "item_id", "question_id", "instance_id")
SCORE_NAMES = (
    "score", "correct", "response", "acc", "accuracy", "is_correct", "successes", "n_correct",
    "fraction", "pass_rate",
)  # fmt: skip
TRIALS_NAMES = ("trials", "n_trials", "attempts")
LATENCY_NAMES = ("tokens", "latency", "cot_tokens", "output_tokens", "time", "response_time")
COST_NAMES = ("cost", "cost_usd", "total_cost", "usd")
METADATA_NAMES = (
    "benchmark", "dataset", "suite", "task", "topic", "category", "level", "group",
)  # fmt: skip
_COMMON_NAMES = {
    "subject": SUBJECT_NAMES,
    "item": ITEM_NAMES,
    "score": SCORE_NAMES,
    "trials": TRIALS_NAMES,
    "latency": LATENCY_NAMES,
    "cost": COST_NAMES,
}
"""Columns of a long file, by their role."""


def find_columns(columns: Iterable[str], named: dict[str, str | None]) -> dict[str, str]:
    """Return columns by their roles: those that were named, else by their common names."""
    free = [c for c in columns if c not in named.values()]
    by_lower = {c.strip().lower(): c for c in reversed(free)}
    roles = {}
    for role, common in _COMMON_NAMES.items():
        chosen = named[role] or next((by_lower[n] for n in common if n in by_lower), None)
        if chosen is not None:
            roles[role] = chosen
    return roles


def describing(columns: Iterable[str], roles: dict[str, str]) -> list[str]:
    """Return the columns that may describe items."""
    taken = set(roles.values())
    return [c for c in columns if c.strip().lower() in METADATA_NAMES and c not in taken]

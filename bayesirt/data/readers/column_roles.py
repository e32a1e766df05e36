"""Roles of the columns of a long file, detected by common names."""

import re
from collections.abc import Iterable, Mapping

SUBJECT_NAMES = (
    "subject", "model", "system", "llm", "model_name", "model_id", "agent", "classifier",
)  # fmt: skip
ITEM_NAMES = (
    "item", "question", "task_id", "doc_id", "item_id", "question_id", "instance_id", "prompt_id",
)  # fmt: skip
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
"""Common column names of a long file, by role."""


def plain_name(column: str) -> str:
    """Return a column's name in the form of the common names.

    >>> plain_name("Question ID"), plain_name("modelName"), plain_name("model.name")
    ('question_id', 'model_name', 'model_name')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[\s.\-]+", "_", parted).lower()


def find_columns(columns: Iterable[str], named: Mapping[str, str | None]) -> dict[str, str]:
    """Return columns by role: those that were named, else those with common names."""
    free = [c for c in columns if c not in named.values()]
    whole = [(plain_name(c), c) for c in free]
    last = [(plain_name(c.rpartition(".")[2]), c) for c in free]  # Columns of nested objects.
    by_name = dict(reversed(whole + last))
    roles = {}
    for role, common in _COMMON_NAMES.items():
        chosen = named.get(role) or next((by_name[n] for n in common if n in by_name), None)
        if chosen is not None:
            roles[role] = chosen
    return roles


def describing(columns: Iterable[str], roles: dict[str, str]) -> list[str]:
    """Return the columns that may describe items."""
    taken = set(roles.values())
    return [c for c in columns if plain_name(c) in METADATA_NAMES and c not in taken]

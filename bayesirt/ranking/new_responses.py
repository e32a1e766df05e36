"""Changes in results since an earlier run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.names import first_few, one_line
from bayesirt.posterior import Posterior

_SHOWN = 3


@dataclass(frozen=True)
class Changes:
    """What has changed since results were ranked.

    >>> Changes(("gpt-x",), (), (), (), 120, 0, 2).to_text()
    'Since the last run: 1 subject is new (gpt-x), 120 answers are new, 2 are gone.'
    """

    new_subjects: tuple[str, ...]
    new_items: tuple[str, ...]
    gone_subjects: tuple[str, ...]
    gone_items: tuple[str, ...]
    n_new: int  # Pairs of a subject and an item with an answer now, but not before.
    n_changed: int  # Pairs whose answer has changed.
    n_gone: int  # Pairs with an answer before, but not now.
    others: tuple[str, ...] = ()  # What else is different, in clauses.

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def to_text(self) -> str:
        """Return what has changed in one sentence."""
        if not self:
            return "Since the last run nothing has changed."
        named = (
            (self.new_subjects, "subject", "new"),
            (self.new_items, "item", "new"),
            (self.gone_subjects, "subject", "gone"),
            (self.gone_items, "item", "gone"),
        )
        parts = [
            f"{_count(len(names), kind)} {state} ({_some(names)})" for names, kind, state in named
            if names
        ]  # fmt: skip
        counted = ((self.n_new, "new"), (self.n_changed, "different"), (self.n_gone, "gone"))
        counts = [(n, state) for n, state in counted if n]
        parts += [f"{_count(n, 'answer')} {state}" for n, state in counts[:1]]
        parts += [f"{n:,} {'is' if n == 1 else 'are'} {state}" for n, state in counts[1:]]
        return f"Since the last run: {', '.join([*parts, *self.others])}."

    def as_json(self) -> dict[str, Any]:
        """Return what has changed, ready for JSON."""
        return {**asdict(self), "text": self.to_text()}


def changes_since(earlier: Posterior, responses: Responses) -> Changes:
    """Compare results with those of an earlier run."""
    subjects, items = earlier.subjects, earlier.items
    rows, columns = _places(subjects, responses.subjects), _places(items, responses.items)
    old_cells = np.ix_(rows >= 0, columns >= 0)
    common = np.ix_(rows[rows >= 0], columns[columns >= 0])
    was, now = (earlier.successes, earlier.trials), responses.cells.matrices()
    before, after = was[1][old_cells] > 0, np.asarray(now[1])[common] > 0
    both = before & after
    differs = np.zeros_like(both)
    for old, new in zip(was, now, strict=True):
        differs |= old[old_cells] != np.asarray(new)[common]
    n_both = int(both.sum())
    return Changes(
        tuple(_without(responses.subjects, subjects)),
        tuple(_without(responses.items, items)),
        tuple(_without(subjects, responses.subjects)),
        tuple(_without(items, responses.items)),
        responses.n_observed - n_both,
        int((differs & both).sum()),
        int(np.count_nonzero(was[1])) - n_both,
    )


def describe_moves(earlier: pd.DataFrame, ranking: pd.DataFrame) -> str:
    """Describe the ranks of new subjects, the moves of the others, and the shift of zero."""
    is_new = ~ranking["subject"].isin(earlier["subject"])
    entered = ranking[is_new]
    sentences = []
    if len(entered):
        named = [
            f"{one_line(str(row.subject), 40)} at rank {row.rank} ({row.rank_low} to "
            f"{row.rank_high})"
            for row in entered.itertuples()
        ]
        sentences.append(f"New: {first_few(named, _SHOWN)}.")
    sentences += _moved_zero(earlier, ranking)
    stayed = [str(name) for name in ranking["subject"][~is_new]]
    places = {name: k for k, name in enumerate(n for n in earlier["subject"] if n in set(stayed))}
    moves = np.array([places[name] - k for k, name in enumerate(stayed)])
    if not moves.any():
        return " ".join([*sentences, "The order of the others is unchanged."])
    farthest = int(np.argmax(np.abs(moves)))
    direction = "up" if moves[farthest] > 0 else "down"
    sentences.append(
        f"Of the others, {np.count_nonzero(moves):,} of {len(moves):,} changed places, the "
        f"farthest move is {one_line(stayed[farthest], 40)} ({abs(moves[farthest])} {direction})."
    )
    return " ".join(sentences)


def _moved_zero(earlier: pd.DataFrame, ranking: pd.DataFrame) -> list[str]:
    """Return how far the mean of the subjects, the zero of abilities, has moved."""
    both = earlier.merge(ranking, on="subject", suffixes=("_before", ""))
    if len(both) == len(earlier) == len(ranking) or not len(both):
        return []
    moved = (both["ability"] - both["ability_before"]).mean()
    return [
        f"Zero is the mean ability of the subjects ranked, which has changed with them: those that "
        f"stayed moved by {moved:+.2f} on average."
    ]


def _places(names: Sequence[str], among: Sequence[str]) -> NDArray[np.intp]:
    """Return the index of each name among others, -1 if it is missing."""
    return pd.Index(among, dtype=object).get_indexer(pd.Index(names, dtype=object))


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    excluded = set(others)
    return [name for name in names if name not in excluded]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun} is" if n == 1 else f"{n:,} {noun}s are"


def _some(names: Sequence[str]) -> str:
    return first_few([one_line(name, 40) for name in names], _SHOWN)

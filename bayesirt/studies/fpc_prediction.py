"""What anchors say of test subjects' accuracy on a whole benchmark, beside the truth."""

from collections.abc import Sequence

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.step import BankItems
from bayesirt.bank.suite.excess import measure_excess
from bayesirt.bank.suite.scores import predict_suite
from bayesirt.data.responses import Responses
from bayesirt.estimators.fixed_items import KnownItems

_MOST_MEASURED = 250
"""Reference subjects whose errors are looked at: enough for a mean square."""
_EXCESS_DRAWS = 60
_DRAWS = 100
_ROOM = 128
_EARLIER, _NEW = "earlier", "new"
_PREDICTED = ["accuracy", "low", "high", "p_irt", "gp_irt", "anchor_mean"]


def predict_benchmark(
    earlier: KnownItems,
    own: BankItems,
    reference: Responses,
    test: Responses,
    *,
    key: Array,
) -> pd.DataFrame:
    """Predict test subjects on a benchmark from their answers to its anchors and earlier ones.

    One row a test subject: `truth`, its accuracy on the benchmark; and predicted `accuracy`, `low`,
    `high`, `p_irt`, `gp_irt` and `anchor_mean`, as by `predict_suite`.

    Items without slope, half of them answered, fill up what is computed to a multiple of 128 items,
    so that benchmarks of different sizes share compiled code. They say nothing of abilities, and
    belong to the earlier benchmarks, whose scores nobody looks at.
    """
    (name,) = own.benchmark_names
    weights, names = own.anchors(name), (*earlier.names, *own.known.names)
    answered = {*earlier.names, *weights}
    sure, unsure = _fillers(names, len(answered))
    items = _joined(earlier, own.known, _blank((*sure, *unsure), earlier.n_abilities))
    inside = set(own.known.names)
    labels = [_NEW if item in inside else _EARLIER for item in items.names]
    before = (*earlier.names, *sure)
    anchors = {_NEW: weights, _EARLIER: dict.fromkeys(before, 1 / len(before))}
    of_excess, of_scores = jax.random.split(key)
    looked_at = np.arange(min(reference.n_subjects, _MOST_MEASURED))
    whole = _answers(reference, looked_at, set(names), sure)
    excess = measure_excess(
        items, labels, whole, anchors=anchors, key=of_excess, n_draws=_EXCESS_DRAWS
    )
    asked = _answers(test, np.arange(test.n_subjects), answered, sure)
    scores = predict_suite(
        items,
        labels,
        asked,
        anchors=anchors,
        key=of_scores,
        excess={_NEW: excess[_NEW]},
        n_draws=_DRAWS,
    )
    found = scores.summary[scores.summary["benchmark"] == _NEW].set_index("subject")
    truth = shares(test)[:, [item in inside for item in test.items]].mean(1)
    return found.loc[list(test.subjects), _PREDICTED].assign(truth=truth)


def shares(responses: Responses) -> NDArray[np.float64]:
    """Return the proportion correct of each cell, shape (subject, item)."""
    successes, trials = responses.cells.matrices()
    found: NDArray[np.float64] = successes / np.maximum(trials, 1)
    return found


def _fillers(names: Sequence[str], n_answered: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names of fillers, answered ones and others, that nothing else has."""
    new = "_" * (1 + max(map(len, names)))
    counts = -n_answered % _ROOM, (n_answered - len(names)) % _ROOM
    sure = tuple(f"{new}{k}" for k in range(counts[0]))
    return sure, tuple(f"{new}{k}" for k in range(counts[0], sum(counts)))


def _blank(names: tuple[str, ...], n_abilities: int) -> KnownItems:
    n, k = len(names), n_abilities
    return KnownItems(names, np.zeros((n, k)), np.zeros(n), np.zeros((n, k + 1, k + 1)))


def _joined(*parts: KnownItems) -> KnownItems:
    names = tuple(name for part in parts for name in part.names)
    a, d, covariance = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "d", "covariance")
    )
    return KnownItems(names, a, d, covariance)


def _answers(
    responses: Responses, subjects: NDArray[np.intp], items: set[str], sure: tuple[str, ...]
) -> Responses:
    """Return the answers of some subjects to some items, and right ones to fillers."""
    found = np.flatnonzero([name in items for name in responses.items])
    kept = responses.select(subjects, found)
    ones = np.ones((len(subjects), len(sure)), np.int64)
    successes, trials = (np.hstack([x, ones]) for x in kept.cells.matrices())
    names = {"subjects": kept.subjects, "items": (*kept.items, *sure)}
    return Responses.from_arrays(successes, trials, **names)

"""Parts of the steps of an item bank: anchors, reference subjects, answers and excess errors."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, ReferenceSubjects
from bayesirt.bank.suite.excess import Excess, measure_excess
from bayesirt.bank.tables import ANSWER_COLUMNS
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule, choose_anchors
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate

_SHARED = "shared with "
_FIGURES = ("variance", "p_irt_error", "response_variance", "n_subjects")


def with_anchors(
    known: KnownItems,
    benchmarks: Sequence[str],
    n_anchors: int,
    *,
    how: AnchorRule,
    key: Array,
) -> BankItems:
    """Choose the anchors of each benchmark."""
    labels, weights = np.asarray(benchmarks, object), np.full(len(benchmarks), np.nan)
    for k, name in enumerate(dict.fromkeys(labels)):
        items = np.flatnonzero(labels == name)
        chosen = choose_anchors(
            known.select(items), min(n_anchors, len(items)), how=how, key=jax.random.fold_in(key, k)
        )
        weights[items[chosen.positions]] = chosen.weights
    return BankItems(known, tuple(map(str, labels)), weights)


def most_abilities(benchmarks: Sequence[str], n_anchors: int) -> int:
    """Return the most abilities that the anchors of every benchmark can determine."""
    return min(n_anchors, *Counter(benchmarks).values())


def check_anchors(benchmarks: Sequence[str], n_anchors: int, n_abilities: int) -> None:
    """Refuse benchmarks with fewer anchors or items than abilities."""
    if n_anchors < n_abilities:
        raise ResponseError(
            f"{n_anchors} anchors of a benchmark cannot determine {n_abilities} abilities; ask "
            f"for {n_abilities} anchors or more"
        )
    for name, n_items in Counter(benchmarks).items():
        if n_items < n_abilities:
            raise ResponseError(
                f"benchmark {one_line(name)!r} has fewer items ({n_items}) than abilities "
                f"({n_abilities}); leave it out, or add it to a bank with fewer abilities"
            )


def placed(point: PointEstimate, responses: Responses, items: BankItems) -> ReferenceSubjects:
    """Return reference subjects with their estimated abilities."""
    successes, trials = responses.cells.matrices()
    labels = np.asarray(items.benchmarks, object)
    accuracy = np.full((responses.n_subjects, len(items.benchmark_names)), np.nan)
    for b, name in enumerate(items.benchmark_names):
        in_benchmark = labels == name
        complete = (trials[:, in_benchmark] > 0).all(1)
        shares = successes[:, in_benchmark] / np.maximum(trials[:, in_benchmark], 1)
        accuracy[complete, b] = shares[complete].mean(1)
    return ReferenceSubjects(
        responses.subjects, point["theta"], point["theta_covariance"], accuracy
    )


def anchor_answers(responses: Responses, anchors: Collection[str]) -> pd.DataFrame:
    """Return the answers to anchors as a table with one row each."""
    table = responses.to_long()
    return table[table["item"].isin(anchors)]


def with_kept_answers(bank: ItemBank, responses: Responses) -> Responses:
    """Add the answers of the same subjects to anchors that the bank holds."""
    answers, bank_answers = responses.to_long()[list(ANSWER_COLUMNS)], bank.answer_table
    bank_answers = bank_answers[bank_answers["subject"].isin(responses.subjects)]
    if bank_answers.empty and not answers["item"].isin(bank.items.names).any():
        raise ResponseError(
            f"none of the {responses.n_subjects:,} subjects is in the bank, and none answered an "
            f"item of the bank; have reference subjects answer its anchors"
        )
    return joined_answers(answers, bank_answers)


def joined_answers(own: pd.DataFrame, kept: pd.DataFrame) -> Responses:
    """Join two tables of answers; an answer in both counts once."""
    table = pd.concat([own, kept]).drop_duplicates(ignore_index=True)
    return Responses.from_long(table, score="successes", trials="trials")


def excess_of(
    items: BankItems, responses: Responses, key: Array, *, progress: bool = False
) -> dict[str, dict[str, float]]:
    """Measure the excess of each benchmark, as figures that a bank stores."""
    anchors = {name: items.anchors(name) for name in items.benchmark_names}
    excesses = measure_excess(
        items.known, items.benchmarks, responses, anchors=anchors, key=key, progress=progress
    )
    return {name: excess_figures(excess) for name, excess in excesses.items()}


def excess_figures(excess: Excess) -> dict[str, float]:
    """Return the numbers of an `Excess` by name, for `excess_from`."""
    shared = {f"{_SHARED}{name}": value for name, value in excess.shared.items()}
    return {name: float(getattr(excess, name)) for name in _FIGURES} | shared


def excess_from(figures: Mapping[str, float]) -> Excess:
    """Return the `Excess` from the numbers of `excess_figures`."""
    shared = {
        name.removeprefix(_SHARED): value
        for name, value in figures.items()
        if name.startswith(_SHARED)
    }
    variance, error, response_variance, n_subjects = (figures[name] for name in _FIGURES)
    return Excess(variance, error, response_variance, shared, int(n_subjects))


def kept_excess(bank: ItemBank) -> dict[str, Excess]:
    """Return the excess of each benchmark that the bank recorded."""
    return {
        name: excess_from(figures) for step in bank.steps for name, figures in step.figures.items()
    }

"""A suite of benchmarks that grows: calibrate, add a benchmark, score new subjects by anchors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.folder import append_step, check_new, create_bank_folder, read_bank
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.parts import (
    anchor_answers,
    excess_figures,
    excess_from,
    excess_of,
    joined_answers,
    placed,
    with_anchors,
    with_kept_answers,
)
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.bank.tables import ANSWER_COLUMNS, clean_answers
from bayesirt.errors import ResponseError
from bayesirt.estimators.anchors import AnchorRule
from bayesirt.estimators.dimension import choose_dimension
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc import calibrate_items
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.names import one_line
from bayesirt.new_answers import read_answers
from bayesirt.posterior import LEVEL
from bayesirt.responses import Responses
from bayesirt.suite.excess import Excess, measure_excess
from bayesirt.suite.scores import SuiteScores, predict_suite


def create_suite(
    folder: Path,
    responses: Responses,
    benchmarks: Sequence[str],
    *,
    key: Array,
    n_anchors: int = 100,
    n_abilities: int | None = None,
    how: AnchorRule = "clusters",
    source: Mapping[str, Any] | None = None,
) -> ItemBank:
    """Calibrate the first benchmarks of a suite and keep them as an item bank.

    Parameters
    ----------
    folder : Path
        New or empty.
    responses : Responses
        Of reference subjects.
    benchmarks : sequence of str
        Each item's benchmark.
    key : jax.random.key
    n_anchors : int
        Of each benchmark; all items where it has fewer.
    n_abilities : int, optional
        By default chosen among 1, 2, 5 and 10 by held-out answers.
    how : {"clusters", "random", "discrimination", "design", "information"}
        As for `choose_anchors`.
    source : mapping, optional
        Where the responses came from.

    Returns
    -------
    ItemBank

    Raises
    ------
    ResponseError
        If the folder holds anything, or the responses will not do.

    Notes
    -----
    What predictions from anchors miss beyond the model is measured on the same subjects that
    calibrated the items, so it is a little too small.

    References
    ----------
    papers/004, section 3.
    """
    check_new(folder)
    of_dimension, of_anchors, of_excess = jax.random.split(key, 3)
    settings: dict[str, Any] = {"n_anchors": n_anchors, "anchors": how}
    if n_abilities is None:
        choice = choose_dimension(responses, key=of_dimension)
        n_abilities, settings["dimension"] = choice.n_abilities, choice.to_text()
    point = fit_mirt(responses, n_abilities=n_abilities)
    known = KnownItems.from_estimate(point)
    items = with_anchors(known, benchmarks, n_anchors, how=how, key=of_anchors)
    step = BankStep(
        "create",
        items,
        placed(point, responses, items),
        anchor_answers(responses, {x for b in items.benchmark_names for x in items.anchors(b)}),
        excess=excess_of(items, responses, of_excess),
        settings=settings,
        source=dict(source or {}),
    )
    return create_bank_folder(folder, step, n_abilities)


def add_benchmark(
    folder: Path,
    name: str,
    responses: Responses,
    *,
    key: Array,
    n_anchors: int = 100,
    how: AnchorRule = "clusters",
    source: Mapping[str, Any] | None = None,
) -> ItemBank:
    """Add a benchmark to a suite by fixed-parameter calibration: what was there never moves.

    Parameters
    ----------
    folder : Path
        Of the bank.
    name : str
        The benchmark's.
    responses : Responses
        To its items, of subjects whose answers to anchors the bank holds, or that answered some
        of these here.
    key : jax.random.key
    n_anchors, how, source
        As for `create_suite`.

    Returns
    -------
    ItemBank
        With the benchmark.

    Raises
    ------
    ResponseError
        If the benchmark or one of its items is there already, no subject is shared, or there are
        fewer anchors than abilities.

    References
    ----------
    papers/004, section 3; MATH.md, "FPC".
    """
    bank = read_bank(folder)
    if name in bank.benchmark_names:
        raise ResponseError(
            f"the bank has a benchmark {one_line(name)!r}; give the new one another name"
        )
    of_anchors, of_excess = jax.random.split(key)
    joined = with_kept_answers(bank, responses)
    point = calibrate_items(joined, bank.items)
    everything = KnownItems.from_estimate(point)
    new = np.flatnonzero(~np.isin(everything.names, bank.items.names))
    labels = [name] * len(new)
    items = with_anchors(everything.select(new), labels, n_anchors, how=how, key=of_anchors)
    own = joined.select(np.arange(joined.n_subjects), new)
    step = BankStep(
        "add",
        items,
        placed(point, own, items),
        anchor_answers(joined, {*bank.anchor_items, *items.anchors(name)}),
        excess=_excess_of_new(bank, everything, items, joined, of_excess),
        settings={"n_anchors": n_anchors, "anchors": how},
        source=dict(source or {}),
    )
    return append_step(folder, step)


@dataclass(frozen=True, eq=False, repr=False)
class NewScores:
    """Scores of new subjects on a suite, predicted from their answers to anchors.

    Attributes
    ----------
    summary : DataFrame
        One row a subject and benchmark, as in `SuiteScores.summary`.
    suite : DataFrame
        One row a subject, as in `SuiteScores.suite`; ranks are among all subjects that the bank
        holds answers of.
    n_ranked : int
        Those subjects, the new ones included.
    """

    summary: pd.DataFrame
    suite: pd.DataFrame
    n_ranked: int

    def __repr__(self) -> str:
        return f"<NewScores: {len(self.suite)} subjects among {self.n_ranked}>"

    def to_text(self) -> str:
        """Return a sentence for each subject."""
        return "\n".join(self._sentence(row) for _, row in self.suite.iterrows())

    def _sentence(self, row: pd.Series) -> str:
        rank = f"{row['rank_low']} to {row['rank_high']}"
        if row["rank_low"] == row["rank_high"]:
            rank = f"{row['rank_low']}"
        text = (
            f"{one_line(row['subject'])}: {row['score']:.1%} of the suite ({LEVEL:.0%} interval "
            f"{row['low']:.1%} to {row['high']:.1%}), rank {rank} of {self.n_ranked:,}, from "
            f"{row['n_answered']:,} answers."
        )
        if pd.isna(row["more_anchors"]):
            return f"{text} More anchors would not halve the interval."
        return f"{text} About {int(row['more_anchors']):,} more would halve the interval."


def score_answers(
    folder: Path,
    answers: pd.DataFrame,
    *,
    key: Array,
    n_draws: int = 400,
    source: Mapping[str, Any] | None = None,
) -> NewScores:
    """Score new subjects by their answers to anchors, and keep answers and scores in the bank.

    Parameters
    ----------
    folder : Path
        Of the bank.
    answers : DataFrame
        Columns subject, item, successes, trials: one row an answer to an item of the bank.
    key : jax.random.key
        The same key gives the same scores.
    n_draws : int
    source : mapping, optional
        Where the answers came from.

    Returns
    -------
    NewScores

    Raises
    ------
    ResponseError
        If an item is not the bank's, a subject's answer is not the one that the bank holds, or
        another process writes to the bank.

    Notes
    -----
    Subjects are placed one by one given fixed items, so scores that were given before do not
    move. Only answers to anchors are kept.
    """
    bank = read_bank(folder)
    own = clean_answers(answers)
    unknown = own["item"][~own["item"].isin(bank.items.names)]
    if len(unknown):
        raise ResponseError(
            f"the bank has no item {one_line(unknown.iloc[0])!r}; leave its answers out, or add "
            f"its benchmark first"
        )
    excess: dict[str, Excess] = {}
    for step in bank.steps:
        excess |= {name: excess_from(figures) for name, figures in step.excess.items()}
    scores = predict_suite(
        bank.items,
        bank.benchmarks,
        joined_answers(bank.answer_table, own),
        anchors={name: bank.anchors(name) for name in bank.benchmark_names},
        key=key,
        excess=excess,
        n_draws=n_draws,
    )
    found = _new_scores(scores, own["subject"].unique())
    kept = own[own["item"].isin(bank.anchor_items)]
    step = BankStep(
        "score",
        answers=kept if len(kept) else None,
        scores=found.summary,
        settings={"n_draws": n_draws, "n_ranked": found.n_ranked},
        source=dict(source or {}),
    )
    append_step(folder, step)
    return found


def answers_table(
    path: Path,
    items: Sequence[str],
    *,
    duplicates: str = "error",
    threshold: float | None = None,
) -> pd.DataFrame:
    """Read the answers of new subjects, one row each, as `score_answers` takes them.

    Parameters
    ----------
    path : Path
    items : sequence of str
        Of the bank.
    duplicates, threshold
        As for `bayesirt.new_answers.read_answers`.

    Returns
    -------
    DataFrame
        Columns subject, item, successes, trials.

    Raises
    ------
    ResponseError
        If the file cannot be read, names an item that is not the bank's, or a subject has no
        answers.
    """
    names, tables = np.asarray(items, object), []
    found = read_answers(path, items, duplicates=duplicates, threshold=threshold)
    for subject, answers in found.items():
        if not len(answers.item):
            raise ResponseError(
                f"subject {one_line(subject)!r} has no answers; let it answer anchors, or leave "
                f"it out"
            )
        columns = names[np.asarray(answers.item)], answers.successes, answers.trials
        rows = dict(zip(ANSWER_COLUMNS[1:], map(np.asarray, columns), strict=True))
        tables.append(pd.DataFrame({"subject": subject, **rows}))
    return pd.concat(tables, ignore_index=True)


def _excess_of_new(
    bank: ItemBank, everything: KnownItems, items: BankItems, joined: Responses, key: Array
) -> dict[str, dict[str, float]]:
    """Measure what anchors of old and new benchmarks miss of the new one."""
    (name,) = items.benchmark_names
    homes = dict(zip(bank.items.names, bank.benchmarks, strict=True))
    labels = [homes.get(item, name) for item in everything.names]
    inside = set(everything.names)
    anchors = {name: items.anchors(name)}
    for old in set(labels) - {name}:
        anchors[old] = {item: w for item, w in bank.anchors(old).items() if item in inside}
    found = measure_excess(everything, labels, joined, anchors=anchors, key=key)[name]
    return {name: excess_figures(replace(found, shared={}))}


def _new_scores(scores: SuiteScores, subjects: NDArray[np.object_]) -> NewScores:
    summary, suite = (
        table[table["subject"].isin(subjects)].reset_index(drop=True)
        for table in (scores.summary, scores.suite)
    )
    return NewScores(summary, suite, len(scores.subjects))

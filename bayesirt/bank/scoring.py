"""Scores of new subjects on a whole suite, from their answers to anchors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.bank.bank_tables import joined_answers, kept_excess
from bayesirt.bank.folder import append_step, read_bank
from bayesirt.bank.step import BankStep
from bayesirt.bank.suite.suite_scores import SuiteScores, predict_suite
from bayesirt.bank.tables import ANSWER_COLUMNS, clean_answers
from bayesirt.errors import ResponseError
from bayesirt.inference.ability_belief import Answers
from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.random_keys import Key, as_key


@dataclass(frozen=True, eq=False, repr=False)
class NewScores:
    """Scores of new subjects on a suite, predicted from their answers to anchors."""

    summary: pd.DataFrame  # One row per subject and benchmark, as in `SuiteScores.summary`.
    # One row per subject, as in `SuiteScores.suite`; ranks are among all subjects with answers in
    # the bank.
    suite: pd.DataFrame
    n_ranked: int  # Number of those subjects, including the new ones.

    def __repr__(self) -> str:
        return f"<NewScores: {len(self.suite)} subjects among {self.n_ranked}>"

    def to_text(self) -> str:
        """Return a line for each subject."""
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
        if row["low"] == row["high"]:
            return f"{text} It answered everything."
        if pd.isna(row["more_anchors"]):
            return f"{text} More anchors would not halve the interval."
        return f"{text} About {int(row['more_anchors']):,} more would halve the interval."


def score_answers(
    folder: str | Path,
    answers: pd.DataFrame,
    *,
    key: Key,
    n_draws: int = 400,
    source: Mapping[str, Any] | None = None,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
) -> NewScores:
    """Score new subjects from their answers to anchors, and store answers and scores in the bank.

    Parameters
    ----------
    folder : str or Path
        Folder of the bank.
    answers : DataFrame
        One row per answer to an item of the bank: columns subject, item, successes, trials.
    key : jax.random.key or int
        The same key gives the same scores.
    n_draws : int
    source : mapping, optional
        Where the answers came from.
    progress : bool
        Show a progress bar, if stderr is a terminal.
    announce : callable, optional
        Called with a description of each step before it starts.

    Returns
    -------
    NewScores

    Raises
    ------
    ResponseError
        If an item is not in the bank, an answer contradicts the one in the bank, or another process
        is writing to the bank.

    Notes
    -----
    Each subject's abilities are estimated separately with fixed items, so earlier scores do not
    change. Only answers to anchors are stored.
    """
    key, folder = as_key(key), Path(folder)
    bank = read_bank(folder)
    new_answers = clean_answers(answers)
    unknown = new_answers["item"][~new_answers["item"].isin(bank.items.names)]
    if len(unknown):
        raise ResponseError(
            f"the bank has no item {one_line(unknown.iloc[0])!r}; leave its answers out, or add "
            f"its benchmark first"
        )
    everyone = joined_answers(bank.answer_table, new_answers)
    if announce is not None:
        n_new, n_all = new_answers["subject"].nunique(), everyone.n_subjects
        announce(f"predicting scores of {n_new:,} among {n_all:,} subjects")
    scores = predict_suite(
        bank.items,
        bank.benchmarks,
        everyone,
        anchors={name: bank.anchors(name) for name in bank.benchmark_names},
        key=key,
        excess=kept_excess(bank),
        n_draws=n_draws,
        progress=progress,
    )
    new_scores = _new_scores(scores, new_answers["subject"].unique())
    anchor_answers = new_answers[new_answers["item"].isin(bank.anchor_items)]
    step = BankStep(
        "score",
        answers=anchor_answers if len(anchor_answers) else None,
        scores=new_scores.summary,
        settings={"n_draws": n_draws, "n_ranked": new_scores.n_ranked},
        source=dict(source or {}),
    )
    append_step(folder, step)
    return new_scores


def answers_table(answers: Mapping[str, Answers], items: Sequence[str]) -> pd.DataFrame:
    """Return answers of new subjects as a table with one row each, as `score_answers` takes it."""
    names, tables = np.asarray(items, object), []
    for subject, cells in answers.items():
        if not len(cells.item):
            raise ResponseError(
                f"subject {one_line(subject)!r} has no answers; let it answer anchors, or leave "
                f"it out"
            )
        columns = names[np.asarray(cells.item)], cells.successes, cells.trials
        rows = dict(zip(ANSWER_COLUMNS[1:], map(np.asarray, columns), strict=True))
        tables.append(pd.DataFrame({"subject": subject, **rows}))
    return pd.concat(tables, ignore_index=True)


def _new_scores(scores: SuiteScores, subjects: NDArray[np.object_]) -> NewScores:
    summary, suite = (
        table[table["subject"].isin(subjects)].reset_index(drop=True)
        for table in (scores.summary, scores.suite)
    )
    return NewScores(summary, suite, len(scores.subjects))

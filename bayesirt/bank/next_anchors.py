"""Adaptive anchors: which items of a bank a new subject should answer next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.bank.adaptive import (
    NEW_SUBJECT,
    after_answers,
    check_stop_width,
    check_subject,
    stop_or_go_on,
)
from bayesirt.bank.bank_tables import kept_excess
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.suite.excess import excess_covariance
from bayesirt.bank.suite.next_items import SuiteItems, prospects
from bayesirt.errors import ResponseError
from bayesirt.inference.ability_belief import Answers
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.names import one_line
from bayesirt.posterior import LEVEL, TAILS
from bayesirt.random_keys import Key, as_key

_HALF_WIDTH = float(ndtri(TAILS[1]))


class ScoreSoFar(NamedTuple):
    """Estimate of a subject's score on the whole suite."""

    # Mean over the benchmarks.
    mean: float
    sd: float
    # Ends of the 90% interval.
    low: float
    high: float
    n_answers: int  # Answers to items of the bank, including those that the bank holds.

    def stops(self, width: float) -> bool:
        """Return whether the interval is shorter than `width`, a share of the suite."""
        check_stop_width(width)
        return self.high - self.low < width

    def to_text(self, stop_width: float | None = None) -> str:
        """Return the estimate in words, and whether it is precise enough."""
        text = (
            f"{self.mean:.1%} of the suite ({LEVEL:.0%} interval {self.low:.1%} to "
            f"{self.high:.1%}) {after_answers(self.n_answers)}."
        )
        if stop_width is None:
            return text
        verdict = stop_or_go_on(100 * stop_width, stop=self.stops(stop_width))
        return f"{text} The interval is {100 * (self.high - self.low):.1f} points wide, {verdict}"


@dataclass(frozen=True, eq=False, repr=False)
class NextAnchors:
    """Items that a subject has not answered, the most informative about its score first."""

    so_far: ScoreSoFar
    # One row per item: item; benchmark; anchor, whether it is an anchor of its benchmark; p_right,
    # the probability of a right answer; sd, the standard deviation of the suite score expected
    # after the item.
    summary: pd.DataFrame

    def __repr__(self) -> str:
        return f"<NextAnchors: {self.to_text()}>"

    def to_text(self, stop_width: float | None = None) -> str:
        """Return the best item and its expected gain, or an empty string if it is time to stop."""
        if stop_width is not None and self.so_far.stops(stop_width):
            return ""
        best = self.summary.iloc[0]
        return (
            f"Next: {one_line(best['item'])} of {one_line(best['benchmark'])}, with a "
            f"{best['p_right']:.0%} chance of a right answer; the standard deviation of the score "
            f"is expected to go from {100 * self.so_far.sd:.2f} to {100 * best['sd']:.2f} points."
        )


def suggest_anchors(
    bank: ItemBank,
    answers: Mapping[str, Answers] | None = None,
    *,
    key: Key,
    subject: str | None = None,
) -> dict[str, NextAnchors]:
    """Suggest which items of a bank subjects should answer next.

    Parameters
    ----------
    bank : ItemBank
    answers : mapping of str to Answers, optional
        Answers by subject, as `bayesirt.bank.new_answers.read_answers` returns them for the bank's
        items. Answers of the same subject in the bank are added.
    key : jax.random.key or int
        Key for the draws of abilities that expectations are taken over.
    subject : str, optional
        Use only this subject; without `answers`, one in the bank or one without any answers.

    Returns
    -------
    dict of str to NextAnchors
        Suggestions by subject.

    Raises
    ------
    ResponseError
        If there is no such subject, an answer contradicts the one in the bank, or the subject has
        answered all items.

    Notes
    -----
    Items are ordered by `bayesirt.bank.suite.next_items.prospects`. Any item may be suggested, as
    items that are not anchors are informative about abilities too. The interval is normal, and
    covers the errors of abilities, items and chance, and those beyond the model that were measured
    on reference subjects; `score_answers` computes an interval from draws.
    """
    key = as_key(key)
    given = dict(answers or {})
    if given and subject is not None and not bank.answer_table["subject"].eq(subject).any():
        check_subject(given, subject)
    names = [subject] if subject is not None else list(given) or [NEW_SUBJECT]
    cells = DenseLayout(*map(jnp.asarray, _matrices(bank, given, names)))
    suite = SuiteItems.of(bank.items, np.asarray(bank.benchmarks, object))
    forecast = prospects(suite, cells, key=key)
    columns = [np.asarray(x, float) for x in (forecast.score, forecast.variance, forecast.p_right)]
    gain, is_open = np.asarray(forecast.gain, float), np.asarray(cells.trials) == 0
    beyond = _beyond_model(bank, is_open)
    table = _item_table(bank)
    return {
        name: _next_of(name, table, is_open[i], beyond[i], gain[i], *(x[i] for x in columns))
        for i, name in enumerate(names)
    }


def _matrices(
    bank: ItemBank, answers: Mapping[str, Answers], names: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return successes and trials of subjects, including their answers in the bank."""
    position = {item: j for j, item in enumerate(bank.items.names)}
    successes = np.zeros((len(names), len(position)), np.int64)
    trials = np.zeros_like(successes)
    for i, name in enumerate(names):
        new_answers = answers.get(name, Answers.none())
        items = np.asarray(new_answers.item, np.intp)
        successes[i, items], trials[i, items] = new_answers.successes, new_answers.trials
    bank_answers = bank.answer_table
    for row in bank_answers[bank_answers["subject"].isin(names)].itertuples():
        i, j = names.index(row.subject), position[row.item]
        if trials[i, j] and (successes[i, j], trials[i, j]) != (row.successes, row.trials):
            raise ResponseError(
                f"subject {one_line(row.subject)!r} answered item {one_line(row.item)!r} "
                f"differently in the bank; give the subject another name if it has changed"
            )
        successes[i, j], trials[i, j] = row.successes, row.trials
    return successes, trials


def _beyond_model(bank: ItemBank, is_open: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the variance of each subject's suite score beyond the model."""
    names = bank.benchmark_names
    belongs = np.asarray(bank.benchmarks, object)[:, None] == np.asarray(names, object)
    share = is_open @ (belongs / belongs.sum(0)) / len(names)
    covariance = excess_covariance(kept_excess(bank), names)
    variance: NDArray[np.float64] = np.einsum("ib,bc,ic->i", share, covariance, share)
    return variance


def _item_table(bank: ItemBank) -> pd.DataFrame:
    items = np.asarray(bank.items.names, object)
    anchors = np.isin(items, bank.anchor_items)
    return pd.DataFrame({"item": items, "benchmark": bank.benchmarks, "anchor": anchors})


def _next_of(
    name: str,
    table: pd.DataFrame,
    is_open: NDArray[np.bool_],
    beyond: float,
    gain: NDArray[np.float64],
    score: float,
    variance: float,
    p_right: NDArray[np.float64],
) -> NextAnchors:
    if not is_open.any():
        raise ResponseError(
            f"subject {one_line(name)!r} has answered all {len(is_open):,} items of the bank; "
            f"there is nothing left to ask"
        )
    total = variance + beyond
    mean, sd = float(score), float(np.sqrt(total))
    low, high = max(0.0, mean - _HALF_WIDTH * sd), min(1.0, mean + _HALF_WIDTH * sd)
    so_far = ScoreSoFar(mean, sd, low, high, int((~is_open).sum()))
    after = np.sqrt(np.maximum(total - gain, 0))
    rows = table.assign(p_right=p_right, sd=after)[is_open]
    return NextAnchors(so_far, rows.sort_values("sd", kind="stable", ignore_index=True))

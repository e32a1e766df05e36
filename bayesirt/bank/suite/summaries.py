"""Summaries of draws of unseen answers: accuracies, ranks, and numbers of further answers."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.bank.suite.draws import SuiteProblem, UnseenAnswers, expected_right, roots_of
from bayesirt.bank.suite.excess import Excess
from bayesirt.bank.suite.table import SuiteTable
from bayesirt.posterior import TAILS

Columns: TypeAlias = dict[str, NDArray[np.float64]]

_BISECTIONS = 60
_QUARTER = 0.25
"""Share of the variance that remains when the interval is halved."""


class Seen(NamedTuple):
    """Counts of the given answers."""

    # shape (subject, benchmark). Sum of the proportions correct of seen answers.
    right: NDArray[np.float64]
    n_answered: NDArray[np.float64]  # shape (subject, benchmark)
    n_items: NDArray[np.float64]  # shape (benchmark,)

    @classmethod
    def of(cls, table: SuiteTable) -> "Seen":
        """Return the counts of a table."""
        return cls(
            table.per_benchmark(table.share),
            table.per_benchmark(table.trials > 0),
            table.per_benchmark(np.ones(len(table.belongs))),
        )

    @property
    def open_share(self) -> NDArray[np.float64]:
        """Unseen share of each benchmark, shape (subject, benchmark)."""
        return 1 - self.n_answered / self.n_items


def accuracy_draws(
    seen: Seen, unseen: UnseenAnswers, beyond: NDArray[np.float64], key: Array
) -> NDArray[np.float64]:
    """Return draws of accuracies on whole benchmarks, including chance and excess errors."""
    normal = jax.random.normal(key, (2, *unseen.expected.shape), jnp.result_type(float))
    of_answers, of_model = np.asarray(normal, float)
    errors = of_model @ roots_of(beyond).T
    right = unseen.expected + np.sqrt(unseen.chance) * of_answers
    right += errors * (seen.open_share * seen.n_items)
    return (seen.right + np.clip(right, 0, seen.n_items - seen.n_answered)) / seen.n_items


def interval(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the 90% interval of draws along their first axis, low and high.

    Few draws underrepresent the tails of their distribution; the chosen quantiles contain the next
    draw with the nominal probability.
    """
    bounds: NDArray[np.float64] = np.quantile(draws, TAILS, axis=0, method="weibull")
    return bounds


def point_predictions(
    table: SuiteTable,
    seen: Seen,
    weights: NDArray[np.float64],
    excess: Mapping[str, Excess],
    expected: NDArray[np.float64],
) -> Columns:
    """Return p-IRT, anchor mean and gp-IRT of each subject and benchmark.

    The anchor mean is over the anchors that the subject answered.
    """
    answered = (table.trials > 0) * weights
    total = table.per_benchmark(answered)
    with np.errstate(invalid="ignore"):
        anchor_mean = table.per_benchmark(answered * table.share) / total
    p_irt = (seen.right + expected) / seen.n_items
    n_anchors = table.per_benchmark(answered > 0)
    shares = np.zeros_like(p_irt)
    for b, name in enumerate(table.benchmarks):
        if name in excess:
            shares[:, b] = excess[name].anchor_share(n_anchors[:, b])
    gp_irt = np.where(shares > 0, shares * anchor_mean + (1 - shares) * p_irt, p_irt)
    return {"p_irt": p_irt, "anchor_mean": anchor_mean, "gp_irt": gp_irt}


def suite_columns(draws: NDArray[np.float64], score: NDArray[np.float64]) -> pd.DataFrame:
    """Return suite scores and ranks, one row per subject."""
    low, high = interval(draws)
    table = pd.DataFrame({"score": score, "sd": draws.std(0, ddof=1), "low": low, "high": high})
    ranks = rankdata(-draws, method="min", axis=1)
    quantiles = np.quantile(ranks, [0.5, *TAILS], axis=0, method="inverted_cdf").astype(int)
    table[["rank", "rank_low", "rank_high"]] = quantiles.T
    return table


def more_anchors(
    seen: Seen,
    unseen: UnseenAnswers,
    problem: SuiteProblem,
    beyond: NDArray[np.float64],
) -> pd.arrays.IntegerArray:
    """Return how many more answers would halve the interval of each subject's suite score.

    See `predict_suite` for the formula.
    """
    n = len(seen.n_items)
    drawn = (unseen.expected / seen.n_items).mean(2).var(0, ddof=1)
    chance = (unseen.chance.mean(0) / seen.n_items**2).sum(1) / n**2
    model = np.einsum("ib,bc,ic->i", seen.open_share, beyond, seen.open_share) / n**2
    of_ability = drawn
    if problem.roots is not None:
        slopes = expected_right(problem, np.asarray(unseen.abilities.mean))[1]
        slope = (slopes / seen.n_items[:, None]).mean(1)
        spread = np.asarray(unseen.abilities.covariance)
        of_ability = np.minimum(drawn, np.einsum("ik,ikl,il->i", slope, spread, slope))
    floor = drawn - of_ability + model
    target = _QUARTER * (drawn + chance + model)
    n_seen, n_open = seen.n_answered.sum(1), (seen.n_items - seen.n_answered).sum(1)

    def left(more: NDArray[np.float64]) -> NDArray[np.float64]:
        still = 1 - more / np.maximum(n_open, 1)
        return of_ability * still**2 * n_seen / (n_seen + more) + chance * still + floor

    least, most = np.zeros(len(n_open)), n_open
    for _ in range(_BISECTIONS):
        middle = (least + most) / 2
        enough = left(middle) <= target
        least, most = np.where(enough, least, middle), np.where(enough, middle, most)
    numbers = pd.array(np.ceil(most).astype(int), dtype="Int64")
    numbers[floor > target] = pd.NA
    return numbers

"""Scores on a whole suite of benchmarks, predicted from a few answers to calibrated items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.suite.draws import draw_unseen, expected_right, problem_of
from bayesirt.bank.suite.excess import Excess, excess_covariance, measure_excess
from bayesirt.bank.suite.summaries import (
    Columns,
    Seen,
    accuracy_draws,
    interval,
    more_anchors,
    point_predictions,
    suite_columns,
)
from bayesirt.bank.suite.table import name_order, suite_table
from bayesirt.data.responses import Responses
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.subject_scores import SubjectScores, score_subjects
from bayesirt.names import counted, one_line

__all__ = ["Excess", "SuiteScores", "measure_excess", "predict_suite"]

_N_DRAWS = 400


@dataclass(frozen=True, eq=False, repr=False)
class SuiteScores:
    """Predicted scores of subjects on whole benchmarks."""

    subjects: tuple[str, ...]
    benchmarks: tuple[str, ...]
    # shape (draw, subject, benchmark). Draws of the accuracy on the whole benchmark.
    draws: NDArray[np.float64]
    # One row per subject and benchmark: `accuracy` (posterior mean) with its 90% interval
    # (`low`, `high`), the point predictions `p_irt`, `anchor_mean` (NaN without answers to
    # anchors) and `gp_irt`, and the numbers `n_answered` and `n_items`.
    summary: pd.DataFrame
    # One row per subject, best first: `score`, the mean over benchmarks, with its `sd` and 90%
    # interval; `rank` among these subjects (median of the draws) with its interval;
    # `n_answered`; and `more_anchors`, the number of further answers that would halve the
    # interval, <NA> if only answering nearly everything would.
    suite: pd.DataFrame
    abilities: SubjectScores  # Abilities that p-IRT uses.

    def __repr__(self) -> str:
        return f"<SuiteScores: {len(self.subjects)} subjects x {len(self.benchmarks)} benchmarks>"

    def to_text(self) -> str:
        """Return a summary in words."""
        best, n = self.suite.iloc[0], len(self.subjects)
        ranks = (
            f"rank {best['rank_low']}"
            if best["rank_low"] == best["rank_high"]
            else f"rank {best['rank_low']} to {best['rank_high']}"
        )
        text = (
            f"{one_line(best['subject'])} is expected to score {best['score']:.1%} "
            f"({best['low']:.1%} to {best['high']:.1%}) over "
            f"{counted(len(self.benchmarks), 'benchmark')}, the highest of {n} subjects ({ranks})."
        )
        more = best["more_anchors"]
        if best["high"] == best["low"]:
            return f"{text} It answered everything."
        if pd.isna(more):
            return (
                f"{text} More anchors would not halve this interval: the uncertainty of items and "
                f"the model's own errors remain."
            )
        return f"{text} About {counted(int(more), 'more answer')} would halve this interval."


def predict_suite(
    items: KnownItems,
    benchmarks: Sequence[str],
    answers: Responses,
    *,
    anchors: Mapping[str, Mapping[str, float]],
    key: Array,
    excess: Mapping[str, Excess] | None = None,
    n_draws: int = _N_DRAWS,
    progress: bool = False,
) -> SuiteScores:
    """Predict the scores of subjects on whole benchmarks, had they answered all items.

    Each draw has its own abilities given answers (with a likelihood averaged over the uncertainty
    of items, see `draw_unseen`), items, chance in unseen answers (normal with their variance Σ p (1
    - p)) and excess error; seen answers are kept. The excess is that of mean errors over unseen
    items, so it is weighted by the unseen share of the benchmark. It was measured with all anchors
    answered, and is too small for a benchmark without answers. gp-IRT = λ (anchor mean) + (1 - λ)
    p-IRT with λ = e² / (v / (4n) + e²). `more_anchors` is the smallest m with A s² n / (n + m) +
    C s + R = T / 4, where A, C and R are the parts of the score's variance T due to abilities,
    chance, and items with excess, n is the number of answers, and s = 1 - m / (unseen answers): a
    new answer is as informative about abilities as an average one, and is itself no longer unseen.
    It is <NA> if R > T / 4. A uses the delta method unless items are exact, and the widths of
    intervals are assumed proportional to standard deviations. With the same names and key, the
    order of subjects and items does not matter.

    Habba et al. (2026), section 3; Polo et al. 2024 (gp-IRT).
    """
    table = suite_table(items, benchmarks, answers)
    weights = table.weights_of(anchors)
    cells = table.successes, table.trials, table.trials == 0
    problem = problem_of(table.items, table.belongs, *cells)
    of_draws, of_chance = jax.random.split(key)
    unseen = draw_unseen(problem, key=of_draws, n_draws=n_draws, progress=progress)
    abilities = score_subjects(table.responses, table.items, how="mle")
    beyond = excess_covariance(excess, table.benchmarks)
    seen = Seen.of(table)
    draws = accuracy_draws(seen, unseen, beyond, of_chance)

    accuracy = (seen.right + unseen.expected.mean(0)) / seen.n_items
    expected = expected_right(problem, abilities.theta)[0]
    columns = dict(zip(("accuracy", "low", "high"), (accuracy, *interval(draws)), strict=True))
    columns |= point_predictions(table, seen, weights, excess or {}, expected)
    n_items = np.broadcast_to(seen.n_items, accuracy.shape)
    columns |= {"n_answered": seen.n_answered, "n_items": n_items}
    suite = suite_columns(draws.mean(2), accuracy.mean(1))
    suite.insert(0, "subject", np.asarray(table.responses.subjects, object))
    suite["n_answered"] = seen.n_answered.sum(1).astype(int)
    suite["more_anchors"] = more_anchors(seen, unseen, problem, beyond)

    rows = np.argsort(name_order(answers.subjects))
    shown = tuple(dict.fromkeys(map(str, benchmarks)))
    order = np.array([table.benchmarks.index(name) for name in shown])
    columns = {name: values[rows][:, order] for name, values in columns.items()}
    return SuiteScores(
        answers.subjects,
        shown,
        draws[:, rows][:, :, order],
        _summary(answers.subjects, shown, columns),
        suite.iloc[rows].sort_values("score", ascending=False, kind="stable", ignore_index=True),
        _in_order(abilities, rows),
    )


def _in_order(scores: SubjectScores, rows: NDArray[np.intp]) -> SubjectScores:
    """Return the scores of some subjects, in the order of their positions."""
    return SubjectScores(
        tuple(scores.subjects[i] for i in rows),
        scores.theta[rows],
        scores.covariance[rows],
        scores.at_bound[rows],
    )


def _summary(
    subjects: tuple[str, ...], benchmarks: tuple[str, ...], columns: Columns
) -> pd.DataFrame:
    """Return a table with one row per subject and benchmark."""
    table = pd.DataFrame(
        {
            "subject": np.repeat(np.asarray(subjects, object), len(benchmarks)),
            "benchmark": np.tile(np.asarray(benchmarks, object), len(subjects)),
            **{name: values.ravel() for name, values in columns.items()},
        }
    )
    return table.astype({"n_answered": int, "n_items": int})

"""The check of the simple average on made-up rankings."""

import numpy as np
import pandas as pd
import pytest

from bayesirt.averages import AverageCheck, check_average
from bayesirt.posterior import Posterior
from bayesirt.ranking import rank_subjects
from bayesirt.responses import Responses


def posterior_with(difficulty: list[float], trials: np.ndarray) -> Posterior:
    """Return draws whose difficulties have these medians."""
    spread = np.linspace(-0.1, 0.1, 101)[:, None]
    b = np.asarray(difficulty) + spread
    ones = np.ones_like(b)
    theta = np.zeros((101, len(trials)))
    draws = {"theta": theta, "a": ones, "d": -b, "b": b}
    responses = Responses.from_arrays(np.zeros_like(trials), trials)
    return Posterior.from_samples({k: v[None] for k, v in draws.items()}, {}, responses, {})


def summary_of(accuracy, rank, low, high) -> pd.DataFrame:
    accuracy = np.asarray(accuracy, float)
    return pd.DataFrame(
        {
            "subject": [f"s{k}" for k in range(len(accuracy))],
            "accuracy": accuracy,
            "rank_by_accuracy": 1 + (accuracy[:, None] < accuracy).sum(1),
            "rank": rank,
            "rank_low": low,
            "rank_high": high,
        }
    )


FULL = np.ones((3, 4), int)
AGREES = summary_of([0.9, 0.5, 0.1], [1, 2, 3], [1, 1, 3], [1, 2, 3])


def test_alike_items_and_full_coverage_make_the_average_adequate():
    check = check_average(AGREES, posterior_with([0, 0.5, 1, 1.5], FULL))
    assert check.adequate
    assert check.coverage == 1
    assert check.sparsity == 0
    assert check.difficulty_gap == pytest.approx(1.5)
    assert (check.n_misplaced, check.most_misplaced) == (0, "")
    assert check.to_text() == (
        "The simple average is adequate here: coverage C = 100%, difficulty gap D = 1.5, "
        "S x D = 0.00."
    )


def test_unlike_items_or_missing_cells_alone_make_no_adequate_average():
    missing = FULL.copy()
    missing[0, 0] = 0
    for difficulty, trials in (([0, 1, 2, 2.5], FULL), ([0, 0, 0, 0.1], missing)):
        check = check_average(AGREES, posterior_with(difficulty, trials))
        assert not check.adequate
        assert check.to_text().startswith("The simple average agrees with the ranking here")
    assert check.coverage == pytest.approx(11 / 12)
    assert check.sparsity == pytest.approx(1 / 12)


def test_most_misplaced_subject_is_named():
    summary = summary_of([0.5, 0.9, 0.1, 0.7], [1, 2, 3, 4], [1, 2, 2, 4], [1, 3, 3, 4])
    check = check_average(summary, posterior_with([0, 1], np.ones((4, 2), int)))
    assert check.n_misplaced == 4
    assert not check.adequate
    # s0 is third by accuracy and surely first: two ranks away, as far as s3.
    assert check.most_misplaced == "Most of all s0: 3 by accuracy, 1 (1 to 1) by ability."
    assert "misleads for 4 subjects" in check.to_text()
    assert check.to_text().endswith(check.most_misplaced)


@pytest.mark.parametrize(("low", "high", "misplaced"), [(2, 2, 0), (1, 1, 0), (3, 3, 1)])
def test_tied_subjects_hold_all_ranks_of_their_tie(low, high, misplaced):
    summary = summary_of([0.6, 0.6, 0.2], [low, 1, 3], [low, 1, 3], [high, 2, 3])
    check = check_average(summary, posterior_with([0, 1], FULL[:, :2]))
    assert check.n_misplaced == misplaced


def test_paper_002_shows_in_a_made_up_suite():
    """One subject was run on easy items only: its average is high, its ability is not."""
    rng = np.random.default_rng(0)
    theta = np.array([2.0, 1.0, 0.0, -1.0]) + 0.1 * rng.normal(size=(400, 4))
    difficulty = np.r_[np.full(5, -2.0), np.full(5, 2.0)] + 0.1 * rng.normal(size=(400, 10))
    trials = np.full((4, 10), 100)
    trials[3, 5:] = 0
    p = 1 / (1 + np.exp(-(np.array([2.0, 1, 0, -1])[:, None] - difficulty.mean(0))))
    responses = Responses.from_arrays(np.round(trials * p), trials)
    draws = {"theta": theta, "a": np.ones((400, 10)), "d": -difficulty, "b": difficulty}
    posterior = Posterior.from_samples(
        {k: v[None] for k, v in draws.items()}, {}, responses, {"model": "2PL", "engine": "made"}
    )
    ranking = rank_subjects(posterior)
    last = ranking.summary.iloc[-1]
    assert (last["subject"], last["rank"], last["rank_by_accuracy"]) == ("subject 4", 4, 2)
    assert last["accuracy"] > last["expected_score"] + 0.2
    assert ranking.average == AverageCheck(
        0.875, pytest.approx(4, abs=0.2), 3, ranking.average.most_misplaced
    )
    assert "subject 4: 2 by accuracy, 4 (4 to 4)" in ranking.average.most_misplaced

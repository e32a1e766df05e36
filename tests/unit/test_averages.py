"""The check of the simple average, and its decision rule, on made-up rankings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_posterior import posterior_of

from bayesirt.data.responses import Responses
from bayesirt.posterior import Posterior
from bayesirt.ranking import simple_averages as averages
from bayesirt.ranking.simple_averages import (
    ERROR_LAWS,
    STUDIED,
    AverageCheck,
    AverageRule,
    average_rule,
    check_average,
    difficulty_gap,
)
from bayesirt.ranking.subject_ranking import rank_subjects


def posterior_with(difficulty: list[float], trials: np.ndarray) -> Posterior:
    """Return draws whose difficulties have these medians."""
    spread = np.linspace(-0.1, 0.1, 101)[:, None]
    b = np.asarray(difficulty) + spread
    return posterior_of(Responses.from_arrays(np.zeros_like(trials), trials), d=-b, b=b)


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
        "S x D = 0.00. Every subject answered every item. Rank by the simple average or by ability."
    )


def test_full_tables_may_have_unlike_items_and_others_no_missing_cell():
    missing = FULL.copy()
    missing[0, 0] = 0
    full = check_average(AGREES, posterior_with([0, 1, 2, 9], FULL))
    assert full.adequate
    assert "may mislead" not in AverageRule(1.0, 9.0, 3, 4, 1).to_text()
    check = check_average(AGREES, posterior_with([0, 0, 0, 0.1], missing))
    assert not check.adequate
    assert check.to_text().startswith("The simple average gives the same ranking here, within its")
    assert check.coverage == pytest.approx(11 / 12)
    assert check.sparsity == pytest.approx(1 / 12)


def test_most_misplaced_subject_is_named():
    summary = summary_of([0.5, 0.9, 0.1, 0.7], [1, 2, 3, 4], [1, 2, 2, 4], [1, 3, 3, 4])
    full = check_average(summary, posterior_with([0, 1], np.ones((4, 2), int)))
    assert full.to_text().startswith("Accuracy and ability place 4 subjects differently: ")
    assert full.advice.startswith("Report both: ")
    check = replace(full, coverage=0.9)
    assert check.n_misplaced == 4
    assert not check.adequate
    # s0 is third by accuracy and credibly first: two ranks away, as far as s3.
    assert check.most_misplaced == "Most misplaced is s0: 3 by accuracy, 1 (1 to 1) by ability."
    assert "misleads for 4 subjects" in check.to_text()
    assert f" {check.most_misplaced} Our rule for the expected error" in check.to_text()
    assert check.to_text().endswith(" Rank by ability, and report the simple average beside it.")


@pytest.mark.parametrize(("low", "high", "misplaced"), [(2, 2, 0), (1, 1, 0), (3, 3, 1)])
def test_tied_subjects_hold_all_ranks_of_their_tie(low, high, misplaced):
    summary = summary_of([0.6, 0.6, 0.2], [low, 1, 3], [low, 1, 3], [high, 2, 3])
    check = check_average(summary, posterior_with([0, 1], FULL[:, :2]))
    assert check.n_misplaced == misplaced


def test_paper_002_shows_in_a_made_up_suite():
    """One subject answered only easy items: its average is high, its ability is not."""
    rng = np.random.default_rng(0)
    theta = np.array([2.0, 1.0, 0.0, -1.0]) + 0.1 * rng.normal(size=(4000, 4))
    difficulty = np.r_[np.full(5, -2.0), np.full(5, 2.0)] + 0.1 * rng.normal(size=(4000, 10))
    trials = np.full((4, 10), 100)
    trials[3, 5:] = 0
    p = 1 / (1 + np.exp(-(np.array([2.0, 1, 0, -1])[:, None] - difficulty.mean(0))))
    responses = Responses.from_arrays(np.round(trials * p), trials)
    made = {"model": "2PL", "engine": "made"}
    ranking = rank_subjects(
        posterior_of(responses, theta=theta, d=-difficulty, b=difficulty, attrs=made)
    )
    last = ranking.summary.iloc[-1]
    assert (last["subject"], last["rank"], last["rank_by_accuracy"]) == ("subject 4", 4, 2)
    assert last["accuracy"] > last["expected_score"] + 0.2
    assert ranking.average == AverageCheck(
        0.875, pytest.approx(4, abs=0.2), 4, 10, 100, 3, ranking.average.most_misplaced
    )
    assert "subject 4: 2 by accuracy, 4 (4 to 4)" in ranking.average.most_misplaced


def test_draws_that_are_not_sound_judge_no_average():
    check = replace(check_average(AGREES, posterior_with([0, 0.5, 1, 1.5], FULL)), sound=False)
    assert "cannot be judged by draws that are not sound" in check.to_text()
    assert check.to_text().endswith("Follow the verdict first.")
    assert "Rank by" not in check.to_text()


STUDIED_RULE = AverageRule(0.5, 2.0, 10, 10, 100)


def test_the_expected_error_is_read_off_the_surface():
    """S x D is 1 in the studied rule, so each law returns its scale."""
    expected = STUDIED_RULE.expected_error
    assert expected == {mask: law.scale for mask, law in ERROR_LAWS.items()}
    assert STUDIED_RULE.to_text() == (
        "The simple average may mislead here: coverage C = 50%, difficulty gap D = 2.0, S x D = "
        "1.00. Expected ranking error 1 - rho of the average: 0.03 if cells are missing at "
        "random, 0.04 if abler subjects met harder items. Rank by ability, and report the simple "
        "average beside it. D is from a quick joint MAP estimate; rank takes D from the posterior, "
        "and names the subjects that the average misplaces."
    )
    steeper = AverageRule(0.4, 3.0, 10, 10, 100)
    for mask, law in ERROR_LAWS.items():
        assert steeper.expected_error[mask] == pytest.approx(law.scale * 1.8**law.exponent)
    assert AverageRule(1.0, 3.0, 10, 10, 100).expected_error == {"random": 0, "biased": 0}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n_subjects": 1200}, "1,200 subjects"),
        ({"n_items": 6}, "6 items"),
        ({"trials": 1}, "1 trial per cell"),
        ({"trials": 21}, "21 trials per cell"),
        ({"coverage": 0.25}, "S = 0.75"),
        ({"difficulty_gap": 4.5}, "D = 4.5"),
        ({"difficulty_gap": float("nan")}, "an unknown D"),
    ],
)
def test_outside_the_studied_ranges_there_is_no_expected_error(changed, words):
    rule = replace(STUDIED_RULE, **changed)
    assert rule.unstudied == [words]
    assert rule.expected_error is None
    assert f"not tested at {words}. " in rule.to_text()
    assert not rule.adequate


def test_the_ends_of_the_studied_ranges_are_inside():
    for coverage in (1.0, 1 - STUDIED["S"][1]):
        for gap in STUDIED["D"]:
            assert AverageRule(coverage, gap, 10, 10, 100).unstudied == []


def test_rule_and_check_speak_with_one_voice():
    check = AverageCheck(0.5, 2.0, 10, 10, 100, 0, "")
    assert check.to_text().startswith("The simple average gives the same ranking here, within its")
    assert check.to_text().split("S x D = 1.00. ")[1] in STUDIED_RULE.to_text()
    misplaced = AverageCheck(0.96, 1.0, 10, 10, 100, 1, "Most misplaced is s.")
    assert not misplaced.adequate
    assert AverageRule(0.96, 1.0, 10, 10, 100).adequate
    assert "misleads for 1 subject: " in misplaced.to_text()


def test_an_ability_that_explains_nothing_does_not_judge_averages():
    check = AverageCheck(0.9, 3.0, 10, 10, 100, 4, "Most misplaced is s.", one_ability=False)
    assert "Rank by ability" not in check.to_text()
    assert "Most misplaced is" not in check.to_text()
    assert check.to_text().endswith("Rank by accuracy, with its own intervals, and not by ability.")


def test_the_rule_of_a_fit_takes_its_difficulties_and_not_raw_rates():
    rng = np.random.default_rng(0)
    theta, b = np.linspace(-2, 2, 10), np.linspace(-1.5, 1.5, 10)
    trials = np.full((10, 10), 100)
    trials[:5, 5:] = 0
    p = 1 / (1 + np.exp(-2 * (theta[:, None] - b)))
    responses = Responses.from_arrays(rng.binomial(trials, p), trials)
    rule = average_rule(responses)
    assert rule is not None
    assert (rule.coverage, rule.n_subjects, rule.n_items, rule.trials) == (0.75, 10, 10, 100)
    assert rule.difficulty_gap == pytest.approx(3 / theta.std(), rel=0.15)
    assert rule.unstudied == []


def test_data_too_large_for_a_fit_leave_the_gap_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(averages, "_MOST_RESPONSES", 11)
    rule = average_rule(Responses.from_arrays(np.tri(4, 3)))
    assert rule is not None
    assert "difficulty gap D = unknown, S x D = unknown" in rule.to_text()
    assert not replace(rule, coverage=0.96).adequate


def test_items_without_a_difficulty_have_no_part_in_the_gap():
    b, a = np.array([np.nan, 2.0, -1.0, np.inf, 160.0]), np.array([1, 1, -1, 1, 0.02])
    assert difficulty_gap(b, a) == 3
    assert np.isnan(difficulty_gap(b[:1], a[:1]))

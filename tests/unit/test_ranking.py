"""Ranks, sets and tiers against brute force over all pairs and draws."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from made_posterior import of_four_chains as made
from scipy.special import expit

from bayesirt.posterior import Posterior
from bayesirt.ranking import pairwise
from bayesirt.ranking.kept_ranking import kept_ranking
from bayesirt.ranking.pairwise import probability_above, surely_above
from bayesirt.ranking.run_folder import load_run, pairs_table, save_run
from bayesirt.ranking.score_draws import draw_scores, key_of
from bayesirt.ranking.subject_ranking import rank_subjects, ranks_of_draws, tiers

CHAINS, DRAWS = 4, 250


def drawn(
    n_subjects: int, n_items: int, samples: int = CHAINS * DRAWS, coverage: float = 0.6
) -> Posterior:
    rng = np.random.default_rng(0)
    truth = np.linspace(1.5, -1.5, n_subjects)[rng.permutation(n_subjects)]
    theta = truth + 0.3 * rng.normal(size=(samples, n_subjects)) + rng.normal(size=(samples, 1))
    a = np.exp(0.2 * rng.normal(size=(samples, n_items)))
    d = np.linspace(-2, 2, n_items) + 0.2 * rng.normal(size=(samples, n_items))
    trials = rng.integers(1, 4, (n_subjects, n_items))
    trials *= rng.uniform(size=trials.shape) < coverage
    trials[0], trials[:, 0] = 1, 1
    p = expit(truth[:, None] + np.linspace(-2, 2, n_items))
    return made(theta, a, d, rng.binomial(trials, p), trials)


POSTERIOR = drawn(12, 9)
RANKING = rank_subjects(POSTERIOR)
ORDER = np.argsort(-POSTERIOR.theta.mean(0))
THETA = POSTERIOR.reported.theta[:, ORDER]


def brute_surely_above(theta: np.ndarray, level: float) -> np.ndarray:
    delta = theta[:, :, None] - theta[:, None, :]
    mean, sd = delta.mean(0), delta.std(0, ddof=1)
    np.fill_diagonal(sd, np.inf)
    cut = np.quantile((np.abs(delta - mean) / sd).max((1, 2)), level)
    return mean > cut * sd


def test_ranks_count_the_subjects_above():
    expected = 1 + (THETA[:, None, :] > THETA[:, :, None]).sum(2)
    np.testing.assert_array_equal(ranks_of_draws(THETA), expected)


@pytest.mark.parametrize("samples", [1, 399, 400, 1000], ids="{} draws".format)
def test_probability_above_counts_draws(samples):
    theta = THETA[:samples]
    expected = (theta[:, :, None] > theta[:, None, :]).mean(0)
    np.fill_diagonal(expected, 0.5)
    np.testing.assert_allclose(probability_above(theta), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(expected + expected.T, 1)


@pytest.mark.parametrize("samples", [399, 400, 1000], ids="{} draws".format)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_surely_above_is_the_simultaneous_set(samples, level):
    own = surely_above(THETA[:samples], level)
    np.testing.assert_array_equal(own, brute_surely_above(THETA[:samples], level))
    assert 5 < own.sum() < 66


@pytest.mark.parametrize("shared", [0.0, 1.0], ids=["apart", "moving together"])
def test_surely_above_of_many_subjects_is_the_same_set(shared):
    """A few subjects are searched for the farthest pair, or all if abilities are correlated."""
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(1, 130))
    common = shared * rng.normal(size=(300, 3)) @ rng.normal(size=(3, 130))
    theta = truth + 0.2 * (rng.normal(size=(300, 130)) + common)
    own = surely_above(theta, 0.9)
    np.testing.assert_array_equal(own, brute_surely_above(theta, 0.9))
    assert 0 < own.sum() < 130 * 129 / 2


def test_farthest_pairs_are_found_among_few_subjects(monkeypatch):
    theta = np.random.default_rng(4).normal(size=(200, 600)).astype(np.float32)
    theta -= theta.mean(0)
    sd = pairwise._sd_of_differences(theta)
    found = pairwise._farthest_of_draws(theta, sd)
    monkeypatch.setattr(pairwise, "_FARTHEST_FEW", ())
    np.testing.assert_array_equal(found, pairwise._farthest_of_draws(theta, sd))


@pytest.mark.parametrize("n_subjects", [40, 700])
def test_probability_above_by_ranks_counts_the_same_draws(n_subjects, monkeypatch):
    rng = np.random.default_rng(3)
    truth = np.linspace(3, -3, n_subjects)[rng.permutation(n_subjects)]
    theta = truth + 0.2 * rng.normal(size=(50, n_subjects))
    exact = probability_above(theta)
    monkeypatch.setattr(pairwise, "WIDE", 30)
    by_rank = probability_above(theta, ranks_of_draws(theta))
    np.testing.assert_array_equal(by_rank, exact)
    np.testing.assert_array_equal(surely_above(theta, 0.9), brute_surely_above(theta, 0.9))


def test_all_statements_hold_at_once_at_the_level():
    """With the second half of the draws as truths, all statements must hold at once in 90%.

    The share has a standard error of 0.7%, so a correct rule fails with a new key once in 10^4.
    """
    rng = np.random.default_rng(5)
    truth = np.sort(rng.normal(size=15))[::-1]
    theta = truth + 0.3 * rng.normal(size=(4000, 15))
    sure = surely_above(theta[:2000], 0.9)
    delta = theta[2000:, :, None] - theta[2000:, None, :]
    assert sure.sum() > 20
    assert (delta > 0)[:, sure].all(1).mean() > 0.9 - 4 * 0.007


def test_two_subjects_are_told_apart_at_their_own_probability():
    rng = np.random.default_rng(0)
    for shift, sure in ((0.5, False), (4.0, True)):
        theta = rng.normal([shift, 0], size=(1000, 2))
        summary = rank_subjects(
            made(theta, *(np.ones((1000, 3)),) * 2, [[1, 1, 0], [1, 0, 0]], np.ones((2, 3)))
        ).summary
        assert summary["tier"].tolist() == [1, 1 + sure]


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ([], [1, 1, 1, 1]),
        ([(0, 3)], [1, 1, 1, 2]),
        ([(0, 1), (0, 2), (0, 3), (1, 3)], [1, 2, 2, 3]),
        ([(0, 2), (0, 3), (1, 3)], [1, 1, 2, 2]),  # tier 2 is led by 2, so 1 above 3 is irrelevant
        ([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], [1, 2, 3, 4]),
    ],
)
def test_tier_ends_before_the_first_that_its_first_is_surely_above(above, expected):
    sure = np.zeros((4, 4), bool)
    for pair in above:
        sure[pair] = True
    assert tiers(sure).tolist() == expected


def test_summary_is_what_the_draws_say():
    summary, ranks = RANKING.summary, ranks_of_draws(THETA)
    names = np.asarray(POSTERIOR.subjects)[ORDER]
    assert summary["subject"].tolist() == names.tolist()
    assert (np.diff(summary["ability"]) < 0).all()
    np.testing.assert_allclose(summary["ability_sd"], THETA.std(0, ddof=1))
    np.testing.assert_allclose(summary["ability_low"], np.quantile(THETA, 0.05, axis=0))
    np.testing.assert_allclose(summary["ability_high"], np.quantile(THETA, 0.95, axis=0))
    low, median, high = (
        np.sort(ranks, 0)[int(np.ceil(q * len(ranks))) - 1] for q in (0.05, 0.5, 0.95)
    )
    place = 1 + (median[:, None] > median).sum(1)
    np.testing.assert_array_equal(summary["rank"], place)
    np.testing.assert_array_equal(summary["rank_low"], np.minimum(low, place))
    np.testing.assert_array_equal(summary["rank_high"], np.maximum(high, place))
    np.testing.assert_allclose(summary["p_best"], (ranks == 1).mean(0))
    trials, successes = POSTERIOR.trials[ORDER], POSTERIOR.successes[ORDER]
    np.testing.assert_allclose(summary["accuracy"], successes.sum(1) / trials.sum(1))
    np.testing.assert_array_equal(summary["n_items"], (trials > 0).sum(1))
    np.testing.assert_array_equal(summary["n_trials"], trials.sum(1))
    better = summary["accuracy"].to_numpy()[:, None] < summary["accuracy"].to_numpy()
    np.testing.assert_array_equal(summary["rank_by_accuracy"], 1 + better.sum(1))
    scores = draw_scores(POSTERIOR, key=key_of(POSTERIOR))
    np.testing.assert_allclose(summary["expected_score"], scores.expected.mean(0)[ORDER])
    low, high = np.quantile(scores.realised, [0.05, 0.95], axis=0)[:, ORDER]
    mean = summary["expected_score"]
    np.testing.assert_allclose(summary["expected_score_low"], np.minimum(low, mean))
    np.testing.assert_allclose(summary["expected_score_high"], np.maximum(high, mean))
    counts = np.stack([(ranks == r).mean(0) for r in range(1, 13)], 1)
    np.testing.assert_allclose(RANKING.rank_probabilities, counts)
    np.testing.assert_allclose(
        RANKING.pairwise.loc[names[2], names[5]], (THETA[:, 2] > THETA[:, 5]).mean()
    )


def test_the_first_row_is_rank_1_and_equal_answers_share_their_rank():
    """Of 40 subjects with equal answers, none is often best, and only chance orders them."""
    n_alike = 40
    theta = np.random.default_rng(3).normal(size=(CHAINS * DRAWS, n_alike + 2))
    theta[:, -2:] -= [4, 9]
    items, trials = np.ones((CHAINS * DRAWS, 3)), np.ones((n_alike + 2, 3))
    successes = np.vstack([np.ones((n_alike, 3)), [[1, 1, 0], [1, 0, 0]]])
    table = rank_subjects(made(theta, items, items, trials, successes)).summary
    assert table["rank"].tolist() == [1] * n_alike + [n_alike + 1, n_alike + 2]
    assert (table["rank_low"].iloc[:n_alike] == 1).all()
    assert ((table["rank_low"] <= table["rank"]) & (table["rank"] <= table["rank_high"])).all()
    assert (table["rank_set_low"] <= table["rank_low"]).all()


def test_rank_sets_hold_the_rank_and_are_at_least_as_wide_as_one_interval():
    s = RANKING.summary
    position = np.arange(1, 13)
    assert ((s["rank_set_low"] <= s["rank_low"]) & (s["rank_high"] <= s["rank_set_high"])).all()
    assert ((s["rank_set_low"] <= position) & (position <= s["rank_set_high"])).all()
    assert (s["rank_set_high"] - s["rank_set_low"]).max() < 11
    standard = (THETA - THETA.mean(1, keepdims=True)) / THETA.std(1, keepdims=True)
    sure = brute_surely_above(standard, 0.9)
    np.testing.assert_array_equal(s["rank_set_low"], 1 + sure.sum(0))
    np.testing.assert_array_equal(s["rank_set_high"], 12 - sure.sum(1))
    np.testing.assert_array_equal(s["tier"], tiers(sure))
    assert s["tier"].max() > 2


def test_two_that_are_not_surely_apart_are_one_tier():
    """Standardised draws of two subjects are 1 and -1, so their difference seems not to vary."""
    rng = np.random.default_rng(5)
    theta = rng.normal([0.72, -0.72], 0.7, (CHAINS * DRAWS, 2))
    items = np.ones((CHAINS * DRAWS, 3))
    table = rank_subjects(made(theta, items, items, np.ones((2, 3)), np.ones((2, 3)))).summary
    assert 0.9 < table["p_best"].iloc[0] < 0.95
    assert table["tier"].tolist() == [1, 1]
    assert table["rank_high"].iloc[0] == table["rank_set_high"].iloc[0] == 2


def test_a_loaded_run_keeps_its_verdict(small_run, tmp_path):
    save_run(small_run, tmp_path, "")
    loaded = load_run(tmp_path).posterior
    kept = loaded.__dict__["verdict"]
    found = asdict(kept) | {"complaints": list(kept.complaints)}
    stored = json.loads((tmp_path / "run.json").read_text())["diagnostics"]
    assert {name: repr(x) for name, x in found.items()}.items() <= {
        name: repr(x) for name, x in stored.items()
    }.items()
    assert loaded.reported.verdict is kept


def test_ranking_does_not_see_location_and_scale_of_a_draw():
    rng = np.random.default_rng(1)
    theta, (a, d) = POSTERIOR.theta, (POSTERIOR.draws(name) for name in "ad")
    scale, shift = np.exp(rng.normal(size=(1000, 1))), 5 * rng.normal(size=(1000, 1))
    moved = made(
        theta * scale + shift,
        a / scale,
        d - a / scale * shift,
        POSTERIOR.successes,
        POSTERIOR.trials,
    )
    columns = ["rank_low", "rank", "rank_high", "rank_set_low", "rank_set_high", "p_best"]
    one, other = (r.summary.set_index("subject")[columns] for r in (RANKING, rank_subjects(moved)))
    np.testing.assert_array_equal(one.sort_index(), other.sort_index())


def test_hostile_names_are_escaped_in_html():
    theta = np.random.default_rng(0).normal(size=(1000, 2))
    ones = np.ones((1000, 2))
    posterior = made(theta, ones, ones, [[1, 0], [1, 1]], np.ones((2, 2)))
    posterior.tree["posterior"] = posterior.dataset.assign_coords(subject=["<b>x", "y"])
    html = rank_subjects(posterior).to_html()
    assert "&lt;b&gt;x" in html
    assert "<b>x" not in html


RANKS_ALONE = 40
"""Largest time of a ranking, relative to two sorts of each draw on the same machine."""
LARGE = """
import time
from pathlib import Path
import numpy as np
from bayesirt import Posterior, Responses, rank_subjects
rng = np.random.default_rng(0)
n, j, samples = 2000, 20, 4000
theta = rng.normal(size=(1, 1, n)) + 0.3 * rng.normal(size=(4, samples // 4, n))
items = rng.normal(size=(2, 4, samples // 4, j))
trials = (rng.uniform(size=(n, j)) < 0.8).astype(int)
trials[:, 0] = trials[0] = 1
responses = Responses.from_arrays(rng.binomial(trials, 0.5), trials)
draws = {"theta": theta, "a": np.exp(items[0]), "d": items[1], "b": -items[1] / np.exp(items[0])}
posterior = Posterior.from_samples(draws, {}, responses, {"model": "2PL", "engine": "made"})
began = time.perf_counter(), time.process_time()
rank_subjects(posterior)
wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
status = Path("/proc/self/status").read_text()  # ru_maxrss would begin with the parent's
began = time.process_time()
np.argsort(np.argsort(theta, kind="stable"), kind="stable")  # ranks, and nothing else
print(wall, cpu, time.process_time() - began, int(status.split("VmHWM:")[1].split()[0]) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_two_thousand_subjects_are_ranked_in_seconds():
    own = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}  # optimised, as for users
    done = subprocess.run(
        [sys.executable, "-c", LARGE], capture_output=True, text=True, check=True, env=own
    )
    wall, cpu, ranks, gib = map(float, done.stdout.split())
    print(f"2000 subjects x 4000 draws x 20 items: {wall:.1f} s, CPU {cpu:.1f} s, {gib:.2f} GiB")
    print(f"ranks alone: CPU {ranks:.2f} s")
    assert cpu < RANKS_ALONE * ranks
    assert gib < 4


def test_pairs_of_many_subjects_are_written_for_neighbours_only(monkeypatch):
    whole = pairs_table(RANKING.pairwise)
    np.testing.assert_array_equal(whole.iloc[:, 1:], RANKING.pairwise)
    monkeypatch.setattr("bayesirt.ranking.run_folder._MOST_SQUARE", 11)
    monkeypatch.setattr("bayesirt.ranking.run_folder._NEIGHBOURS", 3)
    table = pairs_table(RANKING.pairwise)
    assert len(table) == 9 * 3 + 2 + 1
    for row in table.itertuples():
        assert row.p_above == RANKING.pairwise.loc[row.subject, row.other]
    place = {name: k for k, name in enumerate(RANKING.summary["subject"])}
    apart = table["other"].map(place) - table["subject"].map(place)
    assert set(apart) == {1, 2, 3}


def test_a_saved_run_keeps_its_ranking_exactly(small_run, tmp_path, monkeypatch):
    save_run(small_run, tmp_path, "")
    again = rank_subjects(small_run.posterior)
    monkeypatch.setattr("bayesirt.ranking.run_folder.ranked", None)  # the stored ranking is used
    kept = load_run(tmp_path).ranking
    pd.testing.assert_frame_equal(kept.summary, again.summary, check_exact=True)
    pd.testing.assert_frame_equal(kept.pairwise, again.pairwise, check_exact=True)
    np.testing.assert_array_equal(kept.rank_probabilities, again.rank_probabilities)
    assert kept.average == again.average


def test_a_ranking_that_another_version_made_is_made_again(small_run, tmp_path):
    other = replace(small_run, posterior=small_run.posterior.with_attrs(bayesirt_version="0.0.1"))
    save_run(other, tmp_path, "")
    assert kept_ranking(Posterior.load(tmp_path / "posterior.nc")) is None

"""Draws of scores, compared with answers drawn one by one and with closed forms."""

import jax
import numpy as np
import pytest
from made_posterior import of_four_chains as made
from scipy.special import expit, ndtr
from scipy.stats import rankdata

from bayesirt.posterior import Posterior
from bayesirt.ranking.residual_excess import excess_factor
from bayesirt.ranking.score_draws import draw_scores, key_of, score_ranks
from bayesirt.ranking.subject_ranking import rank_subjects

KEY = jax.random.key(0)


def drawn(coverage: float = 0.6, samples: int = 1000, trials: int = 1) -> Posterior:
    """Return draws of twelve subjects with answers to some of nine items."""
    rng = np.random.default_rng(0)
    truth, level = np.linspace(1.5, -1.5, 12), np.linspace(-2, 2, 9)
    theta = truth + 0.3 * rng.normal(size=(samples, 12))
    a = np.exp(0.2 * rng.normal(size=(samples, 9)))
    d = level + 0.2 * rng.normal(size=(samples, 9))
    counts = trials * (rng.uniform(size=(12, 9)) < coverage)
    counts[0], counts[:, 0] = trials, trials
    return made(theta, a, d, rng.binomial(counts, expit(truth[:, None] + level)), counts)


def probabilities(posterior: Posterior) -> np.ndarray:
    theta, a, d = (posterior.draws(name) for name in ("theta", "a", "d"))
    return expit(theta[:, :, None] * a[:, None] + d[:, None])


def test_expected_scores_keep_answers_and_expect_the_others():
    posterior = drawn(trials=2)
    share = posterior.successes / np.maximum(posterior.trials, 1)
    expected = np.where(posterior.trials > 0, share, probabilities(posterior)).mean(2)
    own = draw_scores(posterior, key=KEY).expected
    np.testing.assert_allclose(own, expected, rtol=0, atol=1e-12)


def test_the_link_is_that_of_the_model():
    own = drawn()
    draws = (own.draws(name) for name in ("theta", "a", "d"))
    probit = made(*draws, own.successes, own.trials, "probit")
    scores = draw_scores(probit, key=KEY)
    share = own.successes / np.maximum(own.trials, 1)
    theta, a, d = (own.draws(name) for name in ("theta", "a", "d"))
    p = ndtr(theta[:, :, None] * a[:, None] + d[:, None])
    np.testing.assert_allclose(scores.expected, np.where(own.trials > 0, share, p).mean(2))
    assert np.isfinite(scores.realised).all()


def test_nobody_scores_below_what_guessing_gives():
    own = drawn()
    theta, a, d = (own.draws(name) for name in ("theta", "a", "d"))
    c = np.random.default_rng(2).uniform(0.1, 0.4, d.shape)
    guessed = made(theta, a, d, own.successes, own.trials, "guessing", c=c)
    share = own.successes / np.maximum(own.trials, 1)
    p = c[:, None] + (1 - c[:, None]) * probabilities(own)
    expected = np.where(own.trials > 0, share, p).mean(2)
    np.testing.assert_allclose(draw_scores(guessed, key=KEY).expected, expected, rtol=1e-10)


@pytest.mark.parametrize("trials", [1, 3])
def test_realised_scores_are_distributed_as_answers_drawn_one_by_one(monkeypatch, trials):
    """Frequencies of 20,000 draws differ by at most .02, beyond a sampling error of .014 (4 sd)."""
    monkeypatch.setattr("bayesirt.ranking.score_draws._MOST_DRAWS", 20_000)
    monkeypatch.setattr(
        "bayesirt.ranking.score_draws.excess_factor", lambda p, _: np.ones(len(p.trials))
    )
    posterior = drawn(0.5, 20_000, trials)
    missing = posterior.trials == 0
    rng = np.random.default_rng(1)
    answers = rng.binomial(trials, probabilities(posterior)) / trials
    share = posterior.successes / np.maximum(posterior.trials, 1)
    brute = np.where(missing, answers, share).sum(2)
    own = 9 * draw_scores(posterior, key=KEY).realised
    for i in np.flatnonzero(missing.sum(1) >= 2):
        values = np.unique(np.round(np.concatenate([own[:, i], brute[:, i]]), 6))
        shares = [(x[:, i, None] <= values + 1e-5).mean(0) for x in (own, brute)]
        np.testing.assert_allclose(*shares, rtol=0, atol=0.034)


def test_scores_of_complete_data_are_those_seen():
    posterior = drawn(1.0)
    scores, seen = draw_scores(posterior, key=KEY), posterior.successes.mean(1)
    for draws in (scores.expected, scores.realised):
        np.testing.assert_allclose(draws, np.broadcast_to(seen, draws.shape), atol=1e-12)
    table = rank_subjects(posterior).summary
    np.testing.assert_allclose(table["expected_score_low"], table["expected_score_high"])


def test_population_scores_of_complete_data_have_the_moments_of_a_dirichlet(monkeypatch):
    """Items have the parameter 1, a right and a wrong answer ½ each; 5 standard errors."""
    monkeypatch.setattr("bayesirt.ranking.score_draws._MOST_DRAWS", 20_000)
    posterior = drawn(1.0, 20_000)
    draws = draw_scores(posterior, key=KEY).population
    n_right = posterior.successes.sum(1)
    mean = (n_right + 0.5) / 10
    variance = mean * (1 - mean) / 11
    np.testing.assert_allclose(draws.mean(0), mean, atol=5 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.07, atol=1e-12)


def test_a_perfect_score_is_not_certain_to_stay_the_best():
    right = np.ones((20, 30), int)
    right[1:, 0], right[2:, 1:6] = 0, 0
    d = np.zeros((400, 30))
    posterior = made(np.zeros((400, 20)), d + 1, d, right, np.ones_like(right))
    draws = draw_scores(posterior, key=KEY).population
    low, high = np.quantile(draws[:, 0], [0.05, 0.95])
    assert 0.9 < low < 0.99 < high <= 1
    assert score_ranks(draws)["score_rank_high"][0] > 1


def test_draws_are_thinned_evenly_when_large(monkeypatch):
    posterior = drawn()
    full = draw_scores(posterior, key=KEY).expected
    missing = posterior.trials == 0
    cells = missing.any(1).sum() * missing.any(0).sum()
    monkeypatch.setattr("bayesirt.ranking.score_draws._CELL_DRAWS", 1000 * int(cells) // 3 + 1)
    np.testing.assert_allclose(draw_scores(posterior, key=KEY).expected, full[::3])
    assert len(rank_subjects(posterior).summary) == 12


def test_numbers_depend_on_the_posterior_alone():
    one, other = (rank_subjects(drawn(), population=True).summary for _ in range(2))
    assert one.equals(other)
    columns = {f"population_score{end}" for end in ("", "_low", "_high")}
    assert columns <= set(one)
    assert not columns & set(rank_subjects(drawn()).summary)
    keys = [jax.random.key_data(key_of(drawn(share))).tolist() for share in (0.6, 0.9)]
    assert keys[0] != keys[1]


def test_score_ranks_are_places_by_medians_and_equal_scores_share_the_best(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("bayesirt.ranking.score_draws._shrunk", lambda draws: draws)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 5, (400, 7)) / 5
    ranks = rankdata(-draws, method="min", axis=1)
    own = score_ranks(draws)
    low, median, high = (np.sort(ranks, 0)[int(np.ceil(q * 400)) - 1] for q in (0.05, 0.5, 0.95))
    assert median.min() > 1
    place = 1 + (median[:, None] > median).sum(1)
    np.testing.assert_array_equal(own["score_rank"], place)
    np.testing.assert_array_equal(own["score_rank_low"], np.minimum(low, place))
    np.testing.assert_array_equal(own["score_rank_high"], np.maximum(high, place))


def with_a_trait(sd: float, seed: int = 0) -> Posterior:
    """Return 200 subjects, of whom 40 lack the 30 of 60 items that share a trait of this sd."""
    rng = np.random.default_rng(seed)
    theta, d = rng.normal(size=200), rng.normal(size=60)
    eta = theta[:, None] + d
    eta[:, :30] += sd * rng.normal(size=(200, 1))
    trials = np.ones((200, 60), int)
    trials[:40, :30] = 0
    successes = rng.binomial(trials, expit(eta))
    best = np.zeros(200)
    for _ in range(20):  # the mode of each ability, items known
        p = expit(best[:, None] + d)
        score = (successes - trials * p).sum(1) - best
        best += score / (1 + (trials * p * (1 - p)).sum(1))
    return made(np.tile(best, (40, 1)), np.ones((40, 60)), np.tile(d, (40, 1)), successes, trials)


def test_no_excess_is_found_where_answers_have_ability_alone_in_common():
    """A factor is 1 plus a mean over 160 donors of variance 2; over 20 sets the error is .025."""
    factors = [excess_factor(with_a_trait(0, s), np.random.default_rng(0))[0] for s in range(20)]
    assert np.mean(factors) < 1.05 + 0.1
    assert np.min(factors) >= 1


def test_a_trait_that_missing_items_share_widens_their_scores():
    posterior = with_a_trait(0.7)
    factor = excess_factor(posterior, np.random.default_rng(0))
    assert (factor[:40] > 2).all()
    assert (factor[40:] == 1).all()
    scores = draw_scores(posterior, key=KEY)
    plain = draw_scores(with_a_trait(0), key=KEY)
    assert np.ptp(scores.realised[:, :40], 0).mean() > np.ptp(plain.realised[:, :40], 0).mean()


def test_equal_answers_share_a_place_by_score():
    right = np.ones((5, 8), int)
    right[2:, 0], right[3:, 1:4] = 0, 0
    d = np.zeros((400, 8))
    theta = np.random.default_rng(0).normal(size=(400, 5))
    posterior = made(theta, d + 1, d, right, np.ones_like(right))
    table = rank_subjects(posterior).summary.set_index("subject")
    assert table["score_rank"].loc[list(posterior.subjects)].to_list() == [1, 1, 3, 4, 4]

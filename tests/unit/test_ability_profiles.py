"""Profiles summarise the draws that they are made from."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.models.q_mirt import DIMS
from bayesirt.posterior import Posterior
from bayesirt.profiles.ability_profiles import BORROWED, MEASURED, PRIOR, profile_abilities
from bayesirt.ranking.subject_ranking import ranks_of_draws

N, CHAINS, DRAWS = 30, 2, 200
Q = QMatrix.from_arrays(
    [[1, 0, 0]] * 12 + [[0, 1, 0]] * 12 + [[0, 0, 1]], abilities=["algebra", "=logic", "<b>"]
)


def posterior(noise=(0.2, 0.2, 2.0), correlation=0.3, slope=1.5, trials=None) -> Posterior:
    """Return draws around true abilities of unit spread, with noise of a known size."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(N, 3))
    theta = truth + np.asarray(noise) * rng.normal(size=(CHAINS, DRAWS, N, 3))
    omega = np.where(np.eye(3, dtype=bool), 1, correlation)
    shape = (CHAINS, DRAWS)
    samples = {
        "theta": theta,
        "a": np.full((*shape, Q.n_loadings), slope),
        "d": np.zeros((*shape, Q.n_items)),
        "beta": rng.normal(np.array([1, 0, 0]), size=(*shape, 3)),
        "mu_b": np.broadcast_to([0.0, 2.0, 0.0], (*shape, 3)),
        "mu_a": np.full(shape, np.log(slope)),
        "correlation": np.broadcast_to(omega, (*shape, 3, 3)),
    }
    trials = np.ones((N, Q.n_items), int) if trials is None else trials
    responses = Responses.from_arrays(rng.binomial(trials, 0.5), trials=trials)
    coords = {k: v for k, v in Q.coords().items() if k in ("ability", "ability_other", "loading")}
    return Posterior.from_samples(samples, {}, responses, {}, coords=coords, dims=DIMS)


def test_reliability_is_the_share_of_variance_that_is_no_uncertainty():
    drawn = posterior()
    theta = drawn.draws("theta")
    known, unknown = theta.mean(0).var(0), theta.var(0, ddof=1).mean(0)
    table = profile_abilities(drawn, Q).abilities
    np.testing.assert_allclose(table["reliability"], known / (known + unknown))
    assert table["reliability"][0] > 0.9 > 0.5 > table["reliability"][2]


def test_own_reliability_is_that_of_the_items_alone():
    """With simple structure and d = 0, an item's information is a² p (1 - p)."""
    drawn = posterior()
    mean = drawn.draws("theta").mean(0)
    chance = expit(1.5 * mean)
    information = np.array([12, 12, 1]) * 1.5**2 * chance * (1 - chance)
    expected = 1 - (1 / (1 + information)).mean(0)
    np.testing.assert_allclose(profile_abilities(drawn, Q).abilities["own"], expected, rtol=1e-12)


def test_standing_says_where_knowledge_comes_from():
    of = profile_abilities(posterior(), Q).abilities
    assert of["standing"].tolist() == [MEASURED, MEASURED, PRIOR]
    assert of["ranked"].tolist() == [True, True, False]
    borrowed = profile_abilities(posterior(noise=(0.2, 0.2, 0.2)), Q)
    assert borrowed.abilities["standing"].tolist() == [MEASURED, MEASURED, BORROWED]
    assert borrowed.abilities["ranked"].all()


def test_summary_has_levels_intervals_and_ranks_where_they_mean_something():
    drawn = posterior()
    profiles = profile_abilities(drawn, Q)
    theta = drawn.draws("theta")
    np.testing.assert_allclose(profiles.levels(), theta.mean(0))
    np.testing.assert_allclose(profiles.levels("low"), np.quantile(theta, 0.05, axis=0))
    np.testing.assert_allclose(profiles.levels("high"), np.quantile(theta, 0.95, axis=0))
    ranks = np.median(ranks_of_draws(theta[:, :, 0]), axis=0)
    assert np.abs(profiles.ranking("algebra")["rank"].to_numpy(int) - np.sort(ranks)).max() <= 1
    assert profiles.ranking("<b>")[["rank", "rank_low", "rank_high"]].isna().all(axis=None)
    with pytest.raises(KeyError):
        profiles.ranking("poetry")


def test_answers_count_only_what_was_run():
    trials = np.ones((N, Q.n_items), int)
    trials[0, :12] = 0
    table = profile_abilities(posterior(trials=trials), Q)
    assert table.levels("answers").iloc[0].tolist() == [0, 12, 1]
    assert table.abilities["responses"].tolist() == [12 * (N - 1), 12 * N, N]


def test_pairs_are_told_apart_by_the_reliability_of_their_difference():
    drawn = posterior(noise=(0.2, 0.2, 3.0))
    pairs = profile_abilities(drawn, Q).pairs
    assert pairs["told_apart"].tolist() == [True, False, False]
    difference = drawn.draws("theta")[:, :, 0] - drawn.draws("theta")[:, :, 1]
    known, unknown = difference.mean(0).var(), difference.var(0, ddof=1).mean()
    assert pairs["reliability"][0] == pytest.approx(known / (known + unknown))
    assert pairs["correlation"].tolist() == pytest.approx([0.3] * 3)


def test_text_says_what_to_conclude():
    text = profile_abilities(posterior(), Q).to_text()
    assert text.startswith("2 of 3 abilities are measured. '<b>' rests on the prior: nobody is")
    assert "2 of 3 pairs of abilities are not distinguishable" in text
    sure = profile_abilities(posterior(noise=(0.1, 0.1, 0.1)), Q).to_text()
    assert "'<b>' rests on other abilities: read" in sure
    assert "told apart" not in sure


def test_html_escapes_names():
    html = profile_abilities(posterior(), Q).to_html()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_independent_abilities_have_no_correlation():
    drawn = posterior()
    drawn.tree["posterior"] = drawn.tree["posterior"].to_dataset().drop_vars("correlation")
    pairs = profile_abilities(drawn, Q).pairs
    assert (pairs[["correlation", "low", "high"]] == 0).all(axis=None)


def test_easiness_is_of_an_item_with_the_usual_slope():
    drawn = posterior(slope=1.5)
    expected = drawn.draws("beta").mean(0) - [0, 2 * 1.5, 0]
    np.testing.assert_allclose(profile_abilities(drawn, Q).abilities["easiness"], expected)


def test_items_without_a_row_are_named():
    with pytest.raises(ResponseError, match="no row for item 'item 25'"):
        profile_abilities(posterior(), Q.for_items(Q.items[:24], drop_unneeded=True))


def test_one_ability_has_no_pairs():
    drawn = posterior()
    group = drawn.tree["posterior"].to_dataset()
    one = group[["theta", "beta", "mu_b"]].isel(ability=[0]).assign(d=group["d"][:, :, :12])
    one = one.assign(a=group["a"][:, :, :12], mu_a=group["mu_a"])
    q = QMatrix.from_arrays(np.ones((12, 1)), abilities=["algebra"])
    samples = {k: v.to_numpy() for k, v in one.data_vars.items()}
    responses = Responses.from_arrays(drawn.successes[:, :12])
    coords = {"ability": ["algebra"], "loading": list(q.loading_names)}
    alone = Posterior.from_samples(samples, {}, responses, {}, coords=coords, dims=DIMS)
    profiles = profile_abilities(alone, q)
    assert profiles.pairs.empty
    assert profiles.to_text() == "1 of 1 ability is measured."
    assert isinstance(profiles.summary, pd.DataFrame)

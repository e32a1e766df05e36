"""Number of further items that separate two subjects, in closed form for known items."""

import made_posterior
import numpy as np
import pytest
from scipy.stats import norm

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.ranking.separation import (
    Detectable,
    Separation,
    least_detectable,
    separate,
    separate_neighbours,
)
from bayesirt.ranking.subject_ranking import rank_subjects

N_ITEMS, SAMPLES = 20, 4000


def posterior_of(means: list[float], sd: float) -> Posterior:
    """Return normal posteriors with exact mean and spread, with known a = 1.5 and d = 0."""
    grid = norm.ppf((np.arange(SAMPLES) + 0.5) / SAMPLES)
    rng = np.random.default_rng(2)
    theta = np.stack([m + sd * rng.permutation(grid) / grid.std() for m in means], 1)
    answers = rng.integers(0, 2, (len(means), N_ITEMS))
    return with_known_items(answers, theta.reshape(2, -1, len(means)))


def with_known_items(answers: np.ndarray, theta: np.ndarray, **statistics: np.ndarray) -> Posterior:
    responses = Responses.from_arrays(answers, subjects=[f"m{k}" for k in range(len(answers))])
    sites = {"theta": theta, "a": 1.5, "b": 0}
    return made_posterior.posterior_of(responses, statistics=statistics, **sites)


def test_more_items_shrink_the_difference_as_information_adds_up():
    posterior = posterior_of([0.1, -0.1], 1e-3)  # so narrow that information is that at the means
    theta = posterior.theta
    apart = theta[:, 0] - theta[:, 1]
    wide = theta.mean(0) + 300 * (theta - theta.mean(0))
    p = 1 / (1 + np.exp(-1.5 * np.array([0.1, -0.1])))
    added = 1.5**2 * p * (1 - p)
    own = 1 + N_ITEMS * added

    def sd_after(k: float) -> float:
        now = (wide[:, 0] - wide[:, 1]).std()
        return now * np.sqrt((1 / (own + k * added)).sum() / (1 / own).sum())

    wanted = apart.mean() / norm.ppf(0.95)
    spread = posterior_of([0.1, -0.1], 0.3)
    found = separate(spread, "m1", "m0")
    assert (found.first, found.second) == ("m0", "m1")
    assert found.p_above == pytest.approx(norm.cdf(0.2 / (0.3 * np.sqrt(2))), abs=0.02)
    assert sd_after(found.more_items) == pytest.approx(wanted, rel=0.05)


def test_what_is_sure_needs_no_more_and_equals_need_too_many():
    posterior = posterior_of([1.0, 0.0, 0.0], 0.2)
    sure = separate(posterior, "m0", "m1")
    assert sure.more_items == 0
    assert sure.to_text().endswith("that is certain.")
    equal = separate(posterior, "m1", "m2")
    assert equal.more_items > 1e4
    assert "not even a million" in Separation("a", "b", 0.5, 0.0, -1, 1, np.inf).to_text()


def test_neighbours_are_pairs_of_the_ranking():
    posterior = posterior_of([0.0, 1.0, -1.0, 0.2], 0.2)
    table = separate_neighbours(posterior, rank_subjects(posterior))
    assert table["first"].tolist() == ["m1", "m3", "m0"]
    assert table["second"].tolist() == ["m3", "m0", "m2"]
    one = separate(posterior, "m3", "m0")
    assert table.loc[1].to_dict() == pytest.approx(vars(one))


def test_the_least_detectable_difference_is_that_of_a_test_of_two_shrunken_means():
    """A true difference δ has a posterior mean r δ with standard error √r s."""
    posterior = posterior_of([1.0, 0.3, -0.3, -1.0], 0.2)
    found = least_detectable(posterior)
    s, reliability = 0.2 * np.sqrt(2), 0.545 / (0.545 + 0.2**2)
    certain = norm.ppf(0.95) * s
    assert norm.cdf((reliability * found.ability - certain) / (reliability**0.5 * s)) == (
        pytest.approx(0.8, abs=0.01)
    )
    ability = found.ability
    centre = 1 / (1 + np.exp(-1.5 * ability / 2))
    assert found.score == pytest.approx(2 * centre - 1, rel=0.05)
    assert (
        Detectable(0.5, 0.08)
        .to_text()
        .startswith("Mid-table differences of 0.50 in ability, or 8.0 points of expected score,")
    )


def test_strangers_and_twins_are_refused():
    posterior = posterior_of([0.0, 1.0], 0.2)
    with pytest.raises(ResponseError, match="'x' is not a subject of this run; name one"):
        separate(posterior, "m0", "x")
    with pytest.raises(ResponseError, match="did you mean 'm1'"):
        separate(posterior, "m0", "m12")
    with pytest.raises(ResponseError, match="'m0' is named twice"):
        separate(posterior, "m0", "m0")


def test_chains_that_disagree_settle_nothing():
    posterior = posterior_of([1.0, 0.0], 0.1)
    theta = posterior["theta"].copy()
    theta[1] = theta[1][:, ::-1]
    split = with_known_items(np.eye(2, N_ITEMS), theta)
    found = separate(split, "m0", "m1")
    assert found.p_above == 0.5
    assert found.low < -0.8 < 0.8 < found.high
    assert np.isnan(found.more_items)
    assert "is not known yet" in found.to_text()
    table = rank_subjects(split)
    assert not table.sound
    assert table.warnings == (split.verdict.to_text(),)
    assert table.to_text().startswith("Do not trust this ranking yet")
    assert table.summary["p_best"].tolist() == [0.5, 0.5]
    assert table.summary["tier"].tolist() == [1, 1]
    assert table.summary[["rank_low", "rank_high"]].to_numpy().tolist() == [[1, 2]] * 2
    assert (table.pairwise.to_numpy() == 0.5).all()
    assert (table.rank_probabilities == 0.5).all()


def test_chains_that_agree_and_diverge_leave_every_rank_open():
    posterior = posterior_of([1.0, 0.0], 0.4)
    diverging = np.zeros(posterior["theta"].shape[:2], bool)
    diverging[:, ::20] = True
    stuck = with_known_items(np.eye(2, N_ITEMS), posterior["theta"], diverging=diverging)
    table = rank_subjects(stuck)
    assert not table.sound
    assert table.summary["p_best"].tolist() == pytest.approx([0.75, 0.04], abs=0.02)
    assert table.summary[["rank_low", "rank_high"]].to_numpy().tolist() == [[1, 2]] * 2
    np.testing.assert_array_equal(table.pairwise, [[0.5, 0.75], [0.25, 0.5]])
    assert separate(stuck, "m0", "m1").p_above == 0.75

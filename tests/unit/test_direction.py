import numpy as np
import pytest
from made_posterior import posterior_of

from bayesirt.checks.fit.direction import check_direction


def _seen(n_subjects, n_items, spread, backwards, seed):
    """Return the direction of answers, given the true abilities."""
    rng = np.random.default_rng(seed)
    theta = spread * rng.normal(size=n_subjects)
    sign = np.where(np.arange(n_items) < backwards * n_items, -1, 1)
    logit = theta[:, None] * sign * np.exp(0.4 * rng.normal(size=n_items)) + rng.normal(
        size=n_items
    )
    answers = (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(int)
    return check_direction(posterior_of(answers, theta=theta))


@pytest.mark.parametrize(("size", "spread"), [((12, 30), 1.0), ((20, 40), 0.5), ((50, 50), 0.3)])
def test_items_of_one_ability_are_hardly_ever_said_to_point_both_ways(size, spread):
    """At an alarm rate of 1%, 9 or more alarms among 60 tables have a probability below 1e-6."""
    alarms = sum(_seen(*size, spread, 0, seed).negative > 0.25 for seed in range(60))
    assert alarms < 9


@pytest.mark.parametrize("backwards", [0.3, 0.4, 0.5])
def test_two_groups_of_items_that_measure_opposite_abilities_are_seen(backwards):
    seen = [_seen(100, 60, 1.0, backwards, seed) for seed in range(20)]
    assert sum(not one.is_one for one in seen) >= 19


def test_small_tables_are_not_judged_by_the_signs_of_their_items():
    assert np.isnan(_seen(9, 30, 1.0, 0.5, 0).negative)
    assert np.isnan(_seen(30, 9, 1.0, 0.5, 0).negative)

"""Pairs of many subjects: fast algorithms against exhaustive ones, in one process."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from bayesirt.ranking import pairwise
from bayesirt.ranking.pairwise import probability_above, surely_above
from bayesirt.ranking.subject_ranking import ranks_of_draws

SUBJECTS, DRAWS = 1500, 1000
FASTER = 2.0


def timed(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    work()
    began = time.process_time()
    return work(), time.process_time() - began


@pytest.mark.bench
def test_near_pairs_alone_are_compared_much_faster(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=SUBJECTS) + 0.1 * rng.normal(size=(DRAWS, SUBJECTS))
    ranks = ranks_of_draws(theta)
    near, seconds = timed(lambda: probability_above(theta, ranks))
    every, long = timed(lambda: probability_above(theta))
    few, seconds_few = timed(lambda: surely_above(theta, 0.9))
    monkeypatch.setattr(pairwise, "_FARTHEST_FEW", ())
    all_, long_all = timed(lambda: surely_above(theta, 0.9))
    print(f"P(above): {long / seconds:.1f} times faster; sets: {long_all / seconds_few:.1f} times")
    np.testing.assert_allclose(near, every, rtol=0, atol=1.5 / DRAWS)  # 32 bits cause ties
    np.testing.assert_array_equal(few, all_)
    assert min(long / seconds, long_all / seconds_few) > FASTER

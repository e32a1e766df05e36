"""Differences between the rankings by two models."""

import numpy as np
import pytest
from made_posterior import posterior_of

from bayesirt import Posterior
from bayesirt.ranking.model_choice import rank_moves


def ranked(abilities: list[float]) -> Posterior:
    noise = 0.01 * np.random.default_rng(0).normal(size=(2, 50, len(abilities)))
    answers = np.indices((len(abilities), 3)).sum(0) % 2
    return posterior_of(answers, theta=abilities + noise, d=1, attrs={"model": "3PL"})


@pytest.mark.parametrize(
    ("abilities", "others", "said"),
    [
        ([3, 2, 1, 0], [6, 4, 2, 0], "Both give the same ranking."),
        ([3, 2, 1, 0], [2, 1, 0, 3], "the 3PL ranks subject 4 3 places lower"),
        ([3, 0, 2, 1], [2, 0, 3, 1], "ranks subject 1 1 place higher"),
    ],
)
def test_who_stands_elsewhere_is_named(abilities, others, said):
    assert said in rank_moves(ranked(abilities), ranked(others))

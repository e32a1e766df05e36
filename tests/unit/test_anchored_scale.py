"""A custom scale passes through the anchors' means, and changes nothing else."""

import numpy as np
import pytest
from made_posterior import posterior_of

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.ranking.linking import check_anchors, line_through
from bayesirt.ranking.subject_ranking import rank_subjects

NAMES = ["low", "mid", "high", "twin"]
MEANS = np.array([-1.0, 0.2, 1.5, 1.45])


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    rng = np.random.default_rng(4)
    theta = MEANS + 0.1 * rng.normal(size=(2, 500, 4))
    answers = [[0, 0, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0]]
    return posterior_of(Responses.from_arrays(answers, subjects=NAMES), theta=theta, b=0)


def test_two_anchors_give_zero_and_unit(posterior: Posterior):
    table = rank_subjects(posterior, scale={"high": 150, "low": 100}).summary
    table = table.set_index("subject")
    assert table.loc["low", "scale"] == pytest.approx(100)
    assert table.loc["high", "scale"] == pytest.approx(150)
    slope = 50 / (table.loc["high", "ability"] - table.loc["low", "ability"])
    for end in ("", "_low", "_high"):
        away = table[f"ability{end}"] - table.loc["low", "ability"]
        np.testing.assert_allclose(table[f"scale{end}"], 100 + slope * away)


def test_one_anchor_shifts(posterior: Posterior):
    table = rank_subjects(posterior, scale={"mid": 1000}).summary.set_index("subject")
    shift = 1000 - table.loc["mid", "ability"]
    np.testing.assert_allclose(table["scale"], table["ability"] + shift)


def test_without_anchors_there_is_no_scale(posterior: Posterior):
    assert "scale" not in rank_subjects(posterior).summary


@pytest.mark.parametrize(
    ("anchors", "sentence"),
    [
        ({"nobody": 1}, "the anchor 'nobody' is not a subject"),
        ({"low": 1, "mid": 2, "high": 3}, "one anchor or two, got 3"),
        ({"low": float("inf")}, "'low' needs a number"),
        ({"low": 1, "high": 1}, "both anchors have the same value"),
    ],
)
def test_what_cannot_be_a_scale_is_refused_without_draws(anchors: dict[str, float], sentence: str):
    with pytest.raises(ResponseError, match=sentence):
        check_anchors(anchors, NAMES)


@pytest.mark.parametrize("anchors", [{"high": 1, "low": 2}, {"twin": 1, "high": 2}])
def test_anchors_must_surely_be_apart(posterior: Posterior, anchors: dict[str, float]):
    with pytest.raises(ResponseError, match="take anchors that clearly differ"):
        line_through(posterior, anchors)

"""Comparison of a point estimate with a posterior, worked out by hand."""

import numpy as np
import pytest
import xarray as xr

from bayesirt.checks.point_comparison import compare_estimates
from bayesirt.data.responses import Responses
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

SUCCESSES = np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0], [0, 0, 1, 0, 0, 0]])
RESPONSES = Responses.from_arrays(SUCCESSES)
# Two draws; θ has a different location and scale in each, and η is the same.
STANDARD = np.array([[1.2, 0.1, -1.3], [1.3, -0.2, -1.1]])
STANDARD = (STANDARD - STANDARD.mean(1, keepdims=True)) / STANDARD.std(1, keepdims=True)
SLOPES = np.array([[1.0, 1.0, 0.5, 2.0, 1.0, 1.0], [1.2, 0.8, 0.7, 1.0, 1.0, 1.4]])
INTERCEPTS = np.array([[1.0, 0.0, 3.0, 0.5, 0.2, -1.0], [2.0, 0.4, 4.0, 0.5, 0.0, -1.4]])
SHIFT, SCALE = np.array([[5.0], [-2.0]]), np.array([[2.0], [0.5]])


@pytest.fixture(autouse=True)
def few_are_standardised(monkeypatch):
    """Standardise even three subjects, so that results can be worked out by hand."""
    monkeypatch.setattr("bayesirt.posterior.FEW_TO_STANDARDISE", 3)


def made_posterior() -> Posterior:
    a = SLOPES / SCALE
    draws = {"theta": STANDARD * SCALE + SHIFT, "a": a, "d": INTERCEPTS - a * SHIFT}
    draws["b"] = -draws["d"] / a
    return Posterior.from_samples({k: v[None] for k, v in draws.items()}, {}, RESPONSES, {})


def made_point(theta, a, d, subjects=RESPONSES.subjects, scale="sample") -> PointEstimate:
    values = {"theta": ("subject", theta), "a": ("item", a), "d": ("item", d)}
    coords = {"subject": list(subjects), "item": list(RESPONSES.items)}
    data = xr.Dataset({k: (dim, np.asarray(v, float)) for k, (dim, v) in values.items()}, coords)
    return PointEstimate(
        data, -1.0, 3, True, "made", np.ones(4), {"estimator": "made", "theta_scale": scale}
    )


def standard(theta) -> np.ndarray:
    return (theta - theta.mean()) / theta.std()


MEAN, SD = STANDARD.mean(0), STANDARD.std(0, ddof=1)
OFF = standard(MEAN + SD * [0.5, -1.5, 0])
POINT = made_point(
    OFF,
    SLOPES.mean(0) + np.array([0, 0.3, -0.6, 0, 0, 0]),
    INTERCEPTS.mean(0) + np.array([0, 0, 0, 0, 0.3, 0]),
)


def test_both_sides_are_compared_on_one_scale():
    subjects = compare_estimates(POINT, made_posterior()).subjects
    np.testing.assert_allclose(subjects["posterior_mean"], MEAN)
    np.testing.assert_allclose(subjects["posterior_sd"], SD)
    np.testing.assert_allclose(subjects["shrinkage"], (OFF - MEAN) / SD, atol=1e-12)
    assert subjects["disagrees"].tolist() == [False, True, True]
    assert subjects["reason"].tolist() == ["all right", "", ""]
    assert subjects["rank_point"].tolist() == [1, 2, 3]
    assert subjects["rank_posterior"].tolist() == [1, 2, 3]


def test_estimates_of_any_scale_are_compared_on_the_one_that_is_reported():
    """θ + 3 and 2 θ, with items adjusted, are the same estimate."""
    theta, a, d = POINT["theta"], POINT["a"], POINT["d"]
    moved = made_point(2 * theta + 3, a / 2, d - 1.5 * a, scale="population")
    of_one, of_other = (compare_estimates(p, made_posterior()) for p in (POINT, moved))
    for one, other in ((of_one.subjects, of_other.subjects), (of_one.items, of_other.items)):
        numbers = [name for name in one if one[name].dtype == float]
        np.testing.assert_allclose(one[numbers], other[numbers], atol=1e-12)


def test_few_are_only_centred(monkeypatch):
    monkeypatch.setattr("bayesirt.posterior.FEW_TO_STANDARDISE", 4)
    posterior = made_posterior()
    centred = posterior.theta - posterior.theta.mean(1, keepdims=True)
    subjects = compare_estimates(POINT, posterior).subjects
    np.testing.assert_allclose(subjects["posterior_mean"], centred.mean(0))
    spread = subjects["estimate"].std(ddof=0)
    assert spread == pytest.approx(centred.std(1).mean())
    assert subjects["estimate"].mean() == pytest.approx(0)


def test_items_are_moved_with_the_abilities():
    items = compare_estimates(POINT, made_posterior()).items
    np.testing.assert_allclose(items["a_posterior_mean"], SLOPES.mean(0))
    np.testing.assert_allclose(items["d_posterior_mean"], INTERCEPTS.mean(0))
    np.testing.assert_allclose(items["a_posterior_sd"], SLOPES.std(0, ddof=1), atol=1e-12)
    sd = SLOPES.std(0, ddof=1)
    np.testing.assert_allclose(items["a_shrinkage"][1:3], np.array([0.3, -0.6]) / sd[1:3])
    assert items["disagrees"].tolist() == [False, True, True, False, True, False]
    reasons = items["reason"].tolist()
    assert reasons[2] == "all right; few responses; a at its bound"
    assert reasons[0] == "few responses"


def test_words_name_the_farthest_subject_and_its_reason():
    text = compare_estimates(POINT, made_posterior()).to_text()
    assert "rank correlation of 1.000; 0 of 3 ranks differ, 2 subjects and 3 items" in text
    assert "Farthest: subject 3 (+1.1 sd)." in text
    far = made_point(standard(np.array([1, 0.6, -1.2])), SLOPES.mean(0), INTERCEPTS.mean(0))
    text = compare_estimates(far, made_posterior()).to_text()
    assert "Farthest: subject 1 (-3.4 sd; all right" in text


def test_ranks_that_differ_are_counted():
    turned = made_point(MEAN[[1, 0, 2]], SLOPES.mean(0), INTERCEPTS.mean(0))
    comparison = compare_estimates(turned, made_posterior())
    assert comparison.subjects["rank_point"].tolist() == [2, 1, 3]
    assert "rank correlation of 0.500; 2 of 3 ranks differ" in comparison.to_text()


def test_other_names_are_refused():
    other = made_point(MEAN, SLOPES.mean(0), INTERCEPTS.mean(0), subjects=("a", "b", "c"))
    with pytest.raises(ValueError, match="different subjects or items"):
        compare_estimates(other, made_posterior())

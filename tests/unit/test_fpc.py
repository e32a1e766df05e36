"""Fixed-parameter calibration keeps the scale, recovers new items and gives correct errors."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from mirt_data import known_of, rotated_to, simulated
from scipy.optimize import minimize_scalar

from bayesirt import PointEstimate, ResponseError, Responses
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc import calibrate_items
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.estimators.normal_beliefs import Items, Normal
from bayesirt.estimators.subject_scores import BOUND, posterior_of, score_subjects
from bayesirt.likelihood.cell_sums import DenseLayout

ABLER = simulated(400, 60, 2, seed=7, mean=1.0, sd=0.8)
KNOWN = known_of(ABLER, np.arange(0, 60, 2), error=0.05)
NEW = np.arange(1, 60, 2)


@pytest.fixture(scope="module")
def point() -> PointEstimate:
    return calibrate_items(ABLER.responses, KNOWN)


def test_known_items_stay_to_the_last_bit(point):
    place = [point.parameters["item"].values.tolist().index(name) for name in KNOWN.names]
    for name, values in (("a", KNOWN.a), ("d", KNOWN.d), ("item_covariance", KNOWN.covariance)):
        assert point[name][place].tobytes() == values.tobytes()
    known = np.zeros(60, bool)
    known[place] = True
    np.testing.assert_array_equal(point["known"], known)


def test_new_items_come_back_on_the_scale_of_known_ones(point):
    """The reference subjects are abler by 1 than those who defined the scale."""
    assert point.converged
    for k, least in ((0, 0.75), (1, 0.9)):
        assert np.corrcoef(point["a"][NEW, k], ABLER.a[NEW, k])[0, 1] > least
    assert point["d"][NEW] == pytest.approx(ABLER.d[NEW], abs=0.7)
    np.testing.assert_allclose((point["d"][NEW] - ABLER.d[NEW]).mean(), 0, atol=0.1)
    np.testing.assert_allclose((point["a"][NEW] - ABLER.a[NEW]).mean(0), 0, atol=0.1)
    np.testing.assert_allclose(point["population_mean"], [1, 0], atol=0.15)
    spread = np.sqrt(np.diag(point["population_covariance"]))
    np.testing.assert_allclose(spread, [0.8, 1], atol=0.15)


def test_standard_population_shifts_new_items(point):
    standard = calibrate_items(ABLER.responses, KNOWN, population="standard")
    np.testing.assert_array_equal(standard["population_mean"], 0)
    assert (standard["d"][NEW] - point["d"][NEW]).mean() > 0.05
    assert standard.log_likelihood < point.log_likelihood - 20


@pytest.mark.slow
def test_few_anchors_hold_the_scale_of_many_new_items():
    data = simulated(300, 110, 2, seed=5)
    point = calibrate_items(data.responses, known_of(data, np.arange(12)))
    assert point.converged
    variances = np.diag(point["population_covariance"])
    np.testing.assert_allclose(variances, 1, atol=0.6)
    sizes = (point["a"][12:] ** 2).mean(0) / (data.a[12:] ** 2).mean(0)
    np.testing.assert_allclose(sizes, 1, atol=0.5)


def test_what_is_not_known_of_known_items_is_carried_over(point):
    positions = np.arange(0, 60, 2)
    exact = known_of(ABLER, positions, error=0.05)
    exact = KnownItems(exact.names, exact.a, exact.d, 0 * exact.covariance)
    vague = KnownItems(exact.names, exact.a, exact.d, 25 * KNOWN.covariance)
    errors = [calibrate_items(ABLER.responses, k)["d_se"][NEW] for k in (exact, KNOWN, vague)]
    assert (errors[0] < errors[1]).all()
    assert (errors[1] < errors[2]).all()
    # added variances are proportional to those of the known items
    added = errors[2] ** 2 - errors[0] ** 2
    np.testing.assert_allclose(added, 25 * (errors[1] ** 2 - errors[0] ** 2), rtol=1e-6)


@pytest.mark.slow
def test_delta_method_is_what_moving_a_known_item_does():
    """Compare with a second calibration in which one known item's d is shifted."""
    data = simulated(300, 12, 1, seed=9, trials=5)
    exact = known_of(data, np.arange(6))
    step, exactly = 0.02, {"tolerance": 1e-12, "n_nodes": 15}
    moved = KnownItems(exact.names, exact.a, exact.d + step * np.eye(6)[2], exact.covariance)
    one, other = (calibrate_items(data.responses, k, **exactly) for k in (exact, moved))
    by_hand = (other["d"] - one["d"])[6:] / step
    unsure = 0 * exact.covariance
    unsure[2, 1, 1] = 1e6
    vague = KnownItems(exact.names, exact.a, exact.d, unsure)
    by_delta = calibrate_items(data.responses, vague, **exactly)["d_se"][6:] / 1e3
    np.testing.assert_allclose(by_delta, np.abs(by_hand), rtol=0.1, atol=0.003)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "n_known"), [(0.0, 30), (0.15, 30), (0.1, 12)])
def test_errors_of_new_items_have_the_right_size(error, n_known):
    """Standardised squared errors average 1, or a fifth more where abilities are uncertain."""
    squares, shares = [], []
    for seed in range(8):
        data = simulated(300, n_known + 40, 2, seed=100 + seed, mean=0.7)
        known = known_of(data, np.arange(n_known), error=error, seed=seed)
        point = calibrate_items(data.responses, known)
        off = np.c_[point["a"] - data.a, point["d"] - data.d][n_known:]
        covariance = point["item_covariance"][n_known:]
        whitened = np.linalg.solve(np.linalg.cholesky(covariance), off[:, :, None])[:, :, 0]
        squares.append((whitened**2).mean())
        errors = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        shares.append((np.abs(off) < 1.645 * errors).mean())
    assert 0.85 < np.mean(squares) < 1.35
    assert 0.83 < np.mean(shares) < 0.94


def test_order_and_names_of_items_do_not_matter(point):
    order = np.random.default_rng(0).permutation(60)
    back = np.random.default_rng(1).permutation(30)
    moved = ABLER.responses.select(np.arange(400), order)
    other = calibrate_items(moved, KNOWN.select(back))
    for name in ("a", "d", "item_covariance"):
        np.testing.assert_allclose(other[name], point[name][order], atol=1e-5)
    np.testing.assert_allclose(other["theta"], point["theta"], atol=1e-5)


def test_known_items_that_nobody_answered_do_not_hold_back(point):
    more = KnownItems(
        (*KNOWN.names, "elsewhere"),
        np.vstack([KNOWN.a, [1, 0]]),
        np.append(KNOWN.d, 0),
        np.concatenate([KNOWN.covariance, KNOWN.covariance[:1]]),
    )
    other = calibrate_items(ABLER.responses, more)
    np.testing.assert_allclose(other["d"], point["d"], atol=0.02)
    assert other.settings["n_known"] == 30


def test_subjects_without_anchors_are_counted():
    y, n = (x.copy() for x in ABLER.responses.cells.matrices())
    n[:25, ::2] = 0
    answers = Responses.from_arrays(y * (n > 0), n)
    point = calibrate_items(answers, KNOWN)
    assert point.settings["n_without_anchors"] == 25
    assert (point["theta_se"][:25] > 1.1 * point["theta_se"][25:].mean(0)).mean() > 0.8


@pytest.mark.slow
def test_a_chain_goes_on_from_a_fit():
    """Calibrated items of one fit fix the scale of the next."""
    data = simulated(600, 60, 2, seed=11)
    first = fit_mirt(data.responses.select(np.arange(300), np.arange(40)), n_abilities=2)
    known = KnownItems.from_estimate(first)
    point = calibrate_items(data.responses.select(np.arange(300, 600), np.arange(20, 60)), known)
    turn = rotated_to(first["a"], data.a[:40])
    a = point["a"][20:] @ turn
    for k, least in ((0, 0.7), (1, 0.85)):
        assert np.corrcoef(a[:, k], data.a[40:, k])[0, 1] > least
    again = KnownItems.from_estimate(point)
    assert again.names == tuple(data.responses.items[20:])
    np.testing.assert_array_equal(again.a[:20], known.a[20:])


def test_bad_input_is_refused_in_a_sentence():
    y, n = ABLER.responses.cells.matrices()
    with pytest.raises(ResponseError, match="all 30 items of the responses are known"):
        calibrate_items(ABLER.responses.select(np.arange(400), np.arange(0, 60, 2)), KNOWN)
    with pytest.raises(ResponseError, match="none of the 30 known items is among the 30 items"):
        calibrate_items(ABLER.responses.select(np.arange(400), NEW), KNOWN)
    with pytest.raises(
        ResponseError, match="1 known items cannot determine the scale of 2 abilities"
    ):
        calibrate_items(ABLER.responses, KNOWN.select(np.array([0])))
    with pytest.raises(ResponseError, match="`population` must be estimated or standard"):
        calibrate_items(ABLER.responses, KNOWN, population="banana")
    n = n.copy()
    n[:10, ::2], n[10:, 3] = 0, 0
    with pytest.raises(ResponseError, match="'item 4' was answered by no reference subject"):
        calibrate_items(Responses.from_arrays(y * (n > 0), n), KNOWN)
    with pytest.raises(ResponseError, match="`d` of 30 known items has shape"):
        KnownItems(KNOWN.names, KNOWN.a, KNOWN.d[1:], KNOWN.covariance)
    with pytest.raises(ResponseError, match="the known item 'item 3' is not finite"):
        KnownItems(
            KNOWN.names, KNOWN.a, np.where(np.arange(30) == 1, np.nan, KNOWN.d), KNOWN.covariance
        )
    with pytest.warns(ConvergenceWarning, match="fpc: the loss still changes"):
        calibrate_items(ABLER.responses, KNOWN, max_iterations=1, tolerance=0.0)


def test_saved_calibration_comes_back(point, tmp_path):
    point.save(tmp_path / "point.nc")
    back = PointEstimate.load(tmp_path / "point.nc")
    assert back.parameters.identical(point.parameters)
    assert back.settings == point.settings


EXACT = known_of(ABLER, np.arange(60))


def log_density(theta: np.ndarray, row: np.ndarray, precision: float) -> float:
    eta = EXACT.a @ theta + EXACT.d
    return row @ eta - np.logaddexp(0, eta).sum() - precision * theta @ theta / 2


def test_scores_are_at_the_top():
    scores = score_subjects(ABLER.responses, EXACT, how="mle")
    y = ABLER.responses.cells.matrices()[0].astype(float)
    p = 1 / (1 + np.exp(-(scores.theta @ EXACT.a.T + EXACT.d)))
    gradient = (y - p) @ EXACT.a
    inside = ~scores.at_bound
    assert inside.mean() > 0.9
    assert np.abs(gradient[inside]).max() < 1e-4
    information = np.einsum("ij,jk,jl->ikl", p * (1 - p), EXACT.a, EXACT.a)
    np.testing.assert_allclose(
        scores.covariance[inside], np.linalg.inv(information)[inside], rtol=1e-3
    )
    z = (scores.theta - ABLER.theta)[inside] / np.sqrt(
        np.diagonal(scores.covariance, axis1=1, axis2=2)[inside]
    )
    assert 0.8 < z.std() < 1.25


def test_posterior_scores_are_those_of_the_calibration():
    """Scores given the calibrated population and items equal the calibration's abilities."""
    point = calibrate_items(ABLER.responses, KNOWN, tolerance=1e-9)
    mean, covariance = point["population_mean"], point["population_covariance"]
    population = Normal(jnp.asarray(mean), jnp.linalg.inv(jnp.asarray(covariance)))
    items, found = KnownItems.from_estimate(point).within(ABLER.responses)
    layout = DenseLayout(*(jnp.asarray(x[:, found]) for x in ABLER.responses.cells.matrices()))
    scores = posterior_of(layout, Items(jnp.asarray(items.a), jnp.asarray(items.d)), population)
    np.testing.assert_allclose(scores.mean, point["theta"], atol=1e-5)
    np.testing.assert_allclose(scores.covariance, point["theta_covariance"], atol=1e-5)


def test_likelihood_without_a_maximum_stops_at_the_bound():
    y = np.vstack([np.ones(60), np.zeros(60), ABLER.responses.cells.matrices()[0][:3]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score_subjects(Responses.from_arrays(y), EXACT, how="mle")
    np.testing.assert_array_equal(scores.at_bound, [True, True, False, False, False])
    np.testing.assert_allclose(np.linalg.norm(scores.theta[:2], axis=1), BOUND, rtol=1e-6)
    for row, theta in zip(y[:2], scores.theta[:2], strict=True):
        found = minimize_scalar(
            lambda angle, row=row: (
                -log_density(BOUND * np.array([np.cos(angle), np.sin(angle)]), row, 0.0)
            ),
            bracket=(np.arctan2(*theta[::-1]) - 0.1, np.arctan2(*theta[::-1]) + 0.1),
        )
        np.testing.assert_allclose(
            theta, BOUND * np.array([np.cos(found.x), np.sin(found.x)]), atol=1e-3
        )
    assert "2 at the bound" in scores.to_text()
    assert scores.summary.loc[("subject 1", "ability 1"), "theta"] == scores.theta[0, 0]


def test_answers_in_one_direction_are_flagged():
    flat = KnownItems(("x", "y", "z"), np.array([[1.0, 0]] * 3), np.zeros(3), np.zeros((3, 3, 3)))
    answers = Responses.from_arrays([[1, 1, 0], [0, 1, 0]], items=["x", "y", "z"])
    assert score_subjects(answers, flat, how="mle").at_bound.all()
    assert not score_subjects(answers, flat).at_bound.any()
    with pytest.raises(ResponseError, match="`how` must be posterior, mle"):
        score_subjects(answers, flat, how="banana")

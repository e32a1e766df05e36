"""Contract of every point estimator; add new estimators to ESTIMATORS."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from small_data import as_sparse, in_32_bits, model_counts

from bayesirt.data.responses import Responses
from bayesirt.estimators.cbmm import WeakPrior, fit_cbmm
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.marginal import fit_marginal
from bayesirt.estimators.spectral import fit_spectral
from bayesirt.point_estimate import PointEstimate

Fit = Callable[..., PointEstimate]

BLOCKWISE: dict[str, Fit] = {
    "cbmm mm": partial(fit_cbmm, step="mm", prior=WeakPrior(), start="logits", tol=1e-6),
    "cbmm newton": partial(fit_cbmm, step="newton"),
}
JOINT = BLOCKWISE | {"joint_map": fit_joint_map, "spectral": fit_spectral}
ESTIMATORS = JOINT | {"em": partial(fit_marginal, model="2pl")}
ITERATIVE = {name: fit for name, fit in ESTIMATORS.items() if name != "spectral"}
SLOPES_OF_ZERO = {name: fit for name, fit in ESTIMATORS.items() if name not in ("joint_map", "em")}
COSTLY = {"joint_map": [pytest.mark.slow]}
each_blockwise_estimator = pytest.mark.parametrize("fit", BLOCKWISE.values(), ids=BLOCKWISE)
each_joint_estimator = pytest.mark.parametrize("fit", JOINT.values(), ids=JOINT)
each_estimator = pytest.mark.parametrize("fit", ESTIMATORS.values(), ids=ESTIMATORS)
each_iterative_estimator = pytest.mark.parametrize("fit", ITERATIVE.values(), ids=ITERATIVE)
each_estimator_with_slopes_of_zero = pytest.mark.parametrize(
    "fit", SLOPES_OF_ZERO.values(), ids=SLOPES_OF_ZERO
)
each_large_joint_estimator = pytest.mark.parametrize(
    "fit", [pytest.param(f, id=name, marks=COSTLY.get(name, [])) for name, f in JOINT.items()]
)
PARAMETERS = ("theta", "a", "d", "theta_se", "a_se", "d_se", "theta_centre")


SUCCESSES, TRIALS = model_counts(30, 20)
COUNTS = Responses.from_arrays(SUCCESSES, TRIALS)


def assert_same(one: PointEstimate, other: PointEstimate, tolerance: float = 1e-9) -> None:
    for name in PARAMETERS:
        np.testing.assert_allclose(one[name], other[name], tolerance, tolerance, err_msg=name)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-10)


@each_joint_estimator
def test_joint_result_is_standardised_and_its_likelihood_joint(fit):
    point = fit(COUNTS)
    assert point.settings["theta_scale"] == "sample"
    assert abs(point["theta"].mean()) < 1e-12
    assert point["theta"].std() == pytest.approx(1)
    eta = point["theta"][:, None] * point["a"] + point["d"]
    expected = (SUCCESSES * eta - TRIALS * np.logaddexp(0, eta)).sum()
    assert point.log_likelihood == pytest.approx(expected, rel=1e-12)


@each_estimator
def test_result_is_complete(fit):
    point = fit(COUNTS)
    assert point.converged
    assert (point["a"] >= 0).all()
    np.testing.assert_allclose(point["b"], -point["d"] / point["a"])
    for name in ("theta", "a", "d"):
        assert (point[f"{name}_se"] > 0).all()
    assert list(point.parameters["subject"].values) == list(COUNTS.subjects)
    table = point.summary
    assert table.loc[("d", "item 20"), "estimate"] == point["d"][-1]
    assert len(table) == 30 + 20 + 20


NOTHING = WeakPrior(0, 0, 0)


@pytest.mark.parametrize(
    ("fit", "prior"),
    [
        (partial(fit_cbmm, step="newton", prior=NOTHING, start="logits", tol=1e-4), NOTHING),
        (fit_spectral, WeakPrior()),
    ],
    ids=["cbmm newton", "spectral"],
)
def test_standard_errors_are_the_inverse_information_of_each_block(fit, prior):
    point = fit(COUNTS)
    theta, a = point["theta"], point["a"]
    p = expit(np.outer(theta, a) + point["d"])
    w = TRIALS * p * (1 - p)
    np.testing.assert_allclose(point["theta_se"], (w @ a**2 + prior.theta_precision) ** -0.5)
    x = np.stack([theta, np.ones_like(theta)], 1)
    of_prior = np.diag([prior.a_precision, prior.d_precision])
    for j in range(20):
        covariance = np.linalg.inv(x.T @ (w[:, j, None] * x) + of_prior)
        np.testing.assert_allclose([point["a_se"][j], point["d_se"][j]], np.diag(covariance) ** 0.5)
        assert point["theta_centre"][j] == pytest.approx(-covariance[0, 1] / covariance[0, 0])


@each_estimator
def test_trace_goes_down_to_the_end(fit):
    point = fit(COUNTS)
    assert point.trace.shape == (point.iterations + 1,)
    assert (np.diff(point.trace) <= 1e-12 * point.trace[0]).all()
    assert point.trace[-1] >= -point.log_likelihood
    assert point.stop_reason[0].islower()
    assert not point.stop_reason.endswith(".")
    assert point.to_text().startswith(f"converged after {point.iterations} iterations (")


@each_estimator
def test_dense_equals_sparse(fit):
    assert_same(fit(COUNTS), fit(as_sparse(COUNTS)))


@each_estimator
def test_order_of_subjects_and_items_does_not_matter(fit):
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(30), rng.permutation(20)
    point, moved = fit(COUNTS), fit(COUNTS.select(rows, columns))
    for name in PARAMETERS:
        order = rows if name.startswith("theta") and name != "theta_centre" else columns
        np.testing.assert_allclose(moved[name], point[name][order], 1e-8, 1e-8)


@each_blockwise_estimator
def test_unobserved_cells_say_nothing(fit):
    """A disconnected block of cells does not affect the fit of the rest."""
    (y, n), (other_y, other_n) = model_counts(30, 20), model_counts(8, 7, seed=5)
    n[0], n[:, 0], other_n[0], other_n[:, 0] = 2, 2, 1, 1
    y, other_y = np.minimum(y, n), np.minimum(other_y, other_n)
    both = np.zeros((2, 38, 27), int)
    both[0, :30, :20], both[1, :30, :20] = y, n
    both[0, 30:, 20:], both[1, 30:, 20:] = other_y, other_n
    rng = np.random.default_rng(0)
    theta, a, d = rng.normal(size=38), np.exp(rng.normal(size=27)), rng.normal(size=27)

    def predictor(responses, *start):
        with pytest.warns(ConvergenceWarning):
            p = fit(responses, prior=WeakPrior(0, 0, 0), start=start, tol=0, max_iterations=15)
        return p["theta"][:30, None] * p["a"][:20] + p["d"][:20]

    alone = predictor(Responses.from_arrays(y, n), theta[:30], a[:20], d[:20])
    beside = predictor(Responses.from_arrays(*both), theta, a, d)
    np.testing.assert_allclose(alone, beside, rtol=1e-8, atol=1e-8)


@each_estimator
def test_trials_equal_repeated_rows_of_a_table(fit):
    subject, item, successes, trials = COUNTS.cells.listed()
    each = np.repeat(np.arange(len(trials)), trials)
    within = np.concatenate([np.arange(n) for n in trials])
    rows = pd.DataFrame(
        {
            "subject": np.asarray(COUNTS.subjects, object)[subject[each]],
            "item": np.asarray(COUNTS.items, object)[item[each]],
            "score": (within < successes[each]).astype(int),
        }
    ).sample(frac=1, random_state=1)
    repeated = Responses.from_long(rows, duplicates="trials")
    order = [
        list(names).index(n)
        for names, own in ((repeated.subjects, COUNTS.subjects), (repeated.items, COUNTS.items))
        for n in own
    ]
    repeated = repeated.select(np.array(order[:30]), np.array(order[30:]))
    assert repeated.items == COUNTS.items
    assert_same(fit(repeated), fit(COUNTS))


@each_blockwise_estimator
@pytest.mark.parametrize("axis", [0, 1], ids=["subjects", "items"])
def test_n_trials_equal_n_copies(fit, axis):
    """The n copies of a row together have one row's prior, so each gets an n-th of it."""
    y = (model_counts(30, 20)[0] > 0).astype(int)
    rng = np.random.default_rng(0)
    start = [rng.normal(size=30), np.exp(rng.normal(size=20)), rng.normal(size=20)]
    n = 3
    long_start = [np.repeat(s, n) if (k == 0) == (axis == 0) else s for k, s in enumerate(start)]
    share = (1 / n, 1, 1) if axis == 0 else (1, 1 / n, 1 / n)
    prior = WeakPrior(*(p * s for p, s in zip((1, 0.25, 0.04), share, strict=True)))
    repeated = fit(Responses.from_arrays(n * y, np.full_like(y, n)), start=start, prior=WeakPrior())
    copied = fit(Responses.from_arrays(np.repeat(y, n, axis=axis)), start=long_start, prior=prior)
    for name in ("theta", "a", "d"):
        step = n if (name == "theta") == (axis == 0) else 1
        copies = copied[name].reshape(-1, step)
        np.testing.assert_allclose(copies, np.repeat(repeated[name][:, None], step, 1), 1e-8, 1e-8)


MIXED = (SUCCESSES[:12, :11] > 0).astype(float)
MIXED[0], MIXED[-1], MIXED[1:-1, 0], MIXED[1:-1, -1] = 1, 0, 1, 0
EXTREMES = {
    "all right": np.ones((12, 11)),
    "all wrong": np.zeros((12, 11)),
    "equal scores": np.tile([[1, 0], [0, 1]], (6, 6))[:, 1:],
    "equal rows": np.tile(SUCCESSES[0, :11] > 0, (12, 1)),
    "separated": np.tri(12, 11, -1),
    "few cells": np.where(np.eye(12, 11) + np.eye(12, 11, k=-1) > 0, np.tri(12, 11, -1), np.nan),
    "extreme rows and columns": MIXED,
    "two by two": np.eye(2),
}


@each_estimator
@pytest.mark.parametrize("y", EXTREMES.values(), ids=EXTREMES)
def test_extreme_responses_stay_finite(fit, y):
    point = fit(Responses.from_arrays(y))
    for name in PARAMETERS:
        assert np.isfinite(point[name]).all(), name
    assert np.abs(point["d"]).max() < 20
    assert np.isfinite(point.log_likelihood)


def assert_equal_abilities_in_32_bits(fit: Fit, y: np.ndarray) -> None:
    """Check that standardisation does not inflate rounding errors to a spread of 1."""
    with in_32_bits():
        point = fit(Responses.from_arrays(y))
    assert np.ptp(point["theta"]) < 1e-3
    assert point["theta_se"].max() < 1.1


@each_estimator
def test_equal_rows_are_equal_abilities_in_32_bits(fit):
    assert_equal_abilities_in_32_bits(fit, np.tile([1, 0, 0, 1, 1, 0], (8, 1)))


@each_estimator_with_slopes_of_zero
def test_equal_scores_are_equal_abilities_in_32_bits(fit):
    """Estimators that expect slopes near 1 are left out: there six failures outweigh one."""
    y = np.zeros((8, 6))
    y[1:, 1:] = np.nan
    assert_equal_abilities_in_32_bits(fit, y)


@each_estimator
def test_better_rows_get_higher_abilities(fit):
    theta = fit(Responses.from_arrays(np.tri(12, 11, -1)))["theta"]
    assert (np.diff(theta) > 0).all()


@each_iterative_estimator
def test_unfinished_fit_says_so(fit):
    with pytest.warns(ConvergenceWarning, match="after 1 steps"):
        point = fit(COUNTS, max_iterations=1, tol=0)
    assert not point.converged
    assert point.iterations == 1
    assert point.to_text().startswith("NOT converged after 1 iterations")


@each_estimator
def test_saved_estimate_comes_back(fit, tmp_path):
    point = fit(COUNTS)
    point.save(tmp_path / "point.nc")
    back = PointEstimate.load(tmp_path / "point.nc")
    assert back.parameters.identical(point.parameters)
    np.testing.assert_array_equal(back.trace, point.trace)
    for name in ("log_likelihood", "iterations", "converged", "stop_reason", "settings"):
        assert getattr(back, name) == getattr(point, name), name
        assert type(getattr(back, name)) is type(getattr(point, name)), name


@pytest.mark.slow
@each_large_joint_estimator
def test_32_bits_do_at_a_thousand_squared(fit):
    y, n = model_counts(1000, 1000)
    responses = Responses.from_arrays(y, n)
    with in_32_bits():
        short = fit(responses)
    exact = fit(responses)
    assert short.converged  # MM's last steps are of the size of 32-bit rounding errors
    for name in PARAMETERS:
        assert np.isfinite(short[name]).all(), name
        np.testing.assert_allclose(short[name], exact[name], rtol=0, atol=0.02, err_msg=name)

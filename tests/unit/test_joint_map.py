"""Joint MAP against a plain optimiser and the dense inverse of its Hessian."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import spearmanr
from small_data import model_counts

from bayesirt import ResponseError, Responses, fit_cbmm, fit_joint_map

SHAPES = {"keeps subjects": (30, 20), "keeps items": (30, 9)}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def split(x: np.ndarray, n_subjects: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_items = (len(x) - n_subjects) // 2
    return x[:n_subjects], x[n_subjects : n_subjects + n_items], x[n_subjects + n_items :]


def plain_loss(
    x: np.ndarray, y: np.ndarray, n: np.ndarray, log_a_sd: float = 0.5, b_sd: float = 2.0
) -> tuple[float, np.ndarray]:
    """Return Kang's (2026) penalised loss and its gradient."""
    theta, log_a, b = split(x, len(y))
    a = np.exp(log_a)
    eta = a * (theta[:, None] - b)
    score = y - n * expit(eta)
    loss = -(y * eta - n * np.logaddexp(0, eta)).sum()
    loss += ((theta**2).sum() + (log_a**2).sum() / log_a_sd**2 + (b**2).sum() / b_sd**2) / 2
    gradient = (
        theta - score @ a,
        log_a / log_a_sd**2 - (score * eta).sum(0),
        b / b_sd**2 + a * score.sum(0),
    )
    return loss, np.concatenate(gradient)


def plain_optimum(y: np.ndarray, n: np.ndarray, *sds: float) -> np.ndarray:
    found = minimize(
        plain_loss,
        np.zeros(len(y) + 2 * y.shape[1]),
        (y, n, *sds),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-8, "maxiter": 2000},
    )
    assert np.abs(found.jac).max() < 1e-6
    return found.x


def standardised(x: jax.Array, n_subjects: int) -> jax.Array:
    theta, log_a, b = split(x, n_subjects)
    mean, sd, a = theta.mean(), theta.std(), jnp.exp(log_a)
    return jnp.concatenate([(theta - mean) / sd, a * sd, a * (mean - b)])


def plain_hessian(x: np.ndarray, y: np.ndarray, n: np.ndarray) -> np.ndarray:
    def loss(x):
        theta, log_a, b = split(x, len(y))
        eta = jnp.exp(log_a) * (theta[:, None] - b)
        penalty = (theta**2).sum() + 4 * (log_a**2).sum() + (b**2).sum() / 4
        return penalty / 2 - (y * eta - n * jnp.logaddexp(0, eta)).sum()

    return np.asarray(jax.jit(jax.hessian(loss))(jnp.asarray(x)))


@pytest.mark.slow
@each_shape
def test_estimate_and_its_errors_equal_plain_ones(shape):
    """Data have trials and missing cells; errors use the dense inverse and the delta method."""
    y, n = model_counts(*shape, seed=1)
    point = fit_joint_map(Responses.from_arrays(y, n))
    x = plain_optimum(y, n)
    own = np.concatenate([point[name] for name in ("theta", "a", "d")])
    np.testing.assert_allclose(own, standardised(x, len(y)), rtol=0, atol=1e-6)
    assert point.trace[-1] == pytest.approx(plain_loss(x, y, n)[0], rel=1e-12)
    slope = jax.jacobian(lambda x: standardised(x, len(y)))(jnp.asarray(x))
    covariance = np.asarray(slope @ np.linalg.inv(plain_hessian(x, y, n)) @ slope.T)
    errors = np.concatenate([point[f"{name}_se"] for name in ("theta", "a", "d")])
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-6)
    of_a, of_d = np.arange(len(y), len(own)).reshape(2, -1)
    centre = -covariance[of_a, of_d] / covariance[of_a, of_a]
    np.testing.assert_allclose(point["theta_centre"], centre, rtol=0, atol=1e-5)
    assert point.settings["information"] == "observed"


def test_other_priors_reach_the_same_optimum_as_a_plain_optimiser():
    y, n = model_counts(30, 20, seed=3)
    point = fit_joint_map(Responses.from_arrays(y, n), log_a_sd=0.2, b_sd=1.0)
    own = np.concatenate([point[name] for name in ("theta", "a", "d")])
    expected = standardised(plain_optimum(y, n, 0.2, 1.0), 30)
    np.testing.assert_allclose(own, expected, rtol=0, atol=1e-6)


@each_shape
def test_last_steps_converge_quadratically(shape):
    """A step's gain in log density is at most the square of the previous step's gain."""
    point = fit_joint_map(Responses.from_arrays(*model_counts(*shape, seed=1)))
    gains = -np.diff(point.trace)
    assert (gains >= -1e-12 * point.trace[0]).all()
    near = [(one, two) for one, two in pairwise(gains) if 1e-5 < one < 0.5]
    assert near
    assert all(two <= one**2 for one, two in near)
    assert point.iterations <= 10


@pytest.mark.slow
def test_block_without_a_cell_in_common_says_nothing():
    (y, n), (other_y, other_n) = model_counts(30, 20), model_counts(8, 7, seed=5)
    both = np.zeros((2, 38, 27), int)
    both[:, :30, :20], both[:, 30:, 20:] = (y, n), (other_y, other_n)

    def predictor(y, n):
        point = fit_joint_map(Responses.from_arrays(y, n), tol=1e-14)
        return point["theta"][:30, None] * point["a"][:20] + point["d"][:20]

    np.testing.assert_allclose(predictor(*both), predictor(y, n), rtol=0, atol=1e-7)


@pytest.mark.slow
def test_known_truth_comes_back_with_errors_of_the_right_size():
    responses, theta, a, d = simulate(200, 200, seed=1)
    point = fit_joint_map(responses)
    mean, sd = theta.mean(), theta.std()
    truth = {"theta": (theta - mean) / sd, "a": a * sd, "d": d + a * mean}
    assert spearmanr(point["theta"], theta).statistic > 0.97
    other = fit_cbmm(responses)
    for name, values in truth.items():
        own, usual = (spearmanr(p[name], values).statistic for p in (point, other))
        assert own > usual - 0.01, name
        z = (point[name] - values) / point[f"{name}_se"]
        assert 0.85 < z.std() < 1.15, name


def test_item_that_contradicts_the_rest_gets_a_small_positive_slope():
    y = simulate(30, 20)[0].cells.matrices()[0].copy()
    y[:, 3] = y.sum(1) < np.median(y.sum(1))
    point = fit_joint_map(Responses.from_arrays(y))
    assert point.converged
    assert 0 < point["a"][3] < 0.3
    assert np.isfinite(point["b"]).all()


def test_bad_input_is_refused_in_a_sentence(small, monkeypatch):
    for name in ("log_a_sd", "b_sd"):
        with pytest.raises(ValueError, match=f"`{name}` must be positive, got 0"):
            fit_joint_map(small, **{name: 0.0})
    monkeypatch.setattr("bayesirt.estimators.joint_map.MOST_KEPT", 29)
    with pytest.raises(ResponseError, match=r"matrix of 30 x 30 for 30 subjects .* use cbmm"):
        fit_joint_map(small)

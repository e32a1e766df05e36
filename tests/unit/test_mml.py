"""Marginal maximum likelihood against published estimates, brute force and a plain optimiser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import spearmanr

from bayesirt import Responses, fit_cbmm, fit_mml, fit_point
from bayesirt.estimators.mml import expectation
from bayesirt.estimators.weak_prior import FLAT
from bayesirt.families import LOGIT
from bayesirt.likelihood import layout_of

PATTERNS = np.array([list(f"{k:05b}") for k in range(32)], int)
LSAT6 = [3, 6, 2, 11, 1, 1, 3, 4, 1, 8, 0, 16, 0, 3, 2, 15]
LSAT6 += [10, 29, 14, 81, 3, 28, 15, 80, 16, 56, 21, 173, 11, 61, 28, 298]
LSAT7 = [12, 19, 1, 7, 3, 19, 3, 17, 10, 5, 3, 7, 7, 23, 8, 28]
LSAT7 += [7, 39, 11, 34, 14, 51, 15, 90, 6, 25, 7, 35, 18, 136, 32, 308]
PUBLISHED = {
    "LSAT6": (LSAT6, [0.825, 0.723, 0.890, 0.689, 0.658], [2.773, 0.990, 0.249, 1.285, 2.053]),
    "LSAT7": (LSAT7, [0.988, 1.081, 1.706, 0.765, 0.736], [1.856, 0.808, 1.804, 0.486, 1.855]),
}
GRID = np.linspace(-8, 8, 2001)
PRIOR = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()


def plain_loss(items: np.ndarray, y: np.ndarray, n: np.ndarray) -> float:
    """Return the negative marginal log likelihood by a fine fixed grid."""
    a, d = items.reshape(2, -1)
    eta = GRID[:, None] * a + d
    log_p = y @ eta.T - n @ np.logaddexp(0, eta).T
    top = log_p.max(1, keepdims=True)
    return -float((np.log(np.exp(log_p - top) @ PRIOR) + top[:, 0]).sum())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_estimates_come_back_to_two_decimals(name):
    counts, a, d = PUBLISHED[name]
    point = fit_mml(Responses.from_arrays(np.repeat(PATTERNS, counts, axis=0)))
    assert sum(counts) == 1000
    assert point.converged
    np.testing.assert_allclose(point["a"], a, rtol=0, atol=0.005)
    np.testing.assert_allclose(point["d"], d, rtol=0, atol=0.005)


def test_optimum_and_its_errors_equal_those_of_a_plain_optimiser():
    """With trials and missing cells; errors from the numerical Hessian of the plain loss."""
    rng = np.random.default_rng(1)
    theta, a, d = rng.normal(size=(400, 1)), np.array([0.7, 1.0, 1.6, 1.2]), np.linspace(-1, 1, 4)
    n = rng.integers(0, 4, (400, 4))
    n[n.sum(1) == 0, 0] = 1
    y = rng.binomial(n, expit(theta * a + d))
    point = fit_mml(Responses.from_arrays(y, n), prior=FLAT, n_nodes=31, tol=1e-14)
    own = np.concatenate([point["a"], point["d"]])
    best = minimize(plain_loss, own, (y, n), options={"gtol": 1e-6})
    np.testing.assert_allclose(own, best.x, rtol=0, atol=2e-4)
    assert -point.log_likelihood == pytest.approx(best.fun, abs=1e-5)
    steps = 1e-3 * np.eye(8)
    second = [
        [
            plain_loss(own + s + t, y, n)
            - plain_loss(own + s - t, y, n)
            - plain_loss(own - s + t, y, n)
            + plain_loss(own - s - t, y, n)
            for t in steps
        ]
        for s in steps
    ]
    covariance = np.linalg.inv(np.array(second) / 4e-6)
    errors = np.concatenate([point["a_se"], point["d_se"]])
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-3)
    at = np.arange(4)
    centre = -covariance[at, 4 + at] / np.diag(covariance)[:4]
    np.testing.assert_allclose(point["theta_centre"], centre, rtol=0, atol=2e-3)


def test_abilities_are_the_posterior_means_given_items():
    responses = simulate(50, 6, seed=2)[0]
    point = fit_mml(responses, n_nodes=41)
    y, n = responses.cells.matrices()
    eta = GRID[:, None] * point["a"] + point["d"]
    log_p = y @ eta.T - n @ np.logaddexp(0, eta).T
    posterior = np.exp(log_p - log_p.max(1, keepdims=True)) * PRIOR
    posterior /= posterior.sum(1, keepdims=True)
    mean = posterior @ GRID
    sd = np.sqrt(posterior @ GRID**2 - mean**2)
    np.testing.assert_allclose(point["theta"], mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(point["theta_se"], sd, rtol=0, atol=1e-5)


@pytest.mark.parametrize("longest", [16.0, 1e6])
def test_no_leap_raises_the_loss(longest, monkeypatch):
    """Also with an item that nearly separates subjects, where leaps are wild."""
    monkeypatch.setattr("bayesirt.estimators.mml._LONGEST_LEAP", longest)
    point = fit_mml(simulate(60, 5, seed=8)[0], n_nodes=61)
    assert point["a"].max() > 5
    assert (np.diff(point.trace) < 1e-9).all()


def test_five_thousand_items_do_not_fall_between_the_nodes():
    """A fixed grid would put the whole posterior of a subject between two nodes."""
    rng = np.random.default_rng(0)
    theta, a, d = rng.normal(size=40), rng.uniform(0.5, 1, 5000), rng.normal(size=5000)
    y = (rng.uniform(size=(40, 5000)) < expit(theta[:, None] * a + d)).astype(np.int8)
    layout = layout_of(Responses.from_arrays(y))
    items = jnp.stack([jnp.asarray(a), jnp.asarray(d)])
    integrate = jax.jit(expectation, static_argnums=(1, 2))
    found = integrate(layout, LOGIT, 15, items, jnp.asarray(theta))
    assert float(found.sd.max()) < 0.06
    assert np.corrcoef(found.mean, theta)[0, 1] > 0.998
    finer = integrate(layout, LOGIT, 41, items, found.mode)
    np.testing.assert_allclose(found.log_likelihood, finer.log_likelihood, rtol=0, atol=1e-6)
    nodes_within = (np.abs(np.asarray(found.nodes - found.mean)) < 2 * found.sd).sum(0)
    assert nodes_within.min() >= 5


def test_marginal_estimate_is_not_biased_where_the_joint_one_is():
    responses, _, a, d = simulate(2000, 6, seed=4)
    marginal, joint = fit_mml(responses), fit_cbmm(responses)
    errors = np.log(marginal["a"] / a)
    assert np.abs(errors).mean() < 0.12
    assert np.abs(marginal["d"] - d).mean() < 0.1
    assert np.log(joint["a"] / a).mean() > 0.3
    z = (marginal["a"] - a) / marginal["a_se"]
    assert np.abs(z).max() < 3.5


@pytest.mark.slow
def test_few_items_are_fitted_by_mml_and_many_by_cbmm():
    few, many = simulate(40, 8)[0], simulate(40, 31)[0]
    assert fit_point(few).settings["estimator"] == "mml"
    assert fit_point(many).settings["estimator"] == "cbmm"
    assert fit_point(few, "cbmm").settings["estimator"] == "cbmm"
    one, other = fit_point(many, "mml"), fit_point(many)
    assert spearmanr(one["theta"], other["theta"]).statistic > 0.99

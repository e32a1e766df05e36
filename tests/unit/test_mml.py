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
from bayesirt.data.cells import CellList, SparseCells
from bayesirt.errors import ResponseError
from bayesirt.estimators.mml import BARELY_ANY
from bayesirt.estimators.mml_grid import Data, covers, data_of, expectation, grid_for
from bayesirt.estimators.mml_information import observed_covariance
from bayesirt.estimators.weak_prior import FLAT
from bayesirt.likelihood.cell_sums import in_row_blocks, layout_of

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


@pytest.mark.slow
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
    data = data_of(Responses.from_arrays(y))
    items = jnp.stack([jnp.asarray(a), jnp.asarray(d)])
    integrate = jax.jit(expectation)
    narrowest = np.full(40, 1 / np.sqrt(1 + 5000 / 4))
    grid = grid_for(theta, narrowest, a, 15)
    found = integrate(data, grid, items)
    assert float(found.sd.max()) < 0.06
    assert np.corrcoef(found.mean, theta)[0, 1] > 0.998
    finer = integrate(data, grid_for(theta, narrowest, a, 41), items)
    np.testing.assert_allclose(found.log_likelihood, finer.log_likelihood, rtol=0, atol=1e-6)
    nodes_within = (np.abs(grid[:, None] - found.mean) < 2 * found.sd).sum(0)
    assert nodes_within.min() >= 5
    assert covers(grid, found.mean, found.sd, a, 15)
    assert not covers(np.linspace(-6, 6, 61), found.mean, found.sd, a, 15)


def test_a_wrong_first_grid_is_left_for_one_that_does():
    """Slopes of 8 make posteriors eight times as narrow as logits suggest."""
    rng = np.random.default_rng(0)
    theta, a, d = rng.normal(size=60), rng.uniform(6, 9, 300), 4 * rng.normal(size=300)
    y = (rng.uniform(size=(60, 300)) < expit(theta[:, None] * a + d)).astype(int)
    point = fit_mml(Responses.from_arrays(y), errors="own")
    finer = fit_mml(Responses.from_arrays(y), n_nodes=61, errors="own")
    assert point["theta_se"].min() < 0.04
    assert (np.diff(point.trace) < 1e-8).all()
    assert point.log_likelihood == pytest.approx(finer.log_likelihood, abs=1e-4)


def test_location_and_scale_are_found_on_long_tests():
    """Where plain EM moves by the share of a posterior's variance in the population's."""
    responses = simulate(100, 300, seed=3)[0]
    point = fit_mml(responses, prior=FLAT, errors="own")
    assert point.iterations < 10
    assert abs(point["theta"].mean()) < 1e-5
    assert np.mean(point["theta"] ** 2 + point["theta_se"] ** 2) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("trials", ["common", "various"])
def test_blocks_of_rows_and_lists_of_cells_say_the_same(trials):
    y, n = counts(37, 11, common=trials == "common")
    responses = Responses.from_arrays(y, n)
    items = jnp.stack([jnp.linspace(0.3, 2, 11), jnp.linspace(-1, 1, 11)])
    grid = np.linspace(-8, 8, 101)
    whole = data_of(responses)
    assert (whole.common is not None) == (trials == "common")
    listed = as_sparse(responses)
    others = [
        whole._replace(common=None),
        whole._replace(layout=in_row_blocks(whole.layout, 200)),
        Data(layout_of(listed), None),
    ]
    compiled = jax.jit(expectation)
    expected = compiled(whole, grid, items)
    for other in others:
        for one, two in zip(expected, compiled(other, grid, items), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_sparse_responses_are_not_made_dense():
    n = 3000
    cells = CellList(*np.divmod(np.arange(0, n * n, 1001), n), *np.ones((2, 8992), np.int8))
    responses = Responses(*(tuple(map(str, range(n))),) * 2, SparseCells(n, n, cells))
    program = jax.make_jaxpr(expectation)(
        data_of(responses), np.linspace(-8, 8, 64), jnp.ones((2, n))
    )
    assert max(v.aval.size for e in program.eqns for v in e.outvars) < n * n / 10


def counts(n_subjects: int, n_items: int, *, common: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    n = rng.integers(1, 4, (1 if common else n_subjects, n_items)) + np.zeros((n_subjects, 1), int)
    if not common:
        n[rng.uniform(size=n.shape) < 0.3] = 0
        n[n.sum(1) == 0, 0] = 1
    p = expit(rng.normal(size=(n_subjects, 1)) * rng.uniform(0.5, 2, n_items))
    return rng.binomial(n, p), n


def as_sparse(responses: Responses) -> Responses:
    cells = SparseCells(*responses.cells.shape, CellList(*responses.cells.listed()))
    return Responses(responses.subjects, responses.items, cells)


def dense_covariance(y: np.ndarray, n: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the inverse of Louis's information, with each subject's covariance written out."""
    a, d = items
    p = expit(GRID[:, None] * a + d)
    information = np.diag(np.full(2 * len(a), BARELY_ANY.a_precision))
    for own_y, own_n in zip(y, n, strict=True):
        eta = GRID[:, None] * a + d
        log_p = eta @ own_y - np.logaddexp(0, eta) @ own_n
        weights = np.exp(log_p - log_p.max()) * PRIOR
        weights /= weights.sum()
        score = own_y - own_n * p
        both = np.concatenate([score * GRID[:, None], score], axis=1)
        centred = both - weights @ both
        information -= (weights[:, None] * centred).T @ centred
        own = [weights * GRID**k @ (own_n * p * (1 - p)) for k in range(3)]
        information += np.block(
            [[np.diag(own[2]), np.diag(own[1])], [np.diag(own[1]), np.diag(own[0])]]
        )
    return np.linalg.inv(information)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(60, 7), (8, 40)], ids=["by items", "by columns"])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_errors_equal_those_of_the_matrix_written_out(shape, layout, monkeypatch):
    monkeypatch.setattr("bayesirt.estimators.mml_information._PIECE_CELLS", 1000)
    y, n = counts(*shape, common=False)
    responses = Responses.from_arrays(y, n)
    point = fit_mml(responses, errors="own")
    items = np.stack([point["a"], point["d"]])
    cells = (as_sparse(responses) if layout == "sparse" else responses).cells
    found = jax.jit(expectation)(data_of(responses), GRID, jnp.asarray(items))
    covariance = observed_covariance(
        cells, GRID, items, found.information, BARELY_ANY, most_directions=20
    )
    expected = dense_covariance(y, n, items)
    at = np.arange(shape[1])
    both = np.diag(expected)
    for own, wanted in zip(
        covariance, (*np.split(both, 2), expected[at, len(at) + at]), strict=True
    ):
        np.testing.assert_allclose(own, wanted, rtol=1e-6, atol=1e-8)


def test_errors_of_items_alone_are_lower_bounds():
    responses = simulate(80, 12, seed=6)[0]
    observed, own = fit_mml(responses), fit_mml(responses, errors="own")
    np.testing.assert_array_equal(observed["a"], own["a"])
    for name in ("a_se", "d_se"):
        assert (own[name] < observed[name]).all()


def test_a_matrix_too_large_to_invert_is_refused(monkeypatch):
    monkeypatch.setattr("bayesirt.estimators.mml.MOST_HELD", 10)
    with pytest.raises(ResponseError, match="20 x 20 for 9 subjects and 10 items"):
        fit_mml(simulate(9, 10)[0])


@pytest.mark.slow
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

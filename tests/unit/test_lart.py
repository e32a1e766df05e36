"""LaRT's pieces: sums over lengths, closed formulas, quadrature, and its two estimators."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import simulate_lart, some_missing, with_lengths
from lart_prior import log_lengths
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import kstest, norm
from small_data import as_sparse

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.ability_quadrature import PriorMoments, integrate_abilities
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.lart_em import em_step, fit_lart, to_free
from bayesirt.estimators.lart_steps import (
    LaRTItems,
    SubjectMoments,
    best_lengths,
    lart_data,
    spectral_lart,
    to_standard_population,
)
from bayesirt.estimators.saem import draw_abilities, fit_saem
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.families import LOGIT, PROBIT
from bayesirt.likelihood.latencies import SpeedEvidence, latencies_of
from bayesirt.point_estimate import PointEstimate

MISSING = some_missing(30, 20)
RESPONSES, TRUTH = simulate_lart(60, 20)
RNG = np.random.default_rng(0)
PHI, OMEGA, LAM = RNG.normal(1, 0.3, 20), RNG.normal(5, 1, 20), RNG.uniform(0.5, 2, 20)


@cache
def estimate() -> PointEstimate:
    return fit_lart(RESPONSES)


@pytest.mark.parametrize("responses", [MISSING, as_sparse(MISSING)], ids=["dense", "sparse"])
def test_sums_over_lengths_are_those_over_the_seen_ones(responses):
    latencies, x = latencies_of(responses, layout_of(responses)), log_lengths(MISSING)
    tau = np.linspace(-1, 1, 30)
    evidence = latencies.speed_evidence(PHI, OMEGA, LAM)
    seen = np.isfinite(x)
    np.testing.assert_allclose(evidence.precision, (seen * PHI**2 / LAM).sum(1))
    np.testing.assert_allclose(evidence.pull, np.nansum(-PHI * (x - OMEGA) / LAM, 1))
    moments = latencies.moments(tau, tau**2)
    each = norm.logpdf(x, OMEGA - np.outer(tau, PHI), np.sqrt(LAM))
    found = latencies.log_likelihood(PHI, OMEGA, LAM, moments)
    np.testing.assert_allclose(found, np.nansum(each, 0), rtol=1e-10)


@pytest.mark.parametrize("precision", [0.0, 3.0])
@pytest.mark.parametrize("rho", [-0.8, 0.3])
def test_what_lengths_say_of_ability_and_speed_is_the_normal_s_own(precision, rho):
    """Compare with matrix algebra: (θ, τ) is normal, and τ is observed with normal error."""
    pull = 1.3 * (precision > 0)
    evidence = SpeedEvidence(jnp.array([precision]), jnp.array([pull]))
    known = np.linalg.inv([[1, rho], [rho, 1]]) + np.diag([0, precision])
    covariance = np.linalg.inv(known)
    centre = covariance @ [0, pull]
    mean, variance = evidence.ability(jnp.array(rho))
    np.testing.assert_allclose([mean[0], variance[0]], [centre[0], covariance[0, 0]], atol=1e-12)
    mean, variance = evidence.speed(jnp.array(rho), jnp.array([0.7]))
    expected = (pull - known[0, 1] * 0.7) / known[1, 1]
    np.testing.assert_allclose([mean[0], variance[0]], [expected, 1 / known[1, 1]])
    marginal, _ = quad(lambda t: np.exp(pull * t - precision * t**2 / 2) * norm.pdf(t), -9, 9)
    assert float(evidence.log_marginal()[0]) == pytest.approx(np.log(marginal))


def test_lengths_of_items_minimise_the_penalised_expected_squares():
    latencies = latencies_of(MISSING, layout_of(MISSING))
    tau = np.linspace(-1.5, 1.5, 30)
    moments = latencies.moments(tau, tau**2 + 0.2)
    found = best_lengths(latencies, moments)

    @jax.jit
    @jax.value_and_grad
    def loss(values: jax.Array) -> jax.Array:
        phi, omega, log_lam = values.reshape(3, 20)
        zero = jnp.zeros(20)
        items = LaRTItems(zero, zero, phi, omega, jnp.exp(log_lam), jnp.zeros(()))
        own = latencies.log_likelihood(phi, omega, items.lam, moments)
        return items.penalty() - own.sum()

    start = np.concatenate([found[0], found[1], np.log(found[2])])
    best = minimize(loss, start + 0.1, jac=True, tol=1e-10)
    np.testing.assert_allclose(start, best.x, atol=1e-4)


def test_population_is_the_most_likely_one_and_no_response_sees_the_move():
    values = (jnp.asarray(x) for x in (PHI, OMEGA - 5, PHI[::-1], OMEGA, LAM, -0.3))
    items = LaRTItems(*values)
    n, mean, covariance = 40.0, np.array([0.4, -0.2]), np.array([[1.3, -0.5], [-0.5, 0.8]])
    raw = n * (covariance + np.outer(mean, mean))
    moments = SubjectMoments(n, *(n * mean), raw[0, 0], raw[0, 1], raw[1, 1])
    found = to_standard_population(items, SubjectMoments(*map(jnp.asarray, moments)))

    def moved(x: np.ndarray) -> LaRTItems:
        return items._replace(
            a=items.a * np.exp(x[2]), d=items.d + items.a * x[0], rho=jnp.tanh(x[4]),
            phi=items.phi * np.exp(x[3]), omega=items.omega - items.phi * x[1],
        )  # fmt: skip

    def loss(x: np.ndarray) -> float:
        spreads, rho = np.exp(x[2:4]), np.tanh(x[4])
        sigma = np.outer(spreads, spreads) * [[1, rho], [rho, 1]]
        away = covariance + np.outer(mean - x[:2], mean - x[:2])
        own = np.linalg.slogdet(sigma)[1] + np.trace(np.linalg.solve(sigma, away))
        return float(moved(x).penalty()) + n / 2 * own

    best = moved(minimize(loss, np.zeros(5), tol=1e-12).x)
    for name in LaRTItems._fields:
        one, other = getattr(found, name), getattr(best, name)
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("family", [PROBIT, LOGIT], ids=lambda f: f.name)
@pytest.mark.parametrize("responses", [MISSING, as_sparse(MISSING)], ids=["dense", "sparse"])
def test_quadrature_is_the_integral(family, responses):
    a, d = jnp.asarray(PHI), jnp.asarray(OMEGA - 5)
    before = PriorMoments(jnp.linspace(-1, 1, 30), jnp.linspace(0.3, 1, 30))

    def integrated(a: jnp.ndarray, near: jnp.ndarray) -> tuple:
        options = {"n_nodes": 21, "dtype": jnp.float64}
        return integrate_abilities(layout_of(responses), family, (a, d), before, near, **options)

    near_mode = integrated(a, jnp.zeros(30))[0].mode
    found, sums = integrated(a, near_mode)
    successes, trials = MISSING.cells.matrices()

    def density(theta: float, i: int) -> float:
        terms = family.terms(theta * a + d, successes[i], trials[i])
        prior = norm.pdf(theta, before.mean[i], np.sqrt(before.variance[i]))
        return float(jnp.exp(terms.log_likelihood.sum() - found.log_likelihood[i])) * prior

    for i in (0, 7, 29):
        near = float(found.mode[i])
        total, _ = quad(density, near - 6, near + 6, (i,))
        mean, _ = quad(lambda t, i=i: t * density(t, i), near - 6, near + 6)
        assert total == pytest.approx(1, abs=1e-7)
        assert float(found.mean[i]) == pytest.approx(mean / total, abs=1e-7)

    slope = jax.grad(lambda a: integrated(a, near_mode)[0].log_likelihood.sum())(a)
    np.testing.assert_allclose(sums.score[0], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_abilities_are_drawn_from_their_posteriors():
    """Posteriors of five answers are not normal; 4,000 draws each, one false alarm in 1,000."""
    few = MISSING.select(np.arange(30), np.arange(5))
    a, d = jnp.full(5, 1.5), jnp.zeros(5)
    found, _ = integrate_abilities(
        layout_of(few), PROBIT, (a, d), PriorMoments(jnp.zeros(30), jnp.ones(30)), jnp.zeros(30),
        n_nodes=15, dtype=jnp.float64,
    )  # fmt: skip
    keys = jax.random.split(jax.random.key(3), 4000)
    draws = jax.jit(jax.vmap(lambda key: draw_abilities(key, found, 15)))(keys)
    successes, trials = few.cells.matrices()
    grid = np.linspace(-6, 6, 4001)
    for i in (0, 11, 20):
        terms = PROBIT.terms(grid[:, None] * a + d, successes[i], trials[i])
        density = np.exp(np.asarray(terms.log_likelihood.sum(1))) * norm.pdf(grid)
        cumulated = np.cumsum(density) / density.sum()
        found_p = kstest(draws[:, i], lambda x, c=cumulated: np.interp(x, grid, c)).pvalue
        assert found_p > 1e-3 / 3


@pytest.mark.slow
def test_em_converges_to_a_place_without_slope():
    data = lart_data(RESPONSES, lengths=True)
    items = LaRTItems(*(jnp.asarray(estimate()[k]) for k in LaRTItems._fields))
    mode = jnp.asarray(estimate()["theta"])

    def loss(free: LaRTItems) -> jnp.ndarray:
        return em_step(data, PROBIT, 21, jnp.float64, free, mode)[3]

    slope = jax.grad(loss)(to_free(items))
    assert max(float(jnp.abs(s).max()) for s in slope) < 0.02
    rougher = jax.grad(loss)(to_free(spectral_lart(RESPONSES, data, "probit")[0]))
    assert max(float(jnp.abs(s).max()) for s in rougher) > 1


def test_estimate_is_complete():
    assert estimate().converged
    assert estimate().settings["lengths"] == "taken"
    for name in ("theta", "tau", "a", "d", "phi", "omega", "lam", "rho"):
        assert (estimate()[f"{name}_se"] > 0).all(), name
    assert estimate()["a"].sum() > 0
    assert estimate()["phi"].sum() > 0
    table = estimate().summary
    assert table.loc[("rho", ""), "estimate"] == estimate()["rho"]
    assert table.loc[("tau", "subject 3"), "se"] == estimate()["tau_se"][2]


def test_truth_is_found():
    limits = {"theta": 0.45, "tau": 0.3, "a": 0.5, "d": 0.55, "phi": 0.25, "omega": 0.25}
    for name, most in limits.items():
        assert np.sqrt(np.mean((estimate()[name] - TRUTH[name]) ** 2)) < most, name
    assert abs(estimate()["rho"] - TRUTH["rho"]) < 0.15


def test_lengths_narrow_abilities():
    without = fit_lart(RESPONSES, lengths=False)
    assert "tau" not in without.parameters
    assert (estimate()["theta_se"] / without["theta_se"]).mean() < 0.95
    assert without.settings["lengths"] == "left out"


@pytest.mark.slow
def test_saem_agrees_with_em():
    found = fit_saem(RESPONSES, key=jax.random.key(0), iterations=800, burn_in=100, decay=0.8)
    assert found.converged
    assert found.log_likelihood == pytest.approx(estimate().log_likelihood, abs=1)
    for name in ("theta", "tau", "a", "d", "phi", "omega"):
        apart = (found[name] - estimate()[name]) / estimate()[f"{name}_se"]
        assert np.median(np.abs(apart)) < 0.1, name
        assert np.abs(apart).max() < 0.5, name
    assert abs(found["rho"] - estimate()["rho"]) < 0.03


@pytest.mark.slow
def test_saem_finds_its_way_from_a_poor_start():
    options = {"start": "random", "burn_in": 100, "iterations": 400}
    found = fit_saem(RESPONSES, key=jax.random.key(1), **options)
    assert found.log_likelihood == pytest.approx(estimate().log_likelihood, abs=1)
    again = fit_saem(RESPONSES, key=jax.random.key(1), **options)
    np.testing.assert_array_equal(found["theta"], again["theta"])


@pytest.mark.slow
def test_saem_says_when_it_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="more than 1e-12 of its value over the last 40"):
        found = fit_saem(RESPONSES, key=jax.random.key(1), iterations=400, burn_in=100, tol=1e-12)
    assert not found.converged


def test_a_missing_length_leaves_the_response_in():
    x = log_lengths(RESPONSES)
    x[0] = np.nan
    found = fit_lart(with_lengths(RESPONSES, x))
    evidence = latencies_of(with_lengths(RESPONSES, x), layout_of(RESPONSES)).speed_evidence(
        *(jnp.asarray(found[k]) for k in ("phi", "omega", "lam"))
    )
    assert float(evidence.precision[0]) == 0
    assert found["tau_se"][0] > 2 * found["tau_se"][1:].max()
    assert found["theta_se"][0] > estimate()["theta_se"][0]


@pytest.mark.slow
def test_dense_equals_sparse_with_missing_cells():
    one, other = fit_lart(MISSING), fit_lart(as_sparse(MISSING))
    for name in ("theta", "tau", "a", "d", "phi", "omega", "lam", "rho"):
        np.testing.assert_allclose(one[name], other[name], atol=2e-3, err_msg=name)


def test_items_that_contradict_the_rest_have_negative_slopes():
    successes, trials = RESPONSES.cells.matrices()
    flipped = successes.copy()
    flipped[:, 3] = 1 - flipped[:, 3]
    found = fit_lart(replace(RESPONSES, cells=Responses.from_arrays(flipped, trials).cells))
    assert found["a"][3] == pytest.approx(-estimate()["a"][3], abs=0.02)


def test_correlation_near_its_end_does_not_run_away():
    responses, _ = simulate_lart(60, 20, seed=3, rho=-0.999)
    found = fit_lart(responses)
    assert found.converged
    assert -0.999 < found["rho"] < -0.9


@pytest.mark.parametrize(
    "fit",
    [
        fit_lart,
        pytest.param(partial(fit_saem, key=jax.random.key(2), tol=1), marks=pytest.mark.slow),
    ],
    ids=["em", "saem"],
)
def test_abler_is_up_and_faster_is_up_even_where_answers_are_noise(fit):
    found = fit(MISSING)
    assert found["a"].sum() > 0
    assert found["phi"].sum() > 0


def test_unit_of_length_does_not_matter():
    seconds = replace(RESPONSES, latency=RESPONSES.latency / 1000)
    found = fit_lart(seconds)
    np.testing.assert_allclose(found["theta"], estimate()["theta"], atol=1e-6)
    np.testing.assert_allclose(found["omega"], estimate()["omega"] - np.log(1000), atol=1e-6)


@pytest.mark.parametrize(
    ("latency", "message"),
    [
        (None, "LaRT needs the length or time of responses"),
        (np.full(1200, np.nan), "LaRT needs the length or time of responses"),
        (np.tile(np.arange(1.0, 21), 60), "the lengths of no item differ"),
    ],
    ids=["none", "all missing", "all alike"],
)
def test_lengths_that_say_nothing_are_refused(latency, message):
    with pytest.raises(ResponseError, match=message):
        fit_lart(replace(RESPONSES, latency=latency))


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="do not exceed a burn-in of 10"):
        fit_saem(RESPONSES, key=jax.random.key(0), iterations=10, burn_in=10)
    with pytest.raises(ValueError, match="`decay` must be above 1/2"):
        fit_saem(RESPONSES, key=jax.random.key(0), decay=0.5)

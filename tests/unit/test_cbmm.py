"""cBMM against Algorithm 1 as published, and guarantees of both steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from scipy.optimize import minimize
from scipy.special import expit
from small_data import in_32_bits, model_counts

from bayesirt.data.responses import Responses
from bayesirt.estimators.block_mm import init_mm, mm_step
from bayesirt.estimators.block_newton import init_newton, newton_step
from bayesirt.estimators.cbmm import WeakPrior, fit_cbmm
from bayesirt.estimators.cell_sums import CellSums, cell_sums
from bayesirt.estimators.iteration import ConvergenceWarning, iterate
from bayesirt.likelihood.cell_sums import RowBlocks, in_row_blocks, layout_of
from bayesirt.likelihood.families import LOGIT
from bayesirt.point_estimate import PointEstimate

each_step = pytest.mark.parametrize("step", ["mm", "newton"])


COMPLETE, COUNTS = simulate(40, 25)[0], Responses.from_arrays(*model_counts(40, 25))
each_data = pytest.mark.parametrize("responses", [COMPLETE, COUNTS], ids=["complete", "counts"])


def random_start(responses: Responses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    n, j = responses.n_subjects, responses.n_items
    return rng.normal(size=n), np.exp(rng.normal(size=j)), rng.normal(size=j)


def algorithm_1(
    responses: Responses,
    start: tuple[np.ndarray, np.ndarray, np.ndarray],
    iterations: int,
    sigma: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[float]]:
    """Follow Qu et al. (2026) line by line, with full matrices and sums over observed cells."""
    y, n = (m.astype(float) for m in responses.cells.matrices())
    theta, a, d = start
    losses = []

    def loss():
        eta = (np.outer(theta, a) + d) / sigma
        return -(y * eta - n * np.logaddexp(0, eta)).sum()

    losses.append(loss())
    for _ in range(iterations):
        x = np.outer(theta, a) + d
        working = x + 4 * sigma * (np.divide(y, n, where=n > 0, out=0 * y) - expit(x / sigma))
        a = np.maximum(0, (n * theta[:, None] * (working - d)).sum(0) / (n.T @ theta**2))
        d = (n * (working - np.outer(theta, a))).sum(0) / n.sum(0)
        theta = (n * (working - d)) @ a / (n @ a**2)
        losses.append(loss())
    mean, sd = theta.mean(), theta.std()
    return (theta - mean) / sd, a * sd, d + a * mean, losses


@each_data
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_mm_is_algorithm_1(responses, temperature):
    start = random_start(responses)
    with pytest.warns(ConvergenceWarning):
        fit = fit_cbmm(
            responses, step="mm", start=start, temperature=temperature, tol=0, max_iterations=30
        )
    *expected, losses = algorithm_1(responses, start, 30, temperature)
    np.testing.assert_allclose(fit.trace, losses, rtol=1e-10)
    for name, values in zip(("theta", "a", "d"), expected, strict=True):
        np.testing.assert_allclose(fit[name], values, rtol=0, atol=1e-8)


@each_step
def test_item_that_contradicts_the_rest_gets_a_of_zero(step):
    y = COMPLETE.cells.matrices()[0].copy()
    y[:, 3] = y.sum(1) < np.median(y.sum(1))
    fit = fit_cbmm(Responses.from_arrays(y), step=step, prior=WeakPrior(), start="logits")
    assert fit["a"][3] == 0
    assert (np.delete(fit["a"], 3) > 0).sum() >= 20
    assert np.isnan(fit["b"][3])
    assert np.isfinite(fit["a_se"][3])


@each_data
@each_step
@pytest.mark.parametrize("prior", [None, WeakPrior(), WeakPrior(0.1, 3.0, 1.0)])
def test_loss_never_rises(responses, step, prior):
    fit = fit_cbmm(responses, step=step, prior=prior, start=random_start(responses), tol=1e-5)
    assert fit.converged
    assert np.diff(fit.trace).max() <= 1e-13 * fit.trace[0]
    assert fit.trace[-1] < 0.8 * fit.trace[0]
    assert len(fit.trace) == fit.iterations + 1


def stationarity(responses: Responses, fit: PointEstimate, prior: WeakPrior) -> float:
    """Return the largest derivative of the penalised loss, after undoing the standardisation."""
    y, n = (m.astype(float) for m in responses.cells.matrices())

    def loss(point):
        theta, a, d = point
        eta = theta[:, None] * a + d
        return -(y * eta - n * jnp.logaddexp(0, eta)).sum() + prior.loss(theta, a, d)

    def over_scale(point):
        shift, log_scale, theta, a, d = point
        scale = jnp.exp(log_scale)
        return loss((theta * scale + shift, a / scale, d - a / scale * shift))

    start = [jnp.asarray(fit[k]) for k in ("theta", "a", "d")]
    best = minimize(
        jax.value_and_grad(lambda x: over_scale((x[0], x[1], *start))),
        np.zeros(2),
        jac=True,
        tol=1e-14,
    ).x
    gradient = jax.grad(over_scale)((*map(jnp.asarray, best), *start))
    free = np.asarray(fit["a"] > 0)
    return max(
        float(jnp.abs(gradient[2]).max()),
        float(jnp.abs(gradient[3] * free).max()),
        float(jnp.abs(gradient[4]).max()),
    )


@each_data
@each_step
def test_gradient_is_zero_at_the_optimum(responses, step):
    prior = WeakPrior()
    fit = fit_cbmm(
        responses, step=step, prior=prior, start="logits", tol=1e-15, max_iterations=20_000
    )
    assert stationarity(responses, fit, prior) < 1e-3


def passes_to(step: str, responses: Responses, start: tuple, target: float) -> int:
    """Return the number of passes over the data until the loss is at most the target."""
    init, advance = {"mm": (init_mm, mm_step), "newton": (init_newton, newton_step)}[step]
    layout, prior = layout_of(responses), WeakPrior()
    state = init(layout, LOGIT, prior, tuple(map(jnp.asarray, start)))
    step_once = jax.jit(advance, static_argnums=1)
    while float(state.loss) > target:
        state = step_once(layout, LOGIT, prior, state)
        assert state.passes < 5000
    return int(state.passes)


def compare_passes(responses: Responses, start: tuple) -> tuple[int, int]:
    """Return the passes of MM and of Newton until the loss is within 1e-6 of the minimum."""
    target = fit_cbmm(responses, tol=1e-14).trace[-1] * (1 + 1e-6)
    mm, newton = (passes_to(step, responses, start, target) for step in ("mm", "newton"))
    print(f"passes to within 1e-6 of the optimum: mm {mm}, newton {newton}")
    return mm, newton


def row_and_column_logits(responses: Responses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = (responses.cells.totals(axis) for axis in (1, 0))
    theta, d = (
        np.log((t.successes + 0.5) / (t.trials - t.successes + 0.5)) for t in (rows, columns)
    )
    return (theta - theta.mean()) / theta.std(), np.ones(responses.n_items), d


each_start = pytest.mark.parametrize("start_of", [random_start, row_and_column_logits])


@pytest.mark.slow
@each_start
def test_newton_needs_at_most_a_third_of_the_passes(start_of):
    responses = simulate(200, 100)[0]
    mm, newton = compare_passes(responses, start_of(responses))
    assert newton <= mm / 3


@pytest.mark.slow
@each_start
def test_newton_needs_at_most_a_tenth_of_the_passes_on_math500(shared, start_of):
    stored = np.load(shared / "data" / "lart_math500.npz", allow_pickle=False)
    y = stored["Y"][~stored["dropped_by_authors"]]
    responses = Responses.from_arrays(np.where(y < 0, np.nan, y))
    assert responses.cells.shape == (140, 500)
    mm, newton = compare_passes(responses, start_of(responses))
    assert newton <= mm / 10


@each_step
def test_reported_passes_are_the_steps_own(step):
    fit = fit_cbmm(COMPLETE, step=step, prior=WeakPrior(), start="logits", tol=1e-6)
    per_iteration = 1 if step == "mm" else 2
    assert fit.settings["passes"] >= 1 + per_iteration * fit.iterations
    assert fit.settings["passes"] <= 1 + (per_iteration if step == "mm" else 5) * fit.iterations


def test_both_steps_reach_the_same_optimum():
    mm, newton = (
        fit_cbmm(
            COUNTS, step=step, prior=WeakPrior(), start="logits", tol=1e-14, max_iterations=20_000
        )
        for step in ("mm", "newton")
    )
    assert mm.trace[-1] == pytest.approx(newton.trace[-1], rel=1e-9)
    for name in ("theta", "a", "d"):
        np.testing.assert_allclose(mm[name], newton[name], rtol=0, atol=2e-3)


def test_temperature_stretches_a_and_d_and_nothing_else():
    plain, warm = (fit_cbmm(COUNTS, temperature=t, tol=1e-13) for t in (1.0, 2.5))
    for name in ("theta", "theta_se", "b", "theta_centre"):
        np.testing.assert_allclose(warm[name], plain[name], rtol=1e-5, atol=1e-5)
    for name in ("a", "d", "a_se", "d_se"):
        np.testing.assert_allclose(warm[name], 2.5 * plain[name], rtol=1e-5, atol=1e-5)
    assert warm.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)


def test_random_start_needs_a_key_and_is_reproducible():
    with pytest.raises(ValueError, match="needs key="):
        fit_cbmm(COMPLETE, step="mm")
    one, again, other = (
        fit_cbmm(COMPLETE, step="mm", key=jax.random.key(k))["theta"] for k in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-6


def test_loop_stops_at_the_last_finite_loss():
    losses = iter([2.0, 1.0, np.nan])
    with pytest.warns(ConvergenceWarning, match="test: the loss is no longer finite"):
        state, run = iterate(
            lambda _: next(losses), 4.0, float, tol=0.1, max_iterations=9, name="test"
        )
    assert (state, run.iterations, run.converged) == (1.0, 2, False)
    assert run.trace.tolist() == [4.0, 2.0, 1.0]


def test_loop_stops_when_the_change_is_small():
    losses = iter([50.0, 49.0, 48.9])
    state, run = iterate(
        lambda _: next(losses), 100.0, float, tol=0.02, max_iterations=9, name="test"
    )
    assert (state, run.iterations, run.converged) == (49.0, 2, True)


@pytest.fixture(scope="module")
def large() -> Responses:
    """Return more cells than fit into one block of rows, some of them missing."""
    y = simulate(1061, 1000, seed=2)[0].cells.matrices()[0]
    trials = (np.random.default_rng(3).uniform(size=y.shape) < 0.97).astype(int)
    return Responses.from_arrays(trials * y, trials)


def test_blocks_of_rows_change_no_sum(large):
    theta, a, d = map(jnp.asarray, random_start(large))
    whole = layout_of(large)
    blocks = in_row_blocks(whole, 100_000)
    assert isinstance(blocks, RowBlocks)
    assert blocks.blocks.trials.shape == (11, 97, 1000)
    sums, expected = (cell_sums(layout, LOGIT, theta, a, d) for layout in (blocks, whole))
    for name in CellSums._fields:
        np.testing.assert_allclose(getattr(sums, name), getattr(expected, name), rtol=1e-9)
    coarse = cell_sums(blocks, LOGIT, theta, a, d, dtype=jnp.float32)
    for name in ("subject_loss", "theta_information", "item_loss", "aa", "dd"):
        np.testing.assert_allclose(getattr(coarse, name), getattr(expected, name), rtol=2e-6)
        assert getattr(coarse, name).dtype == jnp.float64


@pytest.mark.slow
def test_a_coarse_beginning_leaves_the_end_as_it_is(large, monkeypatch):
    fit = fit_cbmm(large)
    assert fit.converged
    assert len(fit.trace) == fit.iterations + 1
    assert (np.diff(fit.trace) < 0).all()
    monkeypatch.setattr("bayesirt.estimators.cbmm.in_row_blocks", lambda layout: layout)
    fine = fit_cbmm(large)
    assert fit.trace[-1] == pytest.approx(fine.trace[-1], rel=2e-9)
    for name in ("theta", "a", "d", "theta_se", "a_se", "d_se"):
        np.testing.assert_allclose(fit[name], fine[name], atol=2e-3 * fine[name].std())


def test_a_coarse_beginning_that_does_not_converge_says_so(large):
    with pytest.warns(ConvergenceWarning, match="after 2 steps"):
        fit = fit_cbmm(large, max_iterations=2)
    assert not fit.converged
    assert fit.iterations == 2


@pytest.mark.slow
def test_a_million_cells_in_32_bits_from_a_wild_start_stay_numbers(large):
    """A naive float32 version overflows here, in exp(η) of a random start and in large sums."""
    with in_32_bits():
        start = [20 * np.asarray(x, np.float32) for x in random_start(large)]
        fit = fit_cbmm(large, start=tuple(start))
    assert fit.converged
    exact = fit_cbmm(large)
    assert fit.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-4)
    assert np.corrcoef(fit["theta"], exact["theta"])[0, 1] > 0.9999

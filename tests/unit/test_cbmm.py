"""cBMM against Algorithm 1 as printed, and what both steps promise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from bayesirt.cells import CellList, SparseCells
from bayesirt.estimators.block_mm import init_mm, mm_step
from bayesirt.estimators.block_newton import init_newton, newton_step
from bayesirt.estimators.cbmm import WeakPrior, fit_cbmm
from bayesirt.estimators.driver import ConvergenceWarning, iterate
from bayesirt.families import LOGIT
from bayesirt.likelihood import layout_of
from bayesirt.point_estimate import PointEstimate
from bayesirt.responses import Responses

NAMES = ("theta", "a", "d", "theta_se", "a_se", "d_se")
each_step = pytest.mark.parametrize("step", ["mm", "newton"])


def drawn(n_subjects: int, n_items: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    theta, a = rng.normal(size=(n_subjects, 1)), np.exp(0.4 * rng.normal(size=n_items))
    return expit(theta * a + rng.normal(size=n_items))


def complete(n_subjects: int, n_items: int) -> Responses:
    p = drawn(n_subjects, n_items)
    return Responses.from_arrays((np.random.default_rng(1).uniform(size=p.shape) < p).astype(int))


def masked_counts(n_subjects: int, n_items: int) -> Responses:
    p = drawn(n_subjects, n_items)
    rng = np.random.default_rng(1)
    trials = rng.integers(1, 6, p.shape) * (rng.uniform(size=p.shape) < 0.6)
    return Responses.from_arrays(rng.binomial(trials, p), trials)


COMPLETE, COUNTS = complete(40, 25), masked_counts(40, 25)
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
    """Follow papers/000 line by line, with full matrices and sums over observed cells."""
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
    for name, values in zip(NAMES, expected, strict=False):
        np.testing.assert_allclose(fit[name], values, rtol=0, atol=1e-8)
    assert (fit["a"] == 0).any() == (expected[1] == 0).any()


def test_mm_keeps_a_at_its_bound():
    y = drawn(40, 6) > 0.5
    y[:, 5] = ~y[:, 4]
    responses = Responses.from_arrays(y.astype(int))
    for step in ("mm", "newton"):
        fit = fit_cbmm(responses, step=step, prior=WeakPrior(), start="logits", tol=1e-10)
        assert fit["a"].min() == 0
        assert np.isnan(fit["b"][fit["a"].argmin()])


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

    from scipy.optimize import minimize

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


def passes_to(step: str, responses: Responses, start: tuple, target: float) -> tuple[int, int]:
    """Return iterations and passes until the loss is at most the target."""
    init, advance = {"mm": (init_mm, mm_step), "newton": (init_newton, newton_step)}[step]
    layout, prior = layout_of(responses), WeakPrior()
    state = init(layout, LOGIT, prior, tuple(map(jnp.asarray, start)))
    step_once = jax.jit(advance, static_argnums=1)
    for iteration in range(5000):
        if float(state.loss) <= target:
            return iteration, int(state.passes)
        state = step_once(layout, LOGIT, prior, state)
    raise AssertionError("the target was never reached")


def least_loss(responses: Responses) -> float:
    return fit_cbmm(responses, tol=1e-14, max_iterations=5000).trace[-1]


def math500(shared) -> Responses:
    stored = np.load(shared / "data" / "lart_math500.npz", allow_pickle=False)
    y = stored["Y"][~stored["dropped_by_authors"]]
    return Responses.from_arrays(np.where(y < 0, np.nan, y))


@pytest.mark.parametrize("start", ["given", "logits"])
def test_newton_needs_a_third_of_the_passes_on_simulated_data(start):
    responses = complete(200, 100)
    best = least_loss(responses)
    point = random_start(responses) if start == "given" else logits_start(responses)
    mm, newton = (
        passes_to(step, responses, point, best * (1 + 1e-6)) for step in ("mm", "newton")
    )
    print(f"(iterations, passes) to 1e-6: mm {mm}, newton {newton}")
    assert newton[1] <= mm[1] / 3


def logits_start(responses: Responses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = (responses.cells.totals(axis) for axis in (1, 0))
    theta, d = (
        np.log((t.successes + 0.5) / (t.trials - t.successes + 0.5)) for t in (rows, columns)
    )
    return (theta - theta.mean()) / theta.std(), np.ones(responses.n_items), d


@pytest.mark.parametrize("start", ["given", "logits"])
def test_newton_needs_a_tenth_of_the_passes_on_math500(shared, start):
    responses = math500(shared)
    best = least_loss(responses)
    point = random_start(responses) if start == "given" else logits_start(responses)
    mm, newton = (
        passes_to(step, responses, point, best * (1 + 1e-6)) for step in ("mm", "newton")
    )
    print(f"(iterations, passes) to 1e-6: mm {mm}, newton {newton}")
    assert newton[1] <= mm[1] / 10

"""Laplace for models with more parameters than slope and intercept, against brute force."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from laplace_algebra import (
    as_matrix,
    assert_iterative_is_dense,
    expansion_at,
)
from scipy.stats import halfnorm, norm

from bayesirt import Responses, RunOptions, Scale, sample_posterior
from bayesirt.estimators.joint.density import JointPoint
from bayesirt.estimators.joint.information import JointProblem, joint_problem
from bayesirt.estimators.joint.mean_tilt import tilt_at
from bayesirt.inference.item_populations import draw_item_populations
from bayesirt.inference.ways import way_of
from bayesirt.models import Continuous, Graded, Normal, Repeats, ResponseModel, ThreePL

N, J = 6, 5
MODELS = [ThreePL(), Repeats(), Graded(n=3), Continuous(), Normal()]
each_side = pytest.mark.parametrize("eliminate", ["items", "subjects"])
each_model_by_a_side = pytest.mark.parametrize(
    ("model", "eliminate"),
    [(model, ("items", "subjects")[k % 2]) for k, model in enumerate(MODELS)],
    ids=[model.name for model in MODELS],
)


@cache
def some_of(model: ResponseModel) -> Responses:
    rng = np.random.default_rng(3)
    asked = rng.uniform(size=(N, J)) < 0.8
    asked[0], asked[:, 0] = True, True
    scale = (
        None
        if model.takes == "binary"
        else Scale(model.takes, *(["0123"] * isinstance(model, Graded)))
    )
    trials = asked * (4 if scale is None else scale.steps)
    return replace(Responses.from_arrays(rng.binomial(trials, 0.6), trials), scale=scale)


def problem_of(model: ResponseModel, eliminate: str) -> JointProblem:
    return joint_problem(some_of(model).cells, model, eliminate=eliminate, piece_size=2)


def point_of(problem: JointProblem) -> tuple[JointPoint, jnp.ndarray]:
    """Return a generic point, and spreads."""
    rng, coordinates = np.random.default_rng(6), problem.coordinates
    size = len(coordinates.names)
    items = 0.2 + 0.2 * rng.normal(size=(J, size))
    point = JointPoint(0.5 * rng.normal(size=N), items, 0.3 * rng.normal(size=size))
    spread = np.where(coordinates.known, coordinates.scales, 0.4 + 0.1 * np.arange(size))
    return JointPoint(*map(jnp.asarray, point)), jnp.asarray(spread)


def density_of(model: ResponseModel, problem: JointProblem, spread: jnp.ndarray):
    """Return the log density of the model's priors and the family's answers given σ."""
    way, names = way_of(model), problem.coordinates.names
    data = way.data(some_of(model))

    def density(point: JointPoint) -> jnp.ndarray:
        sites = {"theta": point.theta, "mu_b": jnp.zeros(())}
        for k, name in enumerate(names):
            sites |= {name: point.items[:, k], f"mu_{name}": point.means[k]}
            if not problem.coordinates.known[k]:
                sites[f"sigma_{name}"] = jnp.log(spread[k])
        terms = way.terms(sites)
        return terms.total() + way.log_likelihood(terms.values, data)

    return density


@each_model_by_a_side
def test_gradient_is_that_of_the_models_text(model, eliminate):
    problem = problem_of(model, eliminate)
    point, spread = point_of(problem)
    slope = jax.jit(jax.grad(density_of(model, problem, spread)))(point)
    own = expansion_at(problem, spread, point).gradient
    np.testing.assert_allclose(ravel_pytree(own)[0], ravel_pytree(slope)[0], rtol=1e-9, atol=1e-9)


@each_side
@pytest.mark.parametrize("model", [Graded(n=3)], ids=["graded"])
def test_arrow_matrix_is_the_hessian_where_a_family_has_the_observed_information(model, eliminate):
    problem = problem_of(model, eliminate)
    point, spread = point_of(problem)
    flat, unravel = ravel_pytree(point)
    density = density_of(model, problem, spread)
    hessian = -jax.jit(jax.hessian(lambda x: density(unravel(x))))(flat)
    np.testing.assert_allclose(as_matrix(problem, spread, point), hessian, rtol=0, atol=1e-9)
    assert np.abs(hessian[:N, N:]).max() > 0.1


@each_side
def test_tilt_is_the_slope_of_the_log_determinant_of_the_blocks(eliminate):
    model = Graded(n=3)
    problem = problem_of(model, eliminate)
    point, spread = point_of(problem)
    density, at = density_of(model, problem, spread), jnp.arange(J)

    def log_determinant(point: JointPoint) -> jnp.ndarray:
        of_theta = -jax.hessian(lambda x: density(point._replace(theta=x)))(point.theta)
        of_items = -jax.hessian(lambda x: density(point._replace(items=x)))(point.items)
        blocks = jnp.linalg.slogdet(of_items[at, :, at, :])[1]
        return jnp.log(jnp.diag(of_theta)).sum() + blocks.sum()

    slope = jax.jit(jax.grad(log_determinant))(point)
    tilt = tilt_at(problem, point, expansion_at(problem, spread, point, observed=True))
    for own, other in zip(tilt[:2], slope[:2], strict=True):
        np.testing.assert_allclose(own, -other / 2, rtol=0, atol=1e-9)


@each_model_by_a_side
def test_iterative_solution_is_the_dense_one(model, eliminate):
    problem = problem_of(model, eliminate)
    point, spread = point_of(problem)
    assert_iterative_is_dense(problem, spread, point)


@pytest.mark.parametrize("model", [ThreePL(), Normal()], ids=["spread learned", "spread known"])
def test_populations_are_drawn_from_their_conditional(model):
    """Compare 4,000 draws with sums over a grid of (μ, σ), within 5 standard errors."""
    name = "c" if isinstance(model, ThreePL) else "noise"
    x = model.usual[name][0] + 0.4 * np.random.default_rng(1).normal(size=12)
    rows = jnp.asarray(np.tile(x, (4000, 1)))
    found = draw_item_populations(model, {name: rows}, jax.random.key(0))
    mu = np.linspace(-4, 3, 701)[:, None]
    sigma = np.linspace(0.02, 3, 400) if f"sigma_{name}" in found else np.array([0.5])
    centre, sd, scale = (-1.4, 0.7, 0.5) if name == "c" else (0.0, 1.0, 1.0)
    weight = norm(centre, sd).logpdf(mu) + halfnorm(scale=scale).logpdf(sigma)
    weight = weight + norm.logpdf(x[:, None, None], mu, sigma).sum(0)
    weight = np.exp(weight - weight.max())
    for own, value in (("mu", mu), ("sigma", sigma)):
        if (draws := found.get(f"{own}_{name}")) is None:
            continue
        mean = np.average(value + 0 * weight, weights=weight)
        spread = np.sqrt(np.average((value - mean) ** 2 + 0 * weight, weights=weight))
        assert abs(float(draws.mean()) - mean) < 5 * spread / np.sqrt(4000)
        assert float(draws.std()) == pytest.approx(spread, rel=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("spread", "of_gaps"),
    [(0.4, (0.3, 0.12, 1.15)), (0.0, (0.6, 0.25, 1.4))],
    ids=["gaps that differ", "gaps all the same"],
)
def test_posterior_of_grades_is_near_the_one_that_blocked_moves_draw(spread, of_gaps):
    """60 x 30, four grades: means within .3 posterior sd (.12 root mean square), sds within 15%.

    If all gaps are equal, their sds are a quarter too large: the spread of gaps starts where the
    prior expects it, and answers pull it down slowly.
    """
    rng = np.random.default_rng(0)
    theta, a = rng.normal(size=60), np.exp(0.4 * rng.normal(size=30))
    eta = theta[:, None] * a + rng.normal(size=30)
    below, above = 1.3 * np.exp(spread * rng.normal(size=(2, 30)))
    thresholds = np.stack([-below, np.zeros(30), above], -1)
    grades = ((eta + rng.logistic(size=eta.shape))[..., None] > thresholds).sum(-1)
    responses = Responses.from_arrays(grades, scale=Scale("graded"))
    options = RunOptions(num_warmup=300, num_samples=1000)
    laplace, exact = (
        sample_posterior(responses, key=0, engine=engine, options=options)
        for engine in ("laplace", "blocked")
    )
    for name in ("theta", "a", "d", "gap_2", "gap_3"):
        own, other = laplace.draws(name), exact.draws(name)
        off = (own.mean(0) - other.mean(0)) / other.std(0)
        ratio = (own.std(0) / other.std(0)).mean()
        far, usual, wide = of_gaps if name.startswith("gap") else (0.3, 0.12, 1.15)
        print(name, np.abs(off).max(), np.sqrt(np.mean(off**2)), ratio)
        assert np.abs(off).max() < far, name
        assert np.sqrt(np.mean(off**2)) < usual, name
        assert 0.9 < ratio < wide, name
    populations = [f"{kind}_gap_{m}" for kind in ("mu", "sigma") for m in (2, 3)]
    assert exact.summary.loc[populations, "ess_bulk"].min() > 400

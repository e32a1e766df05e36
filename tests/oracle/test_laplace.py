"""The joint Laplace approximation against dense matrices by automatic differentiation and draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from jax.flatten_util import ravel_pytree
from laplace_algebra import (
    as_matrix,
    assert_iterative_is_dense,
    curvature_at,
    draws_of,
    expansion_at,
    start_of,
    variances_of,
    worst_error,
)
from numpyro.infer.util import log_density
from scipy.stats import multivariate_normal
from small_data import PRIORS, each_prior, masked_counts

from bayesirt import Priors, Responses, RunOptions, fit_cbmm
from bayesirt.estimators.joint.density import (
    STANDARD,
    AbilityPrior,
    Coordinates,
    JointPoint,
    item_coordinates,
)
from bayesirt.estimators.joint.information import JointProblem, joint_problem
from bayesirt.estimators.joint.learned_spreads import learned_spreads
from bayesirt.estimators.joint.mean_tilt import tilt_at
from bayesirt.estimators.joint.mode import Mode, find_mode
from bayesirt.inference.laplace import Search, sample_laplace
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import TwoPL

each_side = pytest.mark.parametrize("eliminate", ["items", "subjects"])
SIDES = [(PRIORS[0], "items"), (PRIORS[0], "subjects"), (PRIORS[1], "items")]
SIDES += [(PRIORS[2], "subjects"), (PRIORS[3], "items")]
each_prior_and_side = pytest.mark.parametrize(
    ("priors", "eliminate"), SIDES, ids=[f"{p.describe()}-{side}" for p, side in SIDES]
)
"""Not all combinations: the eliminated side concerns the layout, and priors the coordinates."""
SPREADS = {"a": 0.4, "b": 2.0, "d": 1.3}


TINY = masked_counts(6, 5)


def random_point(coordinates: Coordinates, n_subjects: int, n_items: int) -> JointPoint:
    rng = np.random.default_rng(6)
    size = len(coordinates.names)
    return JointPoint(
        jnp.asarray(0.5 * rng.normal(size=n_subjects)),
        jnp.asarray(0.2 + 0.2 * rng.normal(size=(n_items, size))),
        jnp.asarray(0.3 * rng.normal(size=size if coordinates.learned else 0)),
    )


def spread_of(coordinates: Coordinates) -> jnp.ndarray:
    learned = [SPREADS[name] for name in coordinates.names]
    return jnp.array(learned if coordinates.learned else coordinates.scales)


def readable_density(
    responses: Responses, priors: Priors, spread: jnp.ndarray, before: AbilityPrior = STANDARD
):
    """Return the NumPyro model's log density of the unconstrained sites given σ."""
    successes, trials = (m.astype(int) for m in responses.cells.matrices())
    names = item_coordinates(TwoPL(priors)).names
    logarithmic = priors.slopes == "positive"

    def density(point: JointPoint) -> jnp.ndarray:
        values = dict(zip(names, point.items.T, strict=True))
        jacobian = 0.0
        if logarithmic:
            jacobian = values["a"].sum()
            values["a"] = jnp.exp(values["a"])
        sites = {"theta": point.theta} | values
        if priors.kind == "hierarchical":
            sites |= {f"mu_{name}": mean for name, mean in zip(names, point.means, strict=False)}
            sites |= {f"sigma_{name}": s for name, s in zip(names, spread, strict=True)}
            sites |= {} if priors.slopes == "rasch" else {"mu_b": 0.0}
        known = {}
        if before.cluster is not None:
            gamma = point.means[item_coordinates(TwoPL(priors)).n_means :]
            sites |= {"icc": before.between, "gamma": gamma}
            known = {"clusters": before.cluster, "n_clusters": len(gamma)}
        joint, _ = log_density(TwoPL(priors), (trials, successes), known, sites)
        return joint + jacobian

    return density


def gradient_and_hessian(density, point: JointPoint) -> tuple[np.ndarray, np.ndarray]:
    flat, unravel = ravel_pytree(point)
    both = jax.jit(jax.value_and_grad(lambda x: density(unravel(x))))
    hessian = jax.jit(jax.jacfwd(lambda x: both(x)[1]))
    return np.asarray(both(flat)[1]), -np.asarray(hessian(flat))


def mode_of(problem: JointProblem, **changes) -> Mode:
    options = {"centre": "mode", "tol": 1e-6, "max_iterations": 2000, "dense_up_to": 8000}
    return find_mode(problem, start_of(fit_cbmm(TINY)), **(options | changes))


@each_prior_and_side
def test_arrow_matrix_is_the_hessian_of_the_readable_model(priors, eliminate):
    """Process the data in pieces where items are eliminated, and whole where subjects are."""
    piece_size = 2 if eliminate == "items" else 100
    problem = joint_problem(TINY.cells, TwoPL(priors), eliminate=eliminate, piece_size=piece_size)
    spread = spread_of(problem.coordinates)
    point = random_point(problem.coordinates, 6, 5)
    gradient, hessian = gradient_and_hessian(readable_density(TINY, priors, spread), point)
    own = ravel_pytree(expansion_at(problem, spread, point).gradient)[0]
    np.testing.assert_allclose(own, gradient, rtol=0, atol=1e-10)
    np.testing.assert_allclose(as_matrix(problem, spread, point), hessian, rtol=0, atol=1e-10)
    assert np.abs(hessian[:6, 6:]).max() > 0.1


@pytest.mark.parametrize(("priors", "eliminate"), [(PRIORS[0], "items"), (PRIORS[3], "subjects")])
def test_arrow_matrix_knows_clusters(priors, eliminate):
    """Abilities of three clusters are handled as means, beside the items' means or alone."""
    before = AbilityPrior(0.0, 1 / (1 - 0.3), jnp.array([0, 1, 0, 2, 2, 1]), 0.3)
    problem = joint_problem(
        TINY.cells, TwoPL(priors), before=before, eliminate=eliminate, piece_size=2
    )
    spread = spread_of(problem.coordinates)
    point = random_point(problem.coordinates, 6, 5)
    point = point._replace(means=jnp.concatenate([point.means, jnp.array([0.4, -0.3, 0.1])]))
    density = readable_density(TINY, priors, spread, before)
    gradient, hessian = gradient_and_hessian(density, point)
    own = ravel_pytree(expansion_at(problem, spread, point).gradient)[0]
    np.testing.assert_allclose(own, gradient, rtol=0, atol=1e-10)
    np.testing.assert_allclose(as_matrix(problem, spread, point), hessian, rtol=0, atol=1e-10)


@each_side
def test_solution_and_variances_are_the_dense_inverse(eliminate):
    priors = Priors()
    problem = joint_problem(TINY.cells, TwoPL(priors), eliminate=eliminate, piece_size=2)
    mode = mode_of(problem)
    _, hessian = gradient_and_hessian(readable_density(TINY, priors, mode.spread), mode.point)
    covariance = np.linalg.inv(hessian)
    curvature = curvature_at(problem, mode.spread, mode.point)
    own = ravel_pytree(variances_of(curvature))[0]
    np.testing.assert_allclose(own, np.diag(covariance), rtol=1e-8)
    side = np.random.default_rng(0).normal(size=len(own))
    _, unravel = ravel_pytree(mode.point)
    step = ravel_pytree(curvature.solve(unravel(jnp.asarray(side))))[0]
    np.testing.assert_allclose(step, covariance @ side, rtol=1e-8)


@each_side
def test_gradient_is_zero_at_the_mode_and_the_last_steps_shrink_quadratically(eliminate):
    priors = Priors(kind="fixed")
    problem = joint_problem(TINY.cells, TwoPL(priors), eliminate=eliminate)
    mode = mode_of(problem, tol=1e-12)
    density = readable_density(TINY, priors, mode.spread)
    gradient, _ = gradient_and_hessian(density, mode.point)
    assert mode.converged
    assert mode.curvature.observed
    assert np.abs(gradient).max() < 1e-10
    steps = np.array(mode.steps)
    assert len(steps) <= 8
    near = np.flatnonzero(steps < 0.1)[:-1]
    assert len(near) >= 1
    assert (steps[near + 1] <= np.maximum(5 * steps[near] ** 2, 1e-12)).all()


def squares_of_log_slopes(problem: JointProblem, mode: Mode):
    """Yield E(log a - μ)² of each item, with likelihood normal in (a, d), prior in (log a, d)."""
    sums = problem.sums(mode.point).items
    prior = multivariate_normal(mode.point.means, np.diag(mode.spread**2))
    for j, (u, d) in enumerate(np.asarray(mode.point.items)):
        log_slopes, intercepts = np.linspace(u - 4, u + 4, 400), np.linspace(d - 12, d + 12, 600)
        grid = np.stack(np.meshgrid(log_slopes, intercepts, indexing="ij"), -1)
        by_a, by_d = np.exp(grid[..., 0]) - np.exp(u), grid[..., 1] - d
        (of_a, of_d), ((aa, ad), (_, dd)) = sums.score[j], sums.information[j]
        told = of_a * by_a + of_d * by_d - ad * by_a * by_d - (aa * by_a**2 + dd * by_d**2) / 2
        weight = np.exp(told + prior.logpdf(grid)).sum(1)
        yield np.average((log_slopes - mode.point.means[0]) ** 2, weights=weight)


@pytest.mark.parametrize("priors", PRIORS, ids=Priors.describe)
def test_spreads_and_mode_stand_still_together(priors):
    """The gradient given the spreads vanishes at the mode, and there the EM step is zero."""
    problem = joint_problem(TINY.cells, TwoPL(priors))
    mode = mode_of(problem)
    gradient, _ = gradient_and_hessian(readable_density(TINY, priors, mode.spread), mode.point)
    assert mode.converged
    assert np.abs(gradient).max() < 1e-4
    if priors.kind == "hierarchical":
        here = expansion_at(problem, mode.spread, mode.point, observed=False)
        covariance = np.linalg.inv(np.asarray(here.item_curvature))
        away = np.asarray(mode.point.items - mode.point.means)
        squares = (away**2).sum(0) + np.einsum("jkk->k", covariance)
        if problem.coordinates.logarithmic:
            squares[0] = sum(squares_of_log_slopes(problem, mode))
        scales, spread = np.array(problem.coordinates.scales), np.asarray(mode.spread)
        slope = squares / spread**2 - (5 - 1) - (spread / scales) ** 2
        np.testing.assert_allclose(slope, 0, atol=1e-3)


def test_spreads_of_items_do_not_see_abilities_of_clusters():
    problem = joint_problem(TINY.cells, TwoPL())
    spread, point = spread_of(problem.coordinates), random_point(problem.coordinates, 6, 5)
    here, sums = expansion_at(problem, spread, point, observed=False), problem.sums(point).items
    clustered = point._replace(means=jnp.concatenate([point.means, jnp.array([2.0, -1.0, 0.5])]))
    alone, beside = (
        learned_spreads(problem.coordinates, spread, x, sums, here) for x in (point, clustered)
    )
    np.testing.assert_array_equal(alone, beside)


@each_prior_and_side
def test_tilt_is_the_slope_of_the_log_determinant_of_the_blocks(priors, eliminate):
    """Set responses to their expectation, where observed and expected information agree."""
    problem = joint_problem(TINY.cells, TwoPL(priors), eliminate=eliminate, piece_size=2)
    coordinates = problem.coordinates
    spread, point = spread_of(coordinates), random_point(coordinates, 6, 5)
    trials = jnp.asarray(TINY.cells.matrices()[1], float)
    a, d = coordinates.to_items(point.items)
    expected = trials * jax.nn.sigmoid(point.theta[:, None] * a + d)

    def log_determinant(point: JointPoint) -> jnp.ndarray:
        def log_likelihood(theta, items):
            a, d = coordinates.to_items(items)
            eta = theta[:, None] * a + d
            return (expected * eta - trials * jnp.logaddexp(0, eta)).sum()

        of_theta = -jax.hessian(log_likelihood, 0)(*point[:2])
        of_items = -jax.hessian(log_likelihood, 1)(*point[:2])
        at = jnp.arange(5)
        blocks = of_items[at, :, at, :] + jnp.diag(1 / spread**2)
        return jnp.log(jnp.diag(of_theta) + 1).sum() + jnp.linalg.slogdet(blocks)[1].sum()

    slope = jax.jit(jax.grad(log_determinant))(point)
    balanced = _with_successes(problem, expected)
    tilt = tilt_at(balanced, point, expansion_at(problem, spread, point, observed=False))
    for own, other in zip(tilt, slope, strict=True):
        np.testing.assert_allclose(own, -np.asarray(other) / 2, rtol=0, atol=1e-10)


class _Given:
    """Cells with fractional successes."""

    def __init__(self, successes, trials):
        self.shape, self._matrices = successes.shape, (np.asarray(successes), np.asarray(trials))

    def matrices(self):
        return self._matrices


def _with_successes(problem: JointProblem, successes) -> JointProblem:
    cells = _Given(successes, problem.pieces.cells.matrices()[1])
    axis = problem.pieces.axis
    return joint_problem(
        cells,
        next(m for m in map(TwoPL, PRIORS) if item_coordinates(m) == problem.coordinates),
        eliminate="items" if axis else "subjects",
        piece_size=2,
    )


@each_side
def test_covariance_of_many_draws_is_the_inverse_curvature(eliminate):
    """The largest of about 200 standardised errors exceeds 5.5 once in 10^5 keys."""
    priors = Priors()
    problem = joint_problem(TINY.cells, TwoPL(priors), eliminate=eliminate, piece_size=2)
    mode = mode_of(problem)
    curvature = curvature_at(problem, mode.spread, mode.point)
    _, hessian = gradient_and_hessian(readable_density(TINY, priors, mode.spread), mode.point)
    assert worst_error(draws_of(curvature, 100_000), np.linalg.inv(hessian)) < 5.5


@each_side
def test_iterative_solution_is_the_dense_one(eliminate):
    priors = Priors()
    problem = joint_problem(TINY.cells, TwoPL(priors), eliminate=eliminate, piece_size=2)
    spread = spread_of(problem.coordinates)
    point = random_point(problem.coordinates, 6, 5)
    assert_iterative_is_dense(problem, spread, point)


def test_iterative_mode_is_the_dense_one():
    """Centres and spreads agree; sds differ because one uses expected, one observed information.

    With 40 subjects single sds differ by a seventh, and by less with more responses.
    """
    responses = simulate(40, 60)[0]
    point = fit_cbmm(responses)
    dense, iterative = (
        sample_laplace(
            responses,
            key=jax.random.key(0),
            init=point,
            options=RunOptions(num_samples=500),
            search=Search(tol=1e-3, dense_up_to=n),
        )
        for n in (8000, 10)
    )
    assert dense.tree.attrs["information"] == "observed"
    assert iterative.tree.attrs["information"] == "expected"
    for name in ("sigma_a", "sigma_d"):
        assert iterative.tree.attrs[name] == pytest.approx(dense.tree.attrs[name], rel=0.01)
    for name in ("theta", "d"):
        own, other = iterative.draws(name), dense.draws(name)
        assert np.abs((own.mean(0) - other.mean(0)) / other.std(0)).max() < 0.15
        ratio = own.std(0) / other.std(0)
        assert 0.97 < ratio.mean() < 1.03
        assert 0.8 < ratio.min() < ratio.max() < 1.2


@pytest.mark.statistical
@each_prior
def test_posterior_is_near_the_exact_one(priors):
    """Compare with blocked chains, which agree with NUTS (`test_blocked.py`) and are faster.

    60 x 60: means within .25 of a posterior sd (.1 root mean square), sds within a quarter.

    Slopes are worst: their posterior is skewed, and blocked chains do not fix their spread.
    At the joint mode itself, the abilities' means are off by whole standard deviations.
    """
    responses = simulate(60, 60)[0]
    options = RunOptions(num_warmup=300, num_samples=1000)
    exact = sample_blocked(responses, key=jax.random.key(1), model=TwoPL(priors), options=options)
    laplace = sample_laplace(responses, key=jax.random.key(0), model=TwoPL(priors))
    for name in ("theta", "a", "d"):
        own, other = laplace.draws(name), exact.draws(name)
        if priors.slopes == "rasch" and name == "a":
            assert (own == 1).all()
            continue
        off = (own.mean(0) - other.mean(0)) / other.std(0)
        ratio = own.std(0) / other.std(0)
        print(priors.describe(), name, np.abs(off).max(), off.std(), ratio.min(), ratio.max())
        assert np.abs(off).max() < 0.25
        assert np.sqrt(np.mean(off**2)) < 0.1
        assert 0.8 < ratio.min() < ratio.max() < 1.3
        assert 0.95 < ratio.mean() < 1.15


@pytest.mark.parametrize(("centre", "expected"), [("mode", 0.5), ("mean", 1)])
def test_only_the_mean_has_the_population_in_its_abilities(centre, expected):
    """θ ~ N(0, 1): means squared and variances add up to about one, but to half at the mode.

    Over keys, the standard deviation of the sum is .01.
    """
    responses = simulate(60, 60)[0]
    posterior = sample_laplace(responses, key=jax.random.key(0), search=Search(centre=centre))
    assert abs(np.mean(posterior.theta**2) - expected) < 0.05

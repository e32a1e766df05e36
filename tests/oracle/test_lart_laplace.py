"""LaRT's Laplace approximation against the NumPyro model by automatic differentiation and draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from laplace_algebra import variances_of
from lart_data import simulate_lart, some_missing
from lart_prior import log_lengths
from numpyro.infer.util import log_density

from bayesirt import RunOptions, sample_posterior
from bayesirt.estimators.joint.curvature import DenseCurvature, IterativeCurvature, curvature_at
from bayesirt.estimators.joint.density import Expansion, JointPoint, expand, loss_at
from bayesirt.estimators.joint.information import JointProblem, joint_problem
from bayesirt.estimators.joint.mean_tilt import tilt_at
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.inference.lart_laplace import abilities_from_lengths
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.latencies import Latencies, latencies_of
from bayesirt.models import LaRT

TINY = some_missing(6, 5)
SPREAD = jnp.array([0.2, 1.3])
LENGTHS = {
    "phi": jnp.array([0.3, 0.5, 0.8, 0.2, 0.4]),
    "omega": jnp.linspace(4.6, 5.4, 5),
    "lam": jnp.linspace(0.5, 1.5, 5),
    "rho": jnp.array(-0.6),
}
OF_POPULATIONS = {
    f"{kind}_{name}": jnp.array(0.5) for kind in ("mu", "sigma") for name in ("phi", "omega", "lam")
}
NO_LEAN = {"mu_b": jnp.array(0.0), "mu_tau": jnp.array(0.0)}
POINT = JointPoint(
    jnp.array([0.4, -1.0, -0.7, -0.4, 0.7, 0.9]),
    jnp.array([[0.55, 0.5], [0.35, -0.2], [0.1, 0.9], [0.75, 0.6], [0.45, 0.3]]),
    jnp.array([0.3, -0.2]),
)
"""A point where the curvature is positive definite."""
each_link = pytest.mark.parametrize("link", ["probit", "logit"])
each_side = pytest.mark.parametrize("eliminate", ["items", "subjects"])


def tiny_latencies() -> Latencies:
    return latencies_of(TINY, layout_of(TINY))


def tiny_problem(link: str, eliminate: str) -> JointProblem:
    before = abilities_from_lengths(tiny_latencies(), LENGTHS)
    return joint_problem(
        TINY.cells, LaRT(link=link), before=before, eliminate=eliminate, piece_size=2
    )


def readable_density(link: str):
    """Return the NumPyro model's log density with speeds integrated out, up to a constant.

    Given everything else speeds are normal, with a variance that does not depend on abilities, so
    the integral is proportional to the density at their mode.
    """
    successes, trials = (m.astype(int) for m in TINY.cells.matrices())
    logs = log_lengths(TINY)
    lengths = [LENGTHS[name] for name in ("phi", "omega", "lam")]
    evidence = tiny_latencies().speed_evidence(*lengths)

    def density(point: JointPoint) -> jnp.ndarray:
        sites = {"theta": point.theta, "tau": evidence.speed(LENGTHS["rho"], point.theta)[0]}
        sites |= (
            {"a": point.items[:, 0], "d": point.items[:, 1]} | LENGTHS | OF_POPULATIONS | NO_LEAN
        )
        for name, mean, spread in zip("ad", point.means, SPREAD, strict=True):
            sites |= {f"mu_{name}": mean, f"sigma_{name}": spread}
        return log_density(LaRT(link), (trials, successes, logs), {}, sites)[0]

    return density


def hessian_of(density) -> np.ndarray:
    flat, unravel = ravel_pytree(POINT)
    return -np.asarray(jax.jit(jax.hessian(lambda x: density(unravel(x))))(flat))


def expansion_of(problem: JointProblem, *, observed: bool = True) -> Expansion:
    nothing = jax.tree.map(jnp.zeros_like, POINT)
    sums = problem.sums(POINT)
    given = (problem.coordinates, SPREAD, nothing, POINT, sums, problem.before)
    return expand(*given, observed=observed)


def curvature_of(problem: JointProblem, *, dense_up_to: int = 8000):
    def at(*, observed: bool) -> Expansion:
        return expansion_of(problem, observed=observed)

    return curvature_at(problem, SPREAD, POINT, at, dense_up_to=dense_up_to)


@pytest.mark.parametrize(("link", "eliminate"), [("probit", "items"), ("logit", "subjects")])
def test_curvature_is_that_of_the_readable_model_with_speeds_integrated_out(link, eliminate):
    problem, density = tiny_problem(link, eliminate), readable_density(link)
    gradient = ravel_pytree(jax.jit(jax.grad(density))(POINT))[0]
    own = expansion_of(problem).gradient
    np.testing.assert_allclose(ravel_pytree(own)[0], gradient, rtol=0, atol=1e-10)
    covariance = np.linalg.inv(hessian_of(density))
    curvature = curvature_of(problem)
    assert isinstance(curvature, DenseCurvature)
    assert curvature.observed
    variances = ravel_pytree(variances_of(curvature))[0]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-9)
    step = ravel_pytree(curvature.solve(own))[0]
    np.testing.assert_allclose(step, covariance @ gradient, rtol=1e-8, atol=1e-10)
    assert np.abs(covariance[:6, 6:]).max() > 0.01


@each_link
def test_loss_falls_as_the_readable_density_rises(link):
    problem, density = tiny_problem(link, "items"), readable_density(link)
    nothing = jax.tree.map(jnp.zeros_like, POINT)
    moved = JointPoint(POINT.theta + 0.3, 0.8 * POINT.items, POINT.means - 0.1)
    losses = [
        loss_at(problem.coordinates, SPREAD, nothing, at, problem.sums(at), problem.before)
        for at in (POINT, moved)
    ]
    np.testing.assert_allclose(losses[0] - losses[1], density(moved) - density(POINT), rtol=1e-10)


@each_side
def test_tilt_is_the_slope_of_the_log_determinant_of_the_blocks(eliminate):
    problem, density = tiny_problem("probit", eliminate), readable_density("probit")

    def log_determinant(point: JointPoint) -> jnp.ndarray:
        of_theta = -jax.hessian(lambda theta: density(point._replace(theta=theta)))(point.theta)
        of_items = -jax.hessian(lambda items: density(point._replace(items=items)))(point.items)
        at = jnp.arange(5)
        return (
            jnp.log(jnp.diag(of_theta)).sum() + jnp.linalg.slogdet(of_items[at, :, at, :])[1].sum()
        )

    tilt = tilt_at(problem, POINT, expansion_of(problem, observed=False))
    slope = jax.jit(jax.grad(log_determinant))(POINT)
    for own, other in zip(tilt, slope, strict=True):
        np.testing.assert_allclose(own, -np.asarray(other) / 2, rtol=0, atol=1e-9)


@each_side
def test_draws_without_a_matrix_have_the_covariance_of_the_dense_solution(eliminate):
    """The largest of 17 standardised errors of variances exceeds 5 once in 10^5 keys."""
    problem = tiny_problem("probit", eliminate)
    iterative = curvature_of(problem, dense_up_to=1)
    assert isinstance(iterative, IterativeCurvature)
    n_draws = 1600
    kept, own = iterative.draw(jax.random.key(2), n_draws)
    sides = np.asarray(kept).var(1), np.concatenate([part for _, part in own]).var(-1)
    hessian = _without_score_terms(problem)
    expected = np.diag(np.linalg.inv(hessian))
    found = np.asarray(ravel_pytree(problem.join(*sides))[0])
    assert np.abs(found / expected - 1).max() < 5 * np.sqrt(2 / n_draws)


def _without_score_terms(problem: JointProblem) -> np.ndarray:
    """Return the negative Hessian with each cell's η taken to be linear at the point."""
    flat, unravel = ravel_pytree(POINT)
    a, d = problem.coordinates.to_items(POINT.items)
    eta = POINT.theta[:, None] * a + d
    successes, trials = TINY.cells.matrices()
    weight = problem.family.terms(eta, jnp.asarray(successes), jnp.asarray(trials)).information

    def bent(x: jnp.ndarray) -> jnp.ndarray:
        point = unravel(x)
        a, d = problem.coordinates.to_items(point.items)
        return (point.theta[:, None] * a + d).ravel()

    along = np.asarray(jax.jacobian(bent)(flat))

    def prior(x: jnp.ndarray) -> jnp.ndarray:
        theta, items, means = unravel(x)
        of_items = (((items - means) / SPREAD) ** 2).sum()
        of_means = ((means / jnp.array(problem.coordinates.sds)) ** 2).sum()
        return ((problem.before.precision * theta**2).sum() + of_items + of_means) / 2

    return np.asarray(jax.hessian(prior)(flat)) + along.T @ (
        np.asarray(weight).ravel()[:, None] * along
    )


@pytest.mark.statistical
def test_posterior_is_near_the_one_that_blocked_moves_draw():
    """Compare means, sds and intervals with exact draws; 120 x 120 takes a minute.

    Means are off by .06 posterior sd (root mean square, slopes) and sds by 2%. With 60 x 60, slopes
    are off by .17 and too wide by 6%, because their population's spread is fixed at its mode.
    """
    responses, _ = simulate_lart(120, 120, rho=-0.6, seed=3)
    point = fit_lart(responses)
    exact, own = (
        sample_posterior(
            responses, key=jax.random.key(1), engine=engine, init=point, model="lart",
            options=RunOptions(num_warmup=300, num_samples=1000, thinning=2),
        )
        for engine in ("blocked", "laplace")
    )  # fmt: skip
    assert own.approximate
    assert set(exact.dataset.data_vars) - set(own.dataset.data_vars) == {"sigma_a", "sigma_d"}
    for name in ("theta", "tau", "a", "d", "phi", "omega", "lam", "rho", "mu_phi", "sigma_phi"):
        one, other = exact.draws(name), own.draws(name)
        gap = (other.mean(0) - one.mean(0)) / one.std(0)
        ratio = other.std(0) / one.std(0)
        low, high = np.quantile(other, [0.05, 0.95], axis=0)
        inside = np.mean((low <= one) & (one <= high))
        print(f"{name}: means {np.sqrt(np.mean(gap**2)):.3f} rms, {np.abs(gap).max():.3f} at most; "
              f"sds {np.mean(ratio):.3f}, {np.min(ratio):.3f} to {np.max(ratio):.3f}; "
              f"90% intervals hold {inside:.3f}")  # fmt: skip
        assert np.sqrt(np.mean(gap**2)) < 0.12, name
        assert np.abs(gap).max() < 0.3, name
        assert 0.95 < np.mean(ratio) < 1.05, name
        assert 0.88 < inside < 0.92, name

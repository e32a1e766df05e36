"""Joint Laplace approximations with dense matrices, for tests."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bayesirt.estimators.joint.arrow_system import inverse_factor
from bayesirt.estimators.joint.curvature import DenseCurvature, IterativeCurvature
from bayesirt.estimators.joint.density import JointPoint, expand
from bayesirt.estimators.joint.information import JointProblem, arrow_at
from bayesirt.point_estimate import PointEstimate


def expansion_at(problem: JointProblem, spread: jnp.ndarray, point: JointPoint, *, observed=True):
    nothing = jax.tree.map(jnp.zeros_like, point)
    sums = problem.sums(point)
    return expand(
        problem.coordinates, spread, nothing, point, sums, problem.before, observed=observed
    )


def curvature_at(problem, spread, point, *, observed=True) -> DenseCurvature:
    expansion = expansion_at(problem, spread, point, observed=observed)
    arrow = arrow_at(problem, spread, point, expansion, observed=observed)
    inverse = inverse_factor(arrow)
    assert inverse is not None
    return DenseCurvature(problem, arrow, inverse, observed=observed)


def as_matrix(problem: JointProblem, spread: jnp.ndarray, point: JointPoint) -> np.ndarray:
    """Return an arrow matrix as a dense matrix, in the order of `Point`."""
    expansion = expansion_at(problem, spread, point)
    arrow = arrow_at(problem, spread, point, expansion, observed=True)
    units, own, _ = arrow.own_factor.shape
    n_kept, size = arrow.n_kept, arrow.n_kept + units * own
    matrix = np.zeros((size, size))
    matrix[:n_kept, :n_kept] = arrow.kept_matrix()
    factor = np.linalg.inv(np.asarray(arrow.own_factor))
    for piece in arrow.pieces():
        for c in range(piece.live):
            j = piece.start + c
            at = slice(n_kept + j * own, n_kept + (j + 1) * own)
            cross = np.asarray(piece.whitened[:, c]) @ factor[j].T
            matrix[:n_kept, at], matrix[at, :n_kept] = cross, cross.T
            matrix[at, at] = factor[j] @ factor[j].T
    numbered = problem.join(np.arange(n_kept), n_kept + np.arange(units * own).reshape(units, own))
    order = np.asarray(ravel_pytree(numbered)[0], int)
    return matrix[np.ix_(order, order)]


def draws_of(curvature, n_draws: int) -> np.ndarray:
    """Return draws of all parameters, in the order of `Point`, shape (parameter, draw)."""
    kept, own = curvature.draw(jax.random.key(4), n_draws)
    own = np.concatenate([part for _, part in own])
    units, size, _ = own.shape
    joined = np.concatenate([np.asarray(kept), own.reshape(-1, n_draws)])
    numbered = curvature.problem.join(
        np.arange(len(kept)), len(kept) + np.arange(units * size).reshape(units, size)
    )
    return joined[np.asarray(ravel_pytree(numbered)[0], int)]


def worst_error(draws: np.ndarray, covariance: np.ndarray) -> float:
    """Return the largest error of means, variances and covariances, in standard errors."""
    n_draws = draws.shape[1]
    variance = np.diag(covariance)
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n_draws)
    of_mean = np.abs(draws.mean(1)) / np.sqrt(variance / n_draws)
    return max(of_mean.max(), (np.abs(draws @ draws.T / n_draws - covariance) / error).max())


def unit_vectors(point: JointPoint) -> list[JointPoint]:
    flat, unravel = ravel_pytree(point)
    return [unravel(row) for row in jnp.eye(len(flat))]


def assert_iterative_is_dense(
    problem: JointProblem, spread: jnp.ndarray, point: JointPoint
) -> None:
    """Compare conjugate-gradient solutions and draws with those of the dense matrix."""
    expansion = expansion_at(problem, spread, point, observed=False)
    iterative = IterativeCurvature(problem, spread, point, expansion)
    dense = curvature_at(problem, spread, point, observed=False)
    for own, other in zip(*(c.solve(expansion.gradient) for c in (iterative, dense)), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-8)
    numbers = [ravel_pytree(dense.solve(side))[0] for side in unit_vectors(point)]
    assert worst_error(draws_of(iterative, 1920), np.asarray(numbers)) < 5.5


def start_of(point: PointEstimate) -> dict[str, np.ndarray]:
    return {name: point[name] for name in ("theta", "a", "d")}


def variances_of(curvature: DenseCurvature) -> JointPoint:
    """Return the variances of all parameters."""
    found = curvature.covariances
    return found._replace(items=jnp.einsum("jkk->jk", found.items))

"""The difference of the posterior mean from the joint mode, as a tilt of the log density.

The mode of a density over thousands of abilities and items can be far from its mass. Here θ → s θ,
a → a / s leaves the likelihood unchanged, while the volume of all θ grows as the Nth power of s,
which a mode does not take into account. So abilities at the joint mode are too close to each other,
by many posterior standard deviations. The maximum of the tilted density accounts for this volume.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators import lapack
from bayesirt.estimators.joint.density import Coordinates, Expansion, JointPoint, item_derivatives
from bayesirt.estimators.joint.information import JointProblem
from bayesirt.likelihood.family import Family


def tilt_at(problem: JointProblem, point: JointPoint, expansion: Expansion) -> JointPoint:
    """Return the gradient that moves the mode to the posterior mean, to second order.

    With H the negative Hessian, E x ≈ x̂ - ½ H⁻¹ ∇ log det H. Only the diagonal blocks of log det H
    are kept: the tilt is -½ ∇ (Σ_i tr V_i H_i + Σ_j tr V_j H_j), where V are the inverses of the
    blocks at the point, held fixed. For items alone this is the Laplace approximation of their
    marginal likelihood.

    Tierney and Kadane (1986), Accurate approximations for posterior moments and marginal densities;
    Kristensen et al. (2016), TMB, for the marginal likelihood.
    """
    of_theta = (1 / expansion.theta_curvature).astype(problem.dtype)
    of_items = lapack.inv(expansion.item_curvature).astype(problem.dtype)
    values = [x.astype(problem.dtype) for x in point[:2]]
    theta, items = jnp.zeros_like(point.theta), jnp.zeros_like(point.items)
    for piece in problem.pieces:
        everyone = slice(None)
        by_subject = everyone if problem.eliminates_items else piece.unit
        by_item = piece.unit if problem.eliminates_items else everyone
        piece_tilt = _piece_tilt(
            problem.family,
            problem.coordinates,
            piece.successes,
            piece.trials,
            (values[0][by_subject], values[1][by_item]),
            of_theta[by_subject],
            of_items[by_item],
        )
        theta = theta.at[by_subject].add(piece_tilt[0])
        items = items.at[by_item].add(piece_tilt[1])
    return JointPoint(theta, items, jnp.zeros_like(point.means))


@partial(jax.jit, static_argnums=(0, 1))
def _piece_tilt(
    family: Family,
    coordinates: Coordinates,
    successes: Array,
    trials: Array,
    values: tuple[Array, Array],
    of_theta: Float[Array, " subject"],
    of_items: Float[Array, "item coordinate coordinate"],
) -> tuple[Array, Array]:
    def uncertainty(values: tuple[Array, Array]) -> Array:
        theta, items = values
        a, d, *further = coordinates.to_items(items)
        jacobian, bend = item_derivatives(coordinates, items)
        terms = family.every(theta[:, None] * a + d, successes, trials, *further)
        covariance = jnp.einsum("jpk,jkl,jql->pqj", jacobian, of_items, jacobian)
        lean = jnp.einsum("jpkl,jkl->pj", bend, of_items)
        x = theta[:, None]
        leans = (x * lean[0] + lean[1], *lean[2:])
        bend_term = sum(s * shift for s, shift in zip(terms.score, leans, strict=True))

        def covariance_of(k: int, m: int) -> Array:
            """Return the covariance of two predictors; the first predictor is η."""
            if k and m:
                return covariance[k + 1, m + 1]
            if k or m:
                other = k + m + 1
                return x * covariance[0, other] + covariance[1, other]
            of_eta = x**2 * covariance[0, 0] + 2 * x * covariance[0, 1] + covariance[1, 1]
            return of_theta[:, None] * a**2 + of_eta

        lost = sum(
            w * covariance_of(k, m)
            for k, row in enumerate(terms.information)
            for m, w in enumerate(row)
        )
        return jnp.sum(lost - bend_term)

    return jax.tree.map(lambda slope: -slope / 2, jax.grad(uncertainty)(values))

"""The curvature at a point, factored for Newton steps, variances and draws."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.estimators.joint.arrow_system import (
    Arrow,
    Floats,
    covariances,
    draw_kept,
    draw_own,
    inverse_factor,
    solve,
)
from bayesirt.estimators.joint.conjugate_gradients import Sides, colour, solve_iteratively
from bayesirt.estimators.joint.density import Expansion, JointPoint
from bayesirt.estimators.joint.information import JointProblem, arrow_at, information_noise

_DRAWS = 64

Draws = tuple[Array, Iterator[tuple[slice, NDArray[np.floating]]]]


@dataclass(frozen=True, eq=False)
class DenseCurvature:
    """An arrow matrix with the factor of its Schur complement."""

    problem: JointProblem
    arrow: Arrow
    inverse: Floats  # shape (kept, kept). L⁻¹ of the Schur complement.
    # False if the observed information was not positive definite and was replaced by the expected.
    observed: bool

    def solve(self, gradient: JointPoint) -> JointPoint:
        """Return the Newton step."""
        return self.problem.join(*solve(self.arrow, self.inverse, *self.problem.split(gradient)))

    @cached_property
    def covariances(self) -> JointPoint:
        """Blocks of the posterior covariance for each subject, each item and each mean.

        Shapes (subject,), (item, coordinate, coordinate) and (mean,).
        """
        kept, own, means = covariances(self.arrow, self.inverse)
        subjects, items = (kept, own) if self.problem.eliminates_items else (own, kept)
        return JointPoint(*map(jnp.asarray, (subjects[:, 0, 0], items, means)))

    def draw(self, key: Array, n_draws: int) -> Draws:
        """Draw deviations from the mode."""
        kept_key, own_key = jax.random.split(key)
        kept = draw_kept(self.arrow, self.inverse, kept_key, n_draws)
        return kept, draw_own(self.arrow, kept, own_key)


@dataclass(frozen=True, eq=False)
class IterativeCurvature:
    """The expected information, solved by conjugate gradients without forming the matrix."""

    problem: JointProblem
    spread: Array  # shape (coordinate,)
    point: JointPoint
    expansion: Expansion

    observed = False

    @cached_property
    def arrow(self) -> Arrow:
        """The arrow matrix."""
        return arrow_at(self.problem, self.spread, self.point, self.expansion, observed=False)

    def solve(self, gradient: JointPoint) -> JointPoint:
        """Return the scoring step."""
        kept, own = self.problem.split(gradient)
        white = jnp.einsum("crk,ck->cr", self.arrow.own_factor, own)
        sides = solve_iteratively(self.arrow, Sides(jnp.asarray(kept)[:, None], white[..., None]))
        return self.problem.join(
            np.asarray(sides.kept)[:, 0], colour(self.arrow, sides.own)[..., 0]
        )

    def draw(self, key: Array, n_draws: int) -> Draws:
        """Draw deviations from the mode: H x = noise with covariance H."""
        kept, own = [], []
        for start in range(0, n_draws, _DRAWS):
            n = min(_DRAWS, n_draws - start)
            noise = information_noise(
                self.problem, self.spread, self.point, self.expansion,
                jax.random.fold_in(key, start), n,
            )  # fmt: skip
            white = jnp.einsum("crk,cks->crs", self.arrow.own_factor, noise[1])
            sides = solve_iteratively(self.arrow, Sides(noise[0], white))
            kept.append(sides.kept)
            own.append(colour(self.arrow, sides.own))
        joined = np.concatenate(own, -1)
        return jnp.concatenate(kept, -1), iter([(slice(0, len(joined)), joined)])


Curvature = DenseCurvature | IterativeCurvature


def curvature_at(
    problem: JointProblem,
    spread: Array,
    point: JointPoint,
    expand: Callable[..., Expansion],
    *,
    dense_up_to: int,
) -> Curvature:
    """Return the observed information at a point, or the expected one if it is not usable."""
    if problem.n_kept > dense_up_to:
        return IterativeCurvature(problem, spread, point, expand(observed=False))
    for observed in (True, False):
        arrow = arrow_at(problem, spread, point, expand(observed=observed), observed=observed)
        inverse = inverse_factor(arrow)
        if inverse is not None:
            return DenseCurvature(problem, arrow, inverse, observed)
    raise ResponseError(
        "the curvature of the posterior is not positive definite, so it has no Laplace "
        "approximation; use float64 or sample with NUTS"
    )

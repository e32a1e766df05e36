"""Abilities of subjects on the scale of calibrated items."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators import lapack
from bayesirt.estimators.ability_beliefs import ability_steps
from bayesirt.estimators.cell_expectations import usual_quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import (
    Abilities,
    Items,
    Normal,
    standard_normal,
    without_answers,
)
from bayesirt.estimators.step_halving import limited, without_rising
from bayesirt.estimators.symmetric_matrices import inverse, pairs, unpacked
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.family import CellTerms

How = Literal["posterior", "mle"]

BOUND = 6.0
"""Largest distance of a maximum likelihood estimate from 0, in standard deviations."""

_ABILITY_STEPS = 25
_MOST_STEPS = 60
_MOST_HALVINGS = 30
_FARTHEST = 2.0
_ROUNDING = 8.0
_RIDGES = 1e-6, 1e4
_BISECTIONS = 40
_UNKNOWN = 1e2
"""Standard error above which answers are uninformative in some direction."""


@dataclass(frozen=True, eq=False, repr=False)
class SubjectScores:
    """Abilities of subjects on the scale of calibrated items."""

    subjects: tuple[str, ...]
    theta: NDArray[np.float64]  # shape (subject, ability)
    covariance: NDArray[np.float64]  # shape (subject, ability, ability). Given items.
    # shape (subject,). True if the likelihood has no maximum within `BOUND`, or no unique one. θ is
    # then the best within it, or the one closest to 0, and its covariance is not meaningful.
    at_bound: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"<SubjectScores: {self.to_text()}>"

    @property
    def summary(self) -> pd.DataFrame:
        """One row per subject and ability: `theta`, `se` and `at_bound`."""
        n = self.theta.shape[1]
        names = [f"ability {k}" for k in range(1, n + 1)]
        index = pd.MultiIndex.from_product([self.subjects, names], names=["subject", "ability"])
        errors = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        columns = {"theta": self.theta.ravel(), "se": errors.ravel()}
        return pd.DataFrame({**columns, "at_bound": np.repeat(self.at_bound, n)}, index=index)

    def to_text(self) -> str:
        """Return a short description of the scores."""
        count, n = int(self.at_bound.sum()), len(self.subjects)
        text = f"{n} subjects, {self.theta.shape[1]} abilities"
        return f"{text}, {count} at the bound" if count else text


def score_subjects(
    responses: Responses,
    known: KnownItems,
    *,
    how: How = "posterior",
) -> SubjectScores:
    """Estimate abilities of subjects from their answers to calibrated items.

    Items are treated as exact. If, for example, all answers are right, the likelihood has no
    maximum. The best θ within the bound is then a penalised estimate, with the smallest penalty
    λ θᵀθ / 2 that keeps it there.

    Habba et al. (2026), equation 2.
    """
    if how not in get_args(How):
        raise ResponseError(f"`how` must be {', '.join(get_args(How))}, got {how!r}")
    items, columns = known.within(responses)
    layout = DenseLayout(*(jnp.asarray(x[:, columns]) for x in responses.cells.matrices()))
    dtype = jnp.result_type(float)
    given = Items(jnp.asarray(items.a, dtype), jnp.asarray(items.d, dtype))
    if how == "posterior":
        at_bound = np.zeros(responses.n_subjects, bool)
        abilities = posterior_of(layout, given, standard_normal(known.n_abilities, dtype))
    else:
        abilities, at_bound = _within_bound(layout, given)
    theta, spreads = (np.asarray(x, np.float64) for x in abilities)
    return SubjectScores(responses.subjects, theta, spreads, at_bound)


def posterior_of(layout: DenseLayout, items: Items, population: Normal) -> Abilities:
    """Return normal approximations to the abilities' posteriors, given items."""
    first = without_answers(population, layout.shape[0])
    quadrature = usual_quadrature(layout, None)
    return _STEPS(layout, items, population, first, quadrature, _ABILITY_STEPS)


class _Target(NamedTuple):
    """Each subject's negative log likelihood with a penalty ridge |θ|² / 2."""

    layout: DenseLayout
    items: Items
    ridge: Float[Array, " subject"]

    def loss(self, theta: Float[Array, "subject ability"]) -> Float[Array, " subject"]:
        penalty = self.ridge * (theta**2).sum(1) / 2
        return penalty - self._terms(theta).log_likelihood.sum(1)

    def equations(self, theta: Float[Array, "subject ability"]) -> tuple[Array, Array]:
        """Return scores and inverse information."""
        terms = self._terms(theta)
        score = terms.score @ self.items.a - self.ridge[:, None] * theta
        n = theta.shape[1]
        information = unpacked(terms.information @ pairs(self.items.a, 1.0), n)
        return score, inverse(information + self.ridge[:, None, None] * jnp.eye(n))

    def _terms(self, theta: Array) -> CellTerms:
        return LOGIT.terms(theta @ self.items.a.T + self.items.d, *self.layout)


_Place = tuple[Array, Array, Array, Array]
"""Abilities, losses, the largest change in the last step, and the number of steps."""


def _climb(target: _Target, theta: Float[Array, "subject ability"]) -> Abilities:
    """Minimise each subject's target by Newton steps."""
    eps = float(jnp.finfo(theta.dtype).eps)
    tolerance = np.sqrt(eps)

    def step(place: _Place) -> _Place:
        theta, loss, _, n_steps = place
        score, covariance = target.equations(theta)
        direction = limited(jnp.einsum("ikl,il->ik", covariance, score), _FARTHEST)

        def after(share: Array) -> tuple[Array, Array]:
            new_loss = target.loss(theta + share[:, None] * direction)
            return new_loss, new_loss

        share, loss, _ = without_rising(
            loss, after, loss, rounding=_ROUNDING * eps, most_halvings=_MOST_HALVINGS
        )
        moved = share[:, None] * direction
        return theta + moved, loss, jnp.abs(moved).max(), n_steps + 1

    def unfinished(place: _Place) -> Array:
        _, _, farthest, n_steps = place
        return (farthest > tolerance) & (n_steps < _MOST_STEPS)

    start = theta, target.loss(theta), jnp.asarray(jnp.inf, theta.dtype), jnp.array(0)
    theta, *_ = jax.lax.while_loop(unfinished, step, start)
    return Abilities(theta, target.equations(theta)[1])


def _within_bound(layout: DenseLayout, items: Items) -> tuple[Abilities, NDArray[np.bool_]]:
    """Return maxima of the likelihood within |θ| ≤ `BOUND`, and which are at it or not unique."""
    n_subjects, n = layout.shape[0], items.a.shape[1]

    def at(ridge: Array, theta: Array) -> Abilities:
        return _CLIMB(_Target(layout, items, ridge), theta)

    least, most = (jnp.full(n_subjects, jnp.log(r), items.a.dtype) for r in _RIDGES)
    free = at(jnp.exp(least), jnp.zeros((n_subjects, n), items.a.dtype))
    outside = jnp.linalg.norm(free.mean, axis=1) > BOUND
    spread = lapack.eigh(free.covariance)[0][:, -1]
    at_bound = np.asarray(outside | (spread > _UNKNOWN**2))
    if not bool(outside.any()):
        return free, at_bound
    edge = free._replace(mean=jnp.zeros_like(free.mean))
    for _ in range(_BISECTIONS):
        middle = (least + most) / 2
        edge = at(jnp.exp(middle), edge.mean)
        beyond = jnp.linalg.norm(edge.mean, axis=1) > BOUND
        least, most = jnp.where(beyond, middle, least), jnp.where(beyond, most, middle)
    mask = outside[:, None]
    mean = jnp.where(mask, edge.mean, free.mean)
    return Abilities(mean, jnp.where(mask[:, :, None], edge.covariance, free.covariance)), at_bound


_CLIMB: Any = jax.jit(_climb)
_STEPS: Any = jax.jit(ability_steps, static_argnums=(4, 5))

"""Items, normal populations, and normal beliefs about abilities and items.

Abilities are in standard deviations of the population, slopes in logits per standard deviation.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.estimators.symmetric_matrices import inverse
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.host_arrays import host

Unknown = Float[Array, "item parameter parameter"] | None
"""Covariance of each item's (a, d), unless items are treated as known."""

_FIRST_VARIANCE = 0.05


class Items(NamedTuple):
    """Slopes and intercepts."""

    a: Float[Array, "item ability"]
    d: Float[Array, " item"]

    @property
    def both(self) -> Float[Array, "item parameter"]:
        """Slopes, and d as the last parameter."""
        return jnp.concatenate([self.a, self.d[:, None]], 1)

    def right(self, theta: Float[Array, "subject ability"]) -> Float[Array, "subject item"]:
        """Return the probability that each subject gets each item right."""
        return LOGIT.probability(theta @ self.a.T + self.d)

    @classmethod
    def of(cls, both: Float[Array, "item parameter"]) -> "Items":
        """Return items from slopes with d as the last parameter."""
        return cls(both[:, :-1], both[:, -1])


class Normal(NamedTuple):
    """A normal population of abilities or of item parameters, or one for each item."""

    centre: Float[Array, "*row k"]
    precision: Float[Array, "*row k k"]

    def pull(self, x: Float[Array, "row k"]) -> Float[Array, "row k"]:
        """Return minus the gradient of the log density."""
        return jnp.einsum("...kl,...l->...k", self.precision, x - self.centre)

    def squares(self, x: Float[Array, "row k"]) -> Float[Array, " row"]:
        """Return (x - centre)ᵀ precision (x - centre)."""
        return ((x - self.centre) * self.pull(x)).sum(-1)


class Abilities(NamedTuple):
    """Normal approximations to the posteriors of the subjects' abilities."""

    mean: Float[Array, "subject ability"]
    covariance: Float[Array, "subject ability ability"]

    def scatter(self) -> Float[Array, "ability ability"]:
        """Return the expected sum over subjects of θθᵀ."""
        return self.mean.T @ self.mean + self.covariance.sum(0)


class Beliefs(NamedTuple):
    """Normal approximations to posteriors; `unknown` is None if items are treated as known."""

    abilities: Abilities
    unknown: Any = None


def standard_normal(n_abilities: int, dtype: DTypeLike) -> Normal:
    """Return N(0, I)."""
    return Normal(host(np.zeros(n_abilities), dtype), host(np.eye(n_abilities), dtype))


def without_answers(population: Normal, n_subjects: int) -> Abilities:
    """Return the abilities of subjects without answers."""
    both = population.centre, inverse(population.precision)
    return Abilities(*(jnp.broadcast_to(x, (n_subjects, *x.shape)) for x in both))


def first_unknown(items: Items) -> Float[Array, "item parameter parameter"]:
    """Return initial covariances."""
    size = items.a.shape[1] + 1
    covariance = np.eye(size, dtype=items.d.dtype) * _FIRST_VARIANCE
    return host(np.broadcast_to(covariance, (len(items.d), size, size)).copy())

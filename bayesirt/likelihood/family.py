"""What a response family is to the rest of the package.

A cell's first predictor is η = a θ + d; a family may take further ones, which are an item's alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num


class CellTerms(NamedTuple):
    """What a family says about each cell at a linear predictor η."""

    log_likelihood: Float[Array, "..."]  # ℓ, up to terms without η.
    score: Float[Array, "..."]  # s = ∂ℓ/∂η.
    information: Float[Array, "..."]  # w = -∂²ℓ/∂η².


class PredictorTerms(NamedTuple):
    """What a family says about each cell, for all of its predictors."""

    log_likelihood: Float[Array, "..."]  # ℓ, up to terms without predictors.
    score: tuple[Float[Array, "..."], ...]  # ∂ℓ of each predictor, η first.
    # -∂²ℓ of each pair of predictors, or what is expected of it.
    information: tuple[tuple[Float[Array, "..."], ...], ...]


class Shares(NamedTuple):
    """Cumulants of successes y out of n, by trial."""

    mean: Float[Array, "..."]  # E y / n.
    variance: Float[Array, "..."]  # Var y / n.
    third: Float[Array, "..."]  # E (y - E y)³ / n.


class Law(NamedTuple):
    """How an answer is distributed whose successes are not binomial.

    Attributes
    ----------
    shares : callable
        (η, *further) → `Shares`.
    score_moments : callable
        (η, *further) → (E s², E s³), with s = ∂ℓ/∂η.
    draw : callable
        (key, η, *further) → successes.
    levels : callable
        (η, *further) → least successes of each level above the lowest, with the probability of
        reaching it.
    """

    shares: Callable[..., Shares]
    score_moments: Callable[..., tuple[Float[Array, "..."], Float[Array, "..."]]]
    draw: Callable[..., Float[Array, "..."]]
    levels: Callable[..., list[tuple[int, Float[Array, "..."]]]]

    def given(self, further: Sequence[Any]) -> "Law":
        """Return the law of η alone, with the further predictors given."""
        return Law(
            lambda eta: self.shares(eta, *further),
            lambda eta: self.score_moments(eta, *further),
            lambda key, eta: self.draw(key, eta, *further),
            lambda eta: self.levels(eta, *further),
        )


class Family(NamedTuple):
    """A response family.

    Attributes
    ----------
    name : str
    terms : callable
        (η, successes, trials, *further) → `CellTerms`.
    bound : callable
        trials → w̄, with w ≤ w̄ for every η.
    probability : callable
        (η, *further) → p, the proportion correct that is expected.
    further : tuple of str
        The items' parameters that are predictors beside η.
    all_terms : callable, optional
        (η, successes, trials, *further) → `PredictorTerms`, where there are further predictors.
    law : Law, optional
        Where successes are not binomial: then a cell has one answer, and its trials are the units
        that it is measured in.
    """

    name: str
    terms: Callable[..., CellTerms]
    bound: Callable[..., Float[Array, "..."]]
    probability: Callable[..., Float[Array, "..."]]
    further: tuple[str, ...] = ()
    all_terms: Callable[..., PredictorTerms] | None = None
    law: Law | None = None

    @property
    def binomial(self) -> bool:
        """Whether the trials of a cell are independent of each other, given η."""
        return self.law is None

    def shares(self, eta: Float[Array, "..."]) -> Shares:
        """Return what is expected of successes, once the further predictors are given."""
        if self.law is not None:
            return self.law.shares(eta)
        p = self.probability(eta)
        return Shares(p, p - p**2, p - 3 * p**2 + 2 * p**3)

    def draw(
        self, key: Array, eta: Float[Array, "..."], trials: Num[Array, "..."]
    ) -> Float[Array, "..."]:
        """Draw successes, once the further predictors are given."""
        if self.law is not None:
            return jnp.where(trials > 0, self.law.draw(key, eta), 0)
        n, p = trials.astype(eta.dtype), self.probability(eta)
        return jax.random.binomial(key, n, p, dtype=eta.dtype)

    def expected_information(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return what one answer tells of η on average, once the further predictors are given.

        Of binomial answers information is linear in the successes.
        """
        if self.law is not None:
            return self.law.score_moments(eta)[0]
        return self.terms(eta, self.probability(eta), 1).information

    def every(
        self,
        eta: Float[Array, "..."],
        successes: Num[Array, "..."],
        trials: Num[Array, "..."],
        *further: Float[Array, "..."],
    ) -> PredictorTerms:
        """Return the terms of all predictors."""
        if self.all_terms is not None:
            return self.all_terms(eta, successes, trials, *further)
        value, score, information = self.terms(eta, successes, trials, *further)
        return PredictorTerms(value, (score,), ((information,),))

    def given(self, further: Sequence[Any]) -> "Family":
        """Return the family of η alone, with the further predictors given."""
        if not self.further:
            return self

        def terms(eta: Array, successes: Array, trials: Array) -> CellTerms:
            return self.terms(eta, successes, trials, *further)

        def probability(eta: Array) -> Array:
            return self.probability(eta, *further)

        law = self.law and self.law.given(further)
        return Family(self.name, terms, self.bound, probability, law=law)

"""The interface of response families.

A cell's first predictor is η = a θ + d; a family may have further ones, which are item parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Num

Each = Float[Array, "..."]
"""A number for each cell, or for each item."""
Counts = Num[Array, "..."]
"""Successes or trials of each cell."""


class CellTerms(NamedTuple):
    """Log likelihood of each cell and its derivatives in the linear predictor η."""

    log_likelihood: Each  # ℓ, up to terms without η.
    score: Each  # s = ∂ℓ/∂η.
    information: Each  # w = -∂²ℓ/∂η².


class PredictorTerms(NamedTuple):
    """Log likelihood of each cell and its derivatives in all predictors."""

    log_likelihood: Each  # ℓ, up to terms without predictors.
    score: tuple[Each, ...]  # ∂ℓ for each predictor, η first.
    # -∂²ℓ for each pair of predictors, or its expectation.
    information: tuple[tuple[Each, ...], ...]


class Shares(NamedTuple):
    """Cumulants of successes y out of n, per trial."""

    mean: Each  # E y / n.
    variance: Each  # Var y / n.
    third: Each  # E (y - E y)³ / n.


class Law(NamedTuple):
    """Distribution of an answer whose successes are not binomial."""

    shares: Callable[..., Shares]  # Function of (η, trials, *further).
    draw: Callable[..., Each]  # (key, η, trials, *further) → successes.
    # (η, *further) → (E s², E s³) of an answer, with s = ∂ℓ/∂η. By default s is treated as linear
    # in the successes.
    score_moments: Callable[..., tuple[Each, Each]] | None = None
    # (η, *further) → least successes of each level above the lowest, with the probability of
    # reaching it.
    levels: Callable[..., list[tuple[int, Each]]] | None = None
    counts: bool = False  # Whether trials are runs; otherwise a cell has one answer, in steps.
    # (η, successes, trials, *further) → log probability of a score in [0, 1] recorded in
    # hundredths, to compare laws that have probability masses with laws that have densities.
    recorded: Callable[..., Each] | None = None

    def given(self, further: Sequence[Any]) -> "Law":
        """Return the law as a function of η, for given further predictors."""
        return Law(
            _at(further, self.shares),
            _at(further, self.draw),
            _at(further, self.score_moments),
            _at(further, self.levels),
            counts=self.counts,
            recorded=_at(further, self.recorded),
        )


def _at(further: Sequence[Any], function: Callable[..., Any] | None) -> Any:
    """Bind the last arguments of a function, unless it is None."""
    return None if function is None else lambda *known: function(*known, *further)


def terms_of_eta(all_terms: Callable[..., PredictorTerms]) -> Callable[..., CellTerms]:
    """Return a function for the terms of η from one for the terms of all predictors."""

    def terms(eta: Each, successes: Counts, trials: Counts, *further: Each) -> CellTerms:
        value, score, information = all_terms(eta, successes, trials, *further)
        return CellTerms(value, score[0], information[0][0])

    return terms


class Family(NamedTuple):
    """A response family."""

    name: str
    terms: Callable[..., CellTerms]  # Function of (η, successes, trials, *further).
    bound: Callable[..., Each]  # trials → w̄, with w ≤ w̄ for every η.
    probability: Callable[..., Each]  # (η, *further) → p, the expected proportion correct.
    further: tuple[str, ...] = ()  # Names of item parameters that are further predictors.
    # Function of (η, successes, trials, *further), if there are further predictors.
    all_terms: Callable[..., PredictorTerms] | None = None
    law: Law | None = None  # None if successes are binomial.

    @property
    def counts(self) -> bool:
        """Whether trials are runs; otherwise a cell has one answer with as many steps as trials."""
        return self.law is None or self.law.counts

    def shares(self, eta: Each, trials: ArrayLike = 1) -> Shares:
        """Return the cumulants of successes; for a family without further predictors (`given`)."""
        if self.law is not None:
            return self.law.shares(eta, trials)
        p = self.probability(eta)
        return Shares(p, p - p**2, p - 3 * p**2 + 2 * p**3)

    def draw(self, key: Array, eta: Each, trials: Counts) -> Each:
        """Draw successes; for a family without further predictors (`given`)."""
        if self.law is not None:
            return self.law.draw(key, eta, trials)
        n, p = trials.astype(eta.dtype), self.probability(eta)
        return jax.random.binomial(key, n, p, dtype=eta.dtype)

    def expected_information(self, eta: Each, trials: ArrayLike = 1) -> Each:
        """Return the expected information about η; for a family without further predictors.

        For binomial answers the information is linear in the successes.
        """
        if self.law is None:
            return jnp.asarray(trials) * self.terms(eta, self.probability(eta), 1).information
        if self.law.score_moments is not None:
            return (jnp.asarray(trials) > 0) * self.law.score_moments(eta)[0]
        of_mean = self.slope(eta)
        return jnp.asarray(trials) * of_mean**2 / self.law.shares(eta, trials).variance

    def slope(self, eta: Each) -> Each:
        """Return the slope of the expected share in η; for a family without further predictors."""
        return jax.jvp(lambda x: self.shares(x).mean, (eta,), (jnp.ones_like(eta),))[1]

    def every(self, eta: Each, successes: Counts, trials: Counts, *further: Each) -> PredictorTerms:
        """Return the terms of all predictors."""
        if self.all_terms is not None:
            return self.all_terms(eta, successes, trials, *further)
        value, score, information = self.terms(eta, successes, trials, *further)
        return PredictorTerms(value, (score,), ((information,),))

    def given(self, further: Sequence[Any]) -> "Family":
        """Return the family as a function of η, for given further predictors."""
        if not self.further:
            return self
        terms, probability = _at(further, self.terms), _at(further, self.probability)
        law = self.law and self.law.given(further)
        return Family(self.name, terms, self.bound, probability, law=law)

"""Residuals of the answers, cell by cell, at a draw of all parameters."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesirt.errors import ResponseError
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.family import Family, Law
from bayesirt.likelihood.few_shapes import filled_up
from bayesirt.likelihood.host_arrays import host
from bayesirt.posterior import Posterior

Total = TypeVar("Total")

_LARGE = 1 << 15
"""More cells than this are computed in 32 bits, up to three times as fast; z changes by 2e-6."""


class Draw(NamedTuple):
    """One draw, or several with a leading axis of draws."""

    theta: Float[Array, "..."]
    a: Float[Array, "..."]
    d: Float[Array, "..."]
    further: tuple[
        Float[Array, "..."], ...
    ] = ()  # What the proportion correct depends on besides a θ + d.

    def of_items(self, function: Callable[[Array], Array]) -> "Draw":
        """Return the draw with a function applied to each item's parameters."""
        further = tuple(function(values) for values in self.further)
        return Draw(self.theta, function(self.a), function(self.d), further)

    def answers(self, link: str) -> Family:
        """Return the family of η = a θ + d at this draw."""
        return family_named(link).given(self.further)


class Draws(NamedTuple):
    """Draws in a place for more, so that compiled code is reused; only the first `n` are used."""

    each: Draw
    n: Int[Array, ""]

    def of_items(self, function: Callable[[Array], Array]) -> "Draws":
        """Return the draws with a function applied to each item parameter."""
        return Draws(self.each.of_items(function), self.n)

    def added(
        self, add: Callable[..., Total], nothing: Total, beside: Sequence[Array] = ()
    ) -> Total:
        """Return the total after `add(total, draw, *beside)` → total for each draw in turn.

        Arrays `beside` the draws have the same leading axis.
        """

        def next_(k: Array, total: Total) -> Total:
            return add(total, *jax.tree.map(lambda x: x[k], (self.each, *beside)))

        return jax.lax.fori_loop(0, self.n, next_, nothing)


class Counts(NamedTuple):
    """The responses."""

    successes: Int[Array, "subject item"]
    trials: Int[Array, "subject item"]


class Residuals(NamedTuple):
    """Residuals on the scale of the linear predictor, and their moments."""

    score: Float[Array, "subject item"]  # s = ∂ℓ/∂η, whose expectation is 0.
    weight: Float[Array, "subject item"]  # E s² = n p'² / (p (1 - p)), the expected information.
    third: Float[Array, "subject item"]  # E s³.
    excess: Float[Array, "subject item"]  # Successes minus their expected number, y - E y.
    slope: Float[Array, "subject item"]  # ∂E y/∂η.
    variance: Float[Array, "subject item"]  # Of y.
    odds: Float[Array, "subject item"]  # Logit of the expected share of the full score.


def residuals(link: str, counts: Counts, draw: Draw) -> Residuals:
    """Return the residuals at one draw.

    For one binomial trial s is s₁ with probability p, else s₀, and p s₁ + (1 - p) s₀ = 0. So
    E s² = -s₁ s₀ and E s³ = -s₁ s₀ (s₁ + s₀); n trials have n times these cumulants.
    """
    eta = draw.theta[:, None] * draw.a + draw.d
    family = draw.answers(link)
    y, n = (x.astype(eta.dtype) for x in counts)
    if family.law is not None:
        return _by_law(family, family.law, eta, y, n)
    one, nothing = jnp.ones((), eta.dtype), jnp.zeros((), eta.dtype)
    right, wrong = (family.terms(eta, y, one).score for y in (one, nothing))
    weight = -n * right * wrong
    score, step = y * right + (n - y) * wrong, right - wrong
    tiny = jnp.finfo(eta.dtype).tiny
    odds = jnp.log(jnp.maximum(-wrong, tiny)) - jnp.log(jnp.maximum(right, tiny))
    return Residuals(
        score, weight, weight * (right + wrong), score / step, weight / step, weight / step**2, odds
    )


def _by_law(family: Family, law: Law, eta: Array, y: Array, n: Array) -> Residuals:
    """Return the residuals of answers that are not binomial; cov(y, s) is how E y rises with η."""
    shares, slope = law.shares(eta, n), n * family.slope(eta)
    seen, excess, variance = n > 0, y - n * shares.mean, n * shares.variance
    if law.score_moments is None:
        rate = slope / jnp.where(seen, variance, 1)
        score, second, third = rate * excess, rate * slope, rate**3 * n * shares.third
    else:
        score, (second, third) = family.terms(eta, y, n).score, law.score_moments(eta)
    score, second, third, excess = (jnp.where(seen, x, 0) for x in (score, second, third, excess))
    odds = jnp.log(shares.mean) - jnp.log1p(-shares.mean)
    return Residuals(score, second, third, excess, slope, variance, odds)


def counts_of(posterior: Posterior) -> Counts:
    """Return the responses that the draws are conditioned on."""
    return Counts(host(posterior.successes), host(posterior.trials))


def thinned(posterior: Posterior, most: float) -> Draw:
    """Return draws, evenly thinned to as many as asked for, so that compiled code can be reused."""
    n = len(posterior.theta)
    n_kept = int(np.clip(most, 1, n))
    places = (2 * np.arange(n_kept) + 1) * n // (2 * n_kept)
    dtype: Any = np.float32 if posterior.trials.size > _LARGE else None
    theta, a, d, *further = (
        host(posterior.draws(name)[places], dtype) for name in posterior.parameters
    )
    return Draw(theta, a, d, tuple(further))


def with_room(posterior: Posterior, most: float) -> tuple[Counts, Draws]:
    """Return responses and draws for compiled code that is used again.

    There is room for as many draws as are asked for, and small tables are padded with subjects and
    items without answers.
    """
    counts, draws = counts_of(posterior), thinned(posterior, most)
    filled = filled_up(*counts)
    n, room = len(draws.theta), max(int(most), 1)
    of_draws, of_subjects, of_items = (
        (0, full - own)
        for full, own in zip((room, *filled.shape), (n, *counts.trials.shape), strict=True)
    )

    def wider(values: Array, by: tuple[int, int]) -> Array:
        return host(np.pad(values, (of_draws, by), mode="edge"))

    each = draws.of_items(lambda values: wider(values, of_items))
    each = each._replace(theta=wider(draws.theta, of_subjects))
    return Counts(*filled), Draws(each, host(np.array(n)))


def refuse_other_models(posterior: Posterior) -> None:
    """Refuse posteriors of models without exactly one ability."""
    if posterior.theta.ndim != 2 or posterior.draws("a").ndim != 2:
        raise ResponseError(
            "fit is checked for models with one ability; sample_posterior draws from one"
        )

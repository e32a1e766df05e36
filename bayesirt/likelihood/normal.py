"""Unbounded scores with normal errors.

    z ~ N(η, noise² + FLOOR²),  z = SPAN (y / n - 1/2)

A cell's successes y are the position of its score between the two ends of its scale, in n parts.
With this span, scores that fill their scale vary about as much as logits do, so that slopes and
intercepts can have the same priors as in other models.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jax.scipy.stats import norm
from jaxtyping import Array

from bayesirt.data.scales import HUNDREDTH, PARTS
from bayesirt.likelihood.family import (
    Counts,
    Each,
    Family,
    Law,
    PredictorTerms,
    Shares,
    terms_of_eta,
)

SPAN = 8.0
FLOOR = 0.02
"""Smallest standard deviation, a quarter of a percent of the scale, as noise may be 0."""
_MOST_INFORMATION = 1.0
LEVELS = (0.25, 0.5, 0.75)
"""Positions on the scale for which the report compares the proportions of scores above them."""


def normal_bound(trials: Counts) -> Each:
    """Return a rough upper bound on the information of one score."""
    return (trials > 0) * _MOST_INFORMATION


def normal_probability(eta: Each, noise: Each) -> Each:  # noqa: ARG001
    """Return the expected score as a position on its scale, which may be beyond its ends."""
    return 0.5 + eta / SPAN


def normal_shares(eta: Each, trials: Counts, noise: Each) -> Shares:  # noqa: ARG001
    """Return the cumulants of a score, per part."""
    mean, variance = normal_probability(eta, noise), PARTS * _variance(noise) / SPAN**2
    return Shares(mean, variance + jnp.zeros_like(mean), jnp.zeros_like(mean))


def normal_score_moments(eta: Each, noise: Each) -> tuple[Each, Each]:
    """Return E s² and E s³, which is 0."""
    nothing = jnp.zeros_like(eta)
    return 1 / _variance(noise) + nothing, nothing


def drawn_score(key: Array, eta: Each, trials: Counts, noise: Each) -> Each:
    """Draw a score in whole parts; it may be beyond the ends of its scale."""
    z = eta + jnp.sqrt(_variance(noise)) * jax.random.normal(key, eta.shape, eta.dtype)
    return jnp.where(trials > 0, jnp.round(trials * (0.5 + z / SPAN)), 0)


def score_levels(eta: Each, noise: Each) -> list[tuple[int, Each]]:
    """Return the probabilities of scores of at least a quarter, a half and three quarters."""
    sd = jnp.sqrt(_variance(noise))
    return [(round(x * PARTS), ndtr((eta - SPAN * (x - 0.5)) / sd)) for x in LEVELS]


def recorded_score(eta: Each, successes: Counts, trials: Counts, noise: Each) -> Each:
    """Return the log probability of a score rounded to hundredths and clipped to the scale.

    Between the ends it is a hundredth times the density of the score with rounding error.
    """
    sd, half = jnp.sqrt(_variance(noise)), HUNDREDTH / 2
    y = successes.astype(eta.dtype) / jnp.maximum(trials, 1).astype(eta.dtype)
    below, above = (
        log_ndtr(x / sd) for x in (SPAN * (half - 0.5) - eta, eta - SPAN * (0.5 - half))
    )
    rounded = norm.logpdf(SPAN * (y - 0.5), eta, jnp.sqrt(sd**2 + (SPAN * HUNDREDTH) ** 2 / 12))
    inside = jnp.minimum(rounded + jnp.log(SPAN * HUNDREDTH), 0)
    return jnp.where(y < half, below, jnp.where(y >= 1 - half, above, inside))


def normal_predictor_terms(
    eta: Each, successes: Counts, trials: Counts, noise: Each
) -> PredictorTerms:
    """Return the terms of one score in η and the noise; the noise has expected information.

    The log density is on the scale of the proportion y / n, comparable with other models'.
    """
    seen = trials > 0
    parts = jnp.maximum(trials, 1).astype(eta.dtype)
    residual = SPAN * (successes.astype(eta.dtype) / parts - 0.5) - eta
    variance = _variance(noise)
    square, of_noise = residual**2 / variance, noise / variance
    value = jnp.log(SPAN) - 0.5 * (square + jnp.log(2 * jnp.pi * variance))
    nothing = jnp.zeros_like(eta)
    noise_information = 2 * of_noise**2 + nothing
    return PredictorTerms(
        jnp.where(seen, value, 0),
        (jnp.where(seen, residual / variance, 0), jnp.where(seen, (square - 1) * of_noise, 0)),
        (
            (jnp.where(seen, 1 / variance + nothing, 0), nothing),
            (nothing, jnp.where(seen, noise_information, 0)),
        ),
    )


def _variance(noise: Each) -> Each:
    return noise**2 + FLOOR**2


NORMAL = Family(
    "normal",
    terms_of_eta(normal_predictor_terms),
    normal_bound,
    normal_probability,
    ("noise",),
    normal_predictor_terms,
    Law(normal_shares, drawn_score, normal_score_moments, score_levels, recorded=recorded_score),
)

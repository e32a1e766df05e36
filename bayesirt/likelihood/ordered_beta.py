"""Scores in [0, 1] with probability mass at both ends (ordered beta; Kubinec 2023).

    P(y > 0) = sigmoid(η + shift + gap / 2),  P(y = 1) = sigmoid(η + shift - gap / 2),
    y | 0 < y < 1 ~ Beta(μ φ, (1 - μ) φ),  μ = sigmoid(η)

There are three ordered outcomes (0, between, 1), and a beta distribution for scores in between.
Scores are in ten-thousandths ("parts"); the parts next to the ends have the probability of all
scores between the ends that are closest to them.
"""

import math

import jax
import jax.numpy as jnp
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
from bayesirt.likelihood.graded import (
    grade_probabilities,
    graded_predictor_terms,
    graded_score_moments,
)
from bayesirt.likelihood.log_gamma import LogGamma, log_gamma

_LOG_EDGE = math.log(1.5 / PARTS)
_MOST_INFORMATION = 4.0
"""Roughly a typical φ times the information of a logistic curve at its midpoint."""


def ordered_beta_bound(trials: Counts) -> Each:
    """Return a rough upper bound on the information of one score."""
    return (trials > 0) * _MOST_INFORMATION


def ordered_beta_probability(eta: Each, gap: Each, phi: Each, shift: Each) -> Each:
    """Return the expected score."""
    del phi
    _, inside, whole = grade_probabilities(eta + shift + gap / 2, gap)
    return whole + inside * jax.nn.sigmoid(eta)


def ordered_beta_shares(eta: Each, trials: Counts, gap: Each, phi: Each, shift: Each) -> Shares:
    """Return the cumulants of a score, per ten-thousandth."""
    del trials
    _, inside, whole = grade_probabilities(eta + shift + gap / 2, gap)
    alpha = phi * jax.nn.sigmoid(eta)
    first = alpha / phi
    second = first * (alpha + 1) / (phi + 1)
    cube = second * (alpha + 2) / (phi + 2)
    m, s, t = (whole + inside * x for x in (first, second, cube))
    return Shares(m, PARTS * (s - m**2), PARTS**2 * (t - 3 * m * s + 2 * m**3))


def ordered_beta_score_moments(eta: Each, gap: Each, phi: Each, shift: Each) -> tuple[Each, Each]:
    """Return E s², and E s³ without the beta distribution, whose score is nearly symmetric."""
    _, inside, _ = grade_probabilities(eta + shift + gap / 2, gap)
    second, third = graded_score_moments(eta + shift + gap / 2, gap)
    mu, rest = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    of_beta = _information(mu, rest, phi, *(log_gamma(x) for x in (mu * phi, rest * phi, phi)))
    return second + inside * of_beta[0], third


def drawn_score(key: Array, eta: Each, trials: Counts, gap: Each, phi: Each, shift: Each) -> Each:
    """Draw a score in ten-thousandths."""
    of_ends, of_inside = jax.random.split(key)
    uniform = jax.random.uniform(of_ends, eta.shape, eta.dtype)
    mu = jax.nn.sigmoid(eta)
    inside = jax.random.beta(of_inside, phi * mu, phi * (1 - mu), eta.shape, eta.dtype)
    parts = jnp.clip(jnp.round(PARTS * inside), 1, PARTS - 1)
    whole, some = (uniform < jax.nn.sigmoid(eta + shift + x) for x in (-gap / 2, gap / 2))
    return jnp.where(trials > 0, jnp.where(whole, PARTS, jnp.where(some, parts, 0)), 0)


def score_levels(eta: Each, gap: Each, phi: Each, shift: Each) -> list[tuple[int, Each]]:
    """Return the probabilities of a score above 0 and of the full score."""
    del phi
    eta = eta + shift
    return [(1, jax.nn.sigmoid(eta + gap / 2)), (PARTS, jax.nn.sigmoid(eta - gap / 2))]


def recorded_score(
    eta: Each, successes: Counts, trials: Counts, gap: Each, phi: Each, shift: Each
) -> Each:
    """Return the log probability of a score recorded in hundredths; the ends have their mass."""
    value = ordered_beta_predictor_terms(eta, successes, trials, gap, phi, shift).log_likelihood
    inside = (successes > 0) & (successes < trials)
    return jnp.where(inside, jnp.minimum(value + math.log(HUNDREDTH), 0), value)


def ordered_beta_predictor_terms(
    eta: Each, successes: Counts, trials: Counts, gap: Each, phi: Each, shift: Each
) -> PredictorTerms:
    """Return one score's terms in η, gap, φ and shift; the beta part has expected information."""
    inside = (successes > 0) & (successes < trials)
    outcome = jnp.where(successes >= trials, 2, jnp.where(inside, 1, 0))
    ends = graded_predictor_terms(eta + shift + gap / 2, outcome, trials, gap)
    share = successes.astype(eta.dtype) / jnp.maximum(trials, 1).astype(eta.dtype)
    y, first, last = jnp.where(inside, share, 0.5), successes == 1, successes == trials - 1
    mu, rest = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    of_alpha, of_beta, of_both = (log_gamma(x) for x in (mu * phi, rest * phi, phi))
    # The mass of the first part is ε^α / (α B(α, β)), as if log y were log ε - 1 / α, and 1 - y 1.
    log_y = jnp.where(first, _LOG_EDGE - 1 / (mu * phi), jnp.where(last, 0, jnp.log(y)))
    log_rest = jnp.where(last, _LOG_EDGE - 1 / (rest * phi), jnp.where(first, 0, jnp.log1p(-y)))
    excess, rest_excess = log_y - of_alpha.slope, log_rest - of_beta.slope
    value = jnp.where(
        first | last,
        _edge(jnp.where(first, mu, rest) * phi),
        (mu * phi - 1) * log_y + (rest * phi - 1) * log_rest,
    )
    value += of_both.value - of_alpha.value - of_beta.value
    of_eta = phi * mu * rest * (excess - rest_excess)
    of_phi = mu * excess + rest * rest_excess + of_both.slope
    information = _information(mu, rest, phi, of_alpha, of_beta, of_both)
    w_eta, w_both, w_phi = (jnp.where(inside, w, 0) for w in information)
    nothing = jnp.zeros_like(eta)
    (w, mixed), (_, of_gap) = ends.information
    of_gap, mixed = of_gap + mixed + w / 4, mixed + w / 2  # η + gap / 2 depends on the gap
    return PredictorTerms(
        ends.log_likelihood + jnp.where(inside, value, 0),
        (
            ends.score[0] + jnp.where(inside, of_eta, 0),
            ends.score[1] + ends.score[0] / 2,
            jnp.where(inside, of_phi, 0),
            ends.score[0],
        ),
        (
            (w + w_eta, mixed, w_both, w),
            (mixed, of_gap, nothing, mixed),
            (w_both, nothing, w_phi, nothing),
            (w, mixed, nothing, w),
        ),
    )


def _edge(alpha: Each) -> Each:
    """Return log(mass / width) of the part next to an end, without the factor 1 / B(α, β)."""
    return alpha * _LOG_EDGE - jnp.log(alpha) + math.log(PARTS)


def _information(
    mu: Each, rest: Each, phi: Each, of_alpha: LogGamma, of_beta: LogGamma, of_both: LogGamma
) -> tuple[Each, ...]:
    """Return the expected information of a beta distribution: about η, both, and φ."""
    one, other, slope = of_alpha.curvature, of_beta.curvature, mu * rest
    return (
        (phi * slope) ** 2 * (one + other),
        phi * slope * (mu * one - rest * other),
        mu**2 * one + rest**2 * other - of_both.curvature,
    )


ORDERED_BETA = Family(
    "ordered beta",
    terms_of_eta(ordered_beta_predictor_terms),
    ordered_beta_bound,
    ordered_beta_probability,
    ("gap", "phi", "shift"),
    ordered_beta_predictor_terms,
    Law(
        ordered_beta_shares,
        drawn_score,
        ordered_beta_score_moments,
        score_levels,
        recorded=recorded_score,
    ),
)

"""Scores in [0, 1] with mass at both ends (ordered beta; Kubinec 2023), in ten-thousandths.

    P(y > 0) = sigmoid(η + gap / 2),  P(y = 1) = sigmoid(η - gap / 2),
    y | 0 < y < 1 ~ Beta(μ φ, (1 - μ) φ),  μ = sigmoid(η)

Three ordered outcomes, nothing, something and everything, and a beta distribution of something.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln
from jaxtyping import Array, Float, Num

from bayesirt.data.scales import PARTS
from bayesirt.likelihood.family import CellTerms, Family, Law, PredictorTerms, Shares
from bayesirt.likelihood.graded import (
    grade_probabilities,
    graded_predictor_terms,
    graded_score_moments,
)

_MOST_INFORMATION = 4.0
"""About φ where it is usual, times what a logistic curve tells at its middle."""


def ordered_beta_bound(trials: Num[Array, "..."]) -> Float[Array, "..."]:
    """Return about the most information of one score."""
    return (trials > 0) * _MOST_INFORMATION


def ordered_beta_probability(
    eta: Float[Array, "..."], gap: Float[Array, "..."], phi: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Return the expected score."""
    del phi
    _, inside, whole = grade_probabilities(eta + gap / 2, gap)
    return whole + inside * jax.nn.sigmoid(eta)


def ordered_beta_shares(
    eta: Float[Array, "..."], gap: Float[Array, "..."], phi: Float[Array, "..."]
) -> Shares:
    """Return the cumulants of a score, by ten-thousandth."""
    _, inside, whole = grade_probabilities(eta + gap / 2, gap)
    alpha = phi * jax.nn.sigmoid(eta)
    first = alpha / phi
    second = first * (alpha + 1) / (phi + 1)
    cube = second * (alpha + 2) / (phi + 2)
    m, s, t = (whole + inside * x for x in (first, second, cube))
    return Shares(m, PARTS * (s - m**2), PARTS**2 * (t - 3 * m * s + 2 * m**3))


def ordered_beta_score_moments(
    eta: Float[Array, "..."], gap: Float[Array, "..."], phi: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Return E s², and E s³ of what is beside the beta distribution, whose s is about symmetric."""
    _, inside, _ = grade_probabilities(eta + gap / 2, gap)
    second, third = graded_score_moments(eta + gap / 2, gap)
    return second + inside * _beta_information(eta, phi)[0], third


def drawn_score(
    key: Array, eta: Float[Array, "..."], gap: Float[Array, "..."], phi: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Draw a score, in ten-thousandths."""
    of_ends, of_inside = jax.random.split(key)
    uniform = jax.random.uniform(of_ends, eta.shape, eta.dtype)
    mu = jax.nn.sigmoid(eta)
    inside = jax.random.beta(of_inside, phi * mu, phi * (1 - mu), eta.shape, eta.dtype)
    parts = jnp.clip(jnp.round(PARTS * inside), 1, PARTS - 1)
    whole, some = (uniform < jax.nn.sigmoid(eta + x) for x in (-gap / 2, gap / 2))
    return jnp.where(whole, PARTS, jnp.where(some, parts, 0))


def ordered_beta_terms(
    eta: Float[Array, "..."],
    successes: Num[Array, "..."],
    trials: Num[Array, "..."],
    gap: Float[Array, "..."],
    phi: Float[Array, "..."],
) -> CellTerms:
    """Return the terms of η of `ordered_beta_predictor_terms`."""
    value, score, information = ordered_beta_predictor_terms(eta, successes, trials, gap, phi)
    return CellTerms(value, score[0], information[0][0])


def ordered_beta_predictor_terms(
    eta: Float[Array, "..."],
    successes: Num[Array, "..."],
    trials: Num[Array, "..."],
    gap: Float[Array, "..."],
    phi: Float[Array, "..."],
) -> PredictorTerms:
    """Return the terms of one score, of η, gap and φ; of the beta part the expected information."""
    inside = (successes > 0) & (successes < trials)
    outcome = jnp.where(successes >= trials, 2, jnp.where(inside, 1, 0))
    ends = graded_predictor_terms(eta + gap / 2, outcome, trials, gap)
    share = successes.astype(eta.dtype) / jnp.maximum(trials, 1).astype(eta.dtype)
    y = jnp.clip(share, 0.5 / PARTS, 1 - 0.5 / PARTS)
    mu = jax.nn.sigmoid(eta)
    alpha, beta, slope = mu * phi, (1 - mu) * phi, mu * (1 - mu)
    log_y, log_rest = jnp.log(y), jnp.log1p(-y)
    away, rest_away = log_y - _digamma(alpha), log_rest - _digamma(beta)
    value = (alpha - 1) * log_y + (beta - 1) * log_rest - betaln(alpha, beta)
    of_eta = phi * slope * (away - rest_away)
    of_phi = mu * away + (1 - mu) * rest_away + _digamma(phi)
    w_eta, w_both, w_phi = (jnp.where(inside, w, 0) for w in _beta_information(eta, phi))
    nothing = jnp.zeros_like(eta)
    (w, mixed), (_, of_gap) = ends.information
    of_gap, mixed = of_gap + mixed + w / 4, mixed + w / 2  # as η + gap / 2 moves with the gap
    return PredictorTerms(
        ends.log_likelihood + jnp.where(inside, value, 0),
        (
            ends.score[0] + jnp.where(inside, of_eta, 0),
            ends.score[1] + ends.score[0] / 2,
            jnp.where(inside, of_phi, 0),
        ),
        ((w + w_eta, mixed, w_both), (mixed, of_gap, nothing), (w_both, nothing, w_phi)),
    )


def _beta_information(
    eta: Float[Array, "..."], phi: Float[Array, "..."]
) -> tuple[Float[Array, "..."], ...]:
    """Return the expected information of a beta distribution: of η, of both, of φ."""
    mu, rest = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    of_alpha, of_beta = _trigamma(mu * phi), _trigamma(rest * phi)
    slope = mu * rest
    return (
        (phi * slope) ** 2 * (of_alpha + of_beta),
        phi * slope * (mu * of_alpha - rest * of_beta),
        mu**2 * of_alpha + rest**2 * of_beta - _trigamma(phi),
    )


def _digamma(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the digamma function to within 1e-9, several times faster than JAX does."""
    y = 1 / (x + 5)
    z = y**2
    tail = jnp.log(x + 5) - y / 2 - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))
    return tail - sum(1 / (x + k) for k in range(5))


def _trigamma(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the trigamma function to within 1e-4."""
    y = 1 / (x + 2)
    return 1 / x**2 + 1 / (x + 1) ** 2 + y + y**2 / 2 + y**3 / 6 - y**5 / 30


ORDERED_BETA = Family(
    "ordered beta",
    ordered_beta_terms,
    ordered_beta_bound,
    ordered_beta_probability,
    ("gap", "phi"),
    ordered_beta_predictor_terms,
    Law(ordered_beta_shares, ordered_beta_score_moments, drawn_score),
)

"""Beta-binomial successes, for dependent runs of one subject on one item.

    p_ij ~ Beta(μ φ, (1 - μ) φ),  μ = sigmoid(η);  successes ~ Binomial(trials, p_ij)

Any two runs of a cell have correlation 1 / (1 + φ); as φ → ∞ they become independent.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bayesirt.likelihood.family import (
    Counts,
    Each,
    Family,
    Law,
    PredictorTerms,
    Shares,
    terms_of_eta,
)
from bayesirt.likelihood.log_gamma import LogGamma, log_gamma


def beta_binomial_bound(trials: Counts) -> Each:
    """Return n / 4, an upper bound on the expected information."""
    return trials / 4


def beta_binomial_probability(eta: Each, phi: Each) -> Each:
    """Return the expected proportion correct."""
    del phi
    return jax.nn.sigmoid(eta)


def beta_binomial_predictor_terms(
    eta: Each, successes: Counts, trials: Counts, phi: Each
) -> PredictorTerms:
    """Return the terms of η and φ: log B(y + α, n - y + β) - log B(α, β), α = μ φ, β = (1 - μ) φ.

    The information is replaced by a non-negative one: that of η omits the term with expectation 0,
    that of φ is its squared score, and the cross term, which is small, is 0.
    """
    mu, rest = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    right, runs = (x.astype(eta.dtype) for x in (successes, trials))
    least = jnp.finfo(eta.dtype).tiny ** 0.25
    up = _rise(jnp.maximum(mu * phi, least), right)
    down = _rise(jnp.maximum(rest * phi, least), runs - right)
    both = _rise(phi, runs)
    grows = mu * rest * phi  # ∂α/∂η
    of_phi = mu * up.slope + rest * down.slope - both.slope
    nothing = jnp.zeros_like(eta)
    return PredictorTerms(
        up.value + down.value - both.value,
        (grows * (up.slope - down.slope), of_phi),
        ((-(grows**2) * (up.curvature + down.curvature), nothing), (nothing, of_phi**2)),
    )


def _rise(x: Each, steps: Each) -> LogGamma:
    """Return log Γ(x + steps) - log Γ(x), with its derivatives in x."""
    ends = zip(log_gamma(x + steps), log_gamma(x), strict=True)
    return LogGamma(*(above - below for above, below in ends))


def beta_binomial_shares(eta: Each, trials: Counts, phi: Each) -> Shares:
    """Return the cumulants of successes, per trial."""
    mu, rest = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    variance = mu * rest * (phi + trials) / (phi + 1)
    return Shares(mu, variance, variance * (rest - mu) * (phi + 2 * trials) / (phi + 2))


def beta_binomial_draw(key: Array, eta: Each, trials: Counts, phi: Each) -> Each:
    """Draw successes."""
    of_chance, of_runs = jax.random.split(key)
    mu, rest = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    chance = jax.random.beta(of_chance, mu * phi, rest * phi, eta.shape, eta.dtype)
    return jax.random.binomial(of_runs, trials.astype(eta.dtype), chance, dtype=eta.dtype)


BETA_BINOMIAL = Family(
    "beta-binomial",
    terms_of_eta(beta_binomial_predictor_terms),
    beta_binomial_bound,
    beta_binomial_probability,
    ("phi",),
    beta_binomial_predictor_terms,
    Law(beta_binomial_shares, beta_binomial_draw, counts=True),
)

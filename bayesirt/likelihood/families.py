"""Response families: for each cell the log likelihood, its score, its information and a bound.

A cell's first predictor is η = a θ + d; a family may have further ones, which are item parameters.
These implementations are optimised for speed and stable in both tails; `bayesirt.models` defines
the same models for readability, and oracle tests compare the two.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr

from bayesirt.likelihood.beta_binomial import BETA_BINOMIAL
from bayesirt.likelihood.family import CellTerms, Counts, Each, Family, PredictorTerms, terms_of_eta
from bayesirt.likelihood.graded import GRADED, graded_family
from bayesirt.likelihood.normal import NORMAL
from bayesirt.likelihood.ordered_beta import ORDERED_BETA

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


def logit_terms(eta: Each, successes: Counts, trials: Counts) -> CellTerms:
    r"""Return the terms of binomial responses with p = sigmoid(η).

    ℓ = y η - n softplus(η), s = y - n p, w = n p (1 - p), all from one exponential of -\|η\|, so
    that nothing overflows and no precision is lost in either tail.
    """
    decay = jnp.exp(-jnp.abs(eta))
    smaller = trials * (decay / (1 + decay))
    ahead = successes - jnp.where(eta >= 0, trials, 0)
    return CellTerms(
        ahead * eta - trials * jnp.log1p(decay),
        ahead + jnp.where(eta >= 0, smaller, -smaller),
        smaller / (1 + decay),
    )


def logit_bound(trials: Counts) -> Each:
    """Return n/4, an upper bound on the information of the logit."""
    return trials / 4


def probit_terms(eta: Each, successes: Counts, trials: Counts) -> CellTerms:
    r"""Return the terms of binomial responses with p = Φ(η), the normal distribution function.

    With m(t) = φ(t)/Φ(t): s = y m(η) - (n - y) m(-η) and w = y m(η) (m(η) + η) + (n - y) m(-η)
    (m(-η) - η). Both are computed from log Φ(-\|η\|), the log probability of the less likely
    answer, in whose tail precision would be lost. Its m(-t) (m(-t) - t) with t = \|η\| is between 0
    and 1, and is clipped to this range against rounding.
    """
    t = jnp.abs(eta)
    likely = jnp.where(eta >= 0, successes, trials - successes)
    unlikely = trials - likely
    log_tail = log_ndtr(-t)
    tail, log_density = jnp.exp(log_tail), -(t**2) / 2 - _LOG_ROOT_2_PI
    of_likely = jnp.exp(log_density) / (1 - tail)
    of_unlikely = jnp.exp(log_density - log_tail)
    score = likely * of_likely - unlikely * of_unlikely
    per_unlikely = jnp.clip(of_unlikely * (of_unlikely - t), 0, 1)
    return CellTerms(
        likely * jnp.log1p(-tail) + unlikely * log_tail,
        jnp.where(eta >= 0, score, -score),
        likely * of_likely * (of_likely + t) + unlikely * per_unlikely,
    )


def probit_bound(trials: Counts) -> Each:
    """Return n, an upper bound on the information of the probit."""
    return 1.0 * trials


def guessing_probability(eta: Each, c: Each) -> Each:
    """Return p = c + (1 - c) sigmoid(η)."""
    return c + (1 - c) * jax.nn.sigmoid(eta)


def guessing_predictor_terms(
    eta: Each, successes: Counts, trials: Counts, c: Each
) -> PredictorTerms:
    """Return the terms of binomial responses with p = c + (1 - c) s, s = sigmoid(η), in η and c.

    The information is the expected one, as the observed one may be negative.

    1 - p = (1 - c)(1 - s), so the scores are y (1 - c) s (1 - s) / p - (n - y) s and y (1 - s) / p
    - (n - y) / (1 - c), and the information is n (1 - s) / p times (1 - c) s², s and 1 / (1 - c).
    """
    s, fails = jax.nn.sigmoid(eta), jax.nn.sigmoid(-eta)
    p, wrong = c + (1 - c) * s, trials - successes
    log_wrong = jnp.log1p(-c) - jax.nn.softplus(eta)
    right = successes * fails / p
    expected = trials * fails / p
    mixed = expected * s
    return PredictorTerms(
        successes * jnp.log(p) + wrong * log_wrong,
        (right * (1 - c) * s - wrong * s, right - wrong / (1 - c)),
        ((mixed * (1 - c) * s, mixed), (mixed, expected / (1 - c))),
    )


GUESSING = Family(
    "guessing",
    terms_of_eta(guessing_predictor_terms),
    logit_bound,
    guessing_probability,
    ("c",),
    guessing_predictor_terms,
)
LOGIT = Family("logit", logit_terms, logit_bound, jax.nn.sigmoid)
PROBIT = Family("probit", probit_terms, probit_bound, ndtr)
FAMILIES = {family.name: family for family in (LOGIT, PROBIT, GUESSING)}
"""Families of independent right or wrong answers, by name."""


def family_named(name: str) -> Family:
    """Return a family by its name, as stored in a posterior's attributes."""
    if name.startswith(GRADED):
        return graded_family(int(name.removeprefix(GRADED)))
    others = {family.name: family for family in (ORDERED_BETA, NORMAL, BETA_BINOMIAL)}
    return others[name] if name in others else FAMILIES[name]

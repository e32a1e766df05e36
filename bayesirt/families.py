"""Response families: per cell the log likelihood, its score, its information and a bound.

Written for speed and stable in both tails; the same models are written for reading in
`bayesirt.models`, and oracle tests hold the two together.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float, Num

_LOG_ROOT_2_PI = 0.5 * np.log(2 * np.pi)


class CellTerms(NamedTuple):
    """What a family says about each cell at a linear predictor η.

    Attributes
    ----------
    log_likelihood : float array
        ℓ, up to terms without η.
    score : float array
        s = ∂ℓ/∂η.
    information : float array
        w = -∂²ℓ/∂η².
    """

    log_likelihood: Float[Array, "..."]
    score: Float[Array, "..."]
    information: Float[Array, "..."]


class Family(NamedTuple):
    """A response family.

    Attributes
    ----------
    name : str
    terms : callable
        (η, successes, trials) → `CellTerms`.
    bound : callable
        trials → w̄, with w ≤ w̄ for every η.
    probability : callable
        η → p, the share right that is expected.
    """

    name: str
    terms: Callable[..., CellTerms]
    bound: Callable[..., Float[Array, "..."]]
    probability: Callable[..., Float[Array, "..."]]


def logit_terms(
    eta: Float[Array, "..."], successes: Num[Array, "..."], trials: Num[Array, "..."]
) -> CellTerms:
    r"""Return the terms of binomial responses with p = sigmoid(η).

    Parameters
    ----------
    eta : float array, shape (...)
        Linear predictor, in logits.
    successes, trials : array, shape (...)
        A cell with no trials contributes exactly zero.

    Returns
    -------
    CellTerms

    Notes
    -----
    ℓ = y η - n softplus(η), s = y - n p, w = n p (1 - p), all from one exponential of -\|η\|,
    so that nothing overflows and no digit is lost in either tail.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> terms = logit_terms(jnp.array([0.0]), jnp.array([1]), jnp.array([2]))
    >>> float(terms.score[0]), float(terms.information[0])
    (0.0, 0.5)
    """
    decay = jnp.exp(-jnp.abs(eta))
    smaller = trials * (decay / (1 + decay))
    ahead = successes - jnp.where(eta >= 0, trials, 0)
    return CellTerms(
        ahead * eta - trials * jnp.log1p(decay),
        ahead + jnp.where(eta >= 0, smaller, -smaller),
        smaller / (1 + decay),
    )


def logit_bound(trials: Num[Array, "..."]) -> Float[Array, "..."]:
    """Return n/4, above which the logit's information never rises."""
    return trials / 4


def probit_terms(
    eta: Float[Array, "..."], successes: Num[Array, "..."], trials: Num[Array, "..."]
) -> CellTerms:
    r"""Return the terms of binomial responses with p = Φ(η), the normal distribution function.

    Parameters
    ----------
    eta : float array, shape (...)
        Linear predictor, in normal deviates.
    successes, trials : array, shape (...)
        A cell with no trials contributes exactly zero.

    Returns
    -------
    CellTerms

    Notes
    -----
    With m(t) = φ(t)/Φ(t): s = y m(η) - (n - y) m(-η) and
    w = y m(η) (m(η) + η) + (n - y) m(-η) (m(-η) - η). Both come from log Φ of -\|η\|, the answer
    that is the less likely, whose tail is where digits would be lost. Both m(-t) (m(-t) - t) and
    its twin lie between 0 and 1, and are kept there against rounding.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> terms = probit_terms(jnp.array([0.0]), jnp.array([1]), jnp.array([1]))
    >>> round(float(terms.score[0]), 4), round(float(terms.information[0]), 4)
    (0.7979, 0.6366)
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


def probit_bound(trials: Num[Array, "..."]) -> Float[Array, "..."]:
    """Return n, above which the probit's information never rises."""
    return 1.0 * trials


LOGIT = Family("logit", logit_terms, logit_bound, jax.nn.sigmoid)
PROBIT = Family("probit", probit_terms, probit_bound, ndtr)
FAMILIES = {family.name: family for family in (LOGIT, PROBIT)}
"""By name, as a posterior's attributes keep it."""

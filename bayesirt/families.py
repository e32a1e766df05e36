"""Response families: per cell the log likelihood, its score, its information and a bound.

Written for speed and stable in both tails; the same models are written for reading in
`bayesirt.models`, and oracle tests hold the two together.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Num


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
    """

    name: str
    terms: Callable[..., CellTerms]
    bound: Callable[..., Float[Array, "..."]]


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


LOGIT = Family("logit", logit_terms, logit_bound)

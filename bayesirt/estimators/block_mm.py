"""Algorithm 1 of Qu et al. (2026): block-wise least squares on a majorising surrogate."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators.weak_prior import WeakPrior
from bayesirt.likelihood.cell_sums import Layout
from bayesirt.likelihood.family import Family

_CURVATURE = 4.0
"""n / w̄ for the logit: the inverse of the bound on the information of a single trial."""


class MMState(NamedTuple):
    """State of the iteration."""

    point: tuple[Array, Array, Array]
    score: Array  # s = y - n p at the point.
    loss: Float[Array, ""]
    passes: Array  # Passes over the data so far.


def init_mm(
    layout: Layout, family: Family, prior: WeakPrior, point: tuple[Array, Array, Array]
) -> MMState:
    """Return the initial state."""
    terms = family.terms(layout.predictor(*point), layout.successes, layout.trials)
    # First over items: a sum of a million cells in 32 bits is off by as much as a step changes it.
    of_subjects = layout.over_items(terms.log_likelihood, jnp.ones_like(point[1]))
    loss = prior.loss(*point) - of_subjects.sum()
    return MMState(point, terms.score, loss, jnp.array(1))


def mm_step(layout: Layout, family: Family, prior: WeakPrior, state: MMState) -> MMState:
    """Update a, then d, then θ, each by weighted least squares on the same working response.

    The working response is Ỹ = η + 4 s/n on observed cells with weights n. Every sum of n Ỹ is a
    sum of n η, which is linear in the parameters, plus a sum of 4 s, so Ỹ itself is never formed. A
    prior of precision λ adds 4λ to the weights, as the surrogate's curvature is a quarter.
    """
    theta, a, d = state.point
    n, s = layout.trials, _CURVATURE * state.score
    weight = layout.over_subjects(n, jnp.ones_like(theta))
    weight_theta = layout.over_subjects(n, theta)
    weight_theta2 = layout.over_subjects(n, theta**2)
    new_a = jnp.maximum(
        0,
        _ratio(
            a * weight_theta2 + layout.over_subjects(s, theta),
            weight_theta2 + _CURVATURE * prior.a_precision,
            a,
        ),
    )
    new_d = _ratio(
        d * weight + (a - new_a) * weight_theta + layout.over_subjects(s, jnp.ones_like(theta)),
        weight + _CURVATURE * prior.d_precision,
        d,
    )
    new_theta = _ratio(
        theta * layout.over_items(n, new_a * a)
        + layout.over_items(n, new_a * (d - new_d))
        + layout.over_items(s, new_a),
        layout.over_items(n, new_a**2) + _CURVATURE * prior.theta_precision,
        theta,
    )
    following = init_mm(layout, family, prior, (new_theta, new_a, new_d))
    return following._replace(passes=state.passes + 1)


def _ratio(numerator: Array, denominator: Array, otherwise: Array) -> Array:
    defined = denominator > 0
    return jnp.where(defined, numerator / jnp.where(defined, denominator, 1), otherwise)

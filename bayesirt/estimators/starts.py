"""Where estimators start."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses

Point = tuple[Float[Array, " subject"], Float[Array, " item"], Float[Array, " item"]]

_ALIKE = 1e-3
"""Abilities with a smaller standard deviation than this are equal but for rounding."""


def logit_start(responses: Responses) -> Point:
    """Return (θ, a, d) from the logits of the proportions correct: standardised θ, a = 1."""
    rows, columns = (responses.cells.totals(axis) for axis in (1, 0))
    row_logits, column_logits = (
        jnp.log((t.successes + 0.5) / (t.trials - t.successes + 0.5)) for t in (rows, columns)
    )
    shift, scale = to_standard(row_logits)
    return (row_logits + shift) / scale, jnp.ones(responses.n_items), column_logits


def to_standard(theta: Array) -> tuple[Array, Array]:
    """Return the shift and the scale that standardise abilities; equal abilities keep scale 1."""
    spread = theta.std()
    return -theta.mean(), jnp.where(
        spread > _ALIKE * jnp.maximum(jnp.abs(theta).max(), 1), spread, 1
    )

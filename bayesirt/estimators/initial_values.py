"""Initial values of estimators."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.likelihood.host_arrays import host

Point = tuple[Float[Array, " subject"], Float[Array, " item"], Float[Array, " item"]]

_ALIKE = 1e-3
"""Abilities with a smaller standard deviation than this are equal except for rounding."""


def logit_start(responses: Responses) -> Point:
    """Return (θ, a, d) from the logits of the proportions correct: standardised θ, a = 1.

    Computed in NumPy, as JAX would compile each operation separately.
    """
    dtype = jnp.result_type(float)
    rows, columns = (responses.cells.totals(axis) for axis in (1, 0))
    row_logits, column_logits = (
        np.log((t.successes + 0.5) / (t.trials - t.successes + 0.5)) for t in (rows, columns)
    )
    shift, scale = to_standard(row_logits)
    start = (row_logits + shift) / scale, np.ones(responses.n_items), column_logits
    theta, a, d = (host(x, dtype) for x in start)
    return theta, a, d


def to_standard(theta: NDArray[np.floating]) -> tuple[float, float]:
    """Return the shift and the scale that standardise abilities; equal abilities keep scale 1."""
    spread = float(theta.std())
    return -float(theta.mean()), spread if spread > _ALIKE * max(np.abs(theta).max(), 1) else 1.0

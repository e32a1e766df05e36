"""The weak prior that keeps joint point estimates finite."""

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WeakPrior:
    """Precisions of independent normal priors; the prior of a is truncated at 0.

    Attributes
    ----------
    theta_precision, a_precision, d_precision : float
        1/variance. The defaults correspond to standard deviations of 1, 2 and 5.
    """

    theta_precision: float = 1.0
    a_precision: float = 0.25
    d_precision: float = 0.04

    def loss(
        self,
        theta: Float[Array, " subject"],
        a: Float[Array, " item"],
        d: Float[Array, " item"],
    ) -> Float[Array, ""]:
        """Return the negative log density, up to a constant."""
        return 0.5 * (
            self.theta_precision * (theta**2).sum()
            + self.a_precision * (a**2).sum()
            + self.d_precision * (d**2).sum()
        )


FLAT = WeakPrior(0.0, 0.0, 0.0)
"""No prior at all, as in Qu et al. (2026)."""

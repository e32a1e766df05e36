"""Tail probabilities of standardised sums, and lists with false-discovery control."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.checks.fit.cell_residuals import Draw, Draws

_NEARLY_NORMAL = 1e-3
LEAST_SHARE = 0.3
"""Least share of a statistic's variance that must be left with unknown parameters, for a test."""


class StandardisedSums(NamedTuple):
    """Sums over draws of a statistic that is about N(0, 1) at each draw if the model holds."""

    # Sums of z and of z².
    z: Float[Array, "..."]
    square: Float[Array, "..."]

    @classmethod
    def none(cls, shape: tuple[int, ...], dtype: Any) -> "StandardisedSums":
        """Return the sums over no draws."""
        return cls(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

    def add(self, z: Float[Array, "..."]) -> "StandardisedSums":
        """Return the sums with another draw added."""
        return StandardisedSums(self.z + z, self.square + z**2)

    def variance(self, n_draws: int | Array) -> Float[Array, "..."]:
        """Return the variance of z over draws; 0 for a single one."""
        beyond = self.square - self.z**2 / n_draws
        return jnp.maximum(beyond, 0) / jnp.maximum(n_draws - 1, 1)

    def share(self, n_draws: int | Array) -> Float[Array, "..."]:
        """Return the variance of the mean over draws if the model holds."""
        n = jnp.asarray(n_draws, self.z.dtype)
        return 1 - self.variance(n_draws) * (1 - 1 / n)

    def deviate(self, n_draws: int | Array) -> Float[Array, "..."]:
        """Return the mean over draws, standardised.

        A draw from the posterior and the true parameters are exchangeable given the data. So the
        variance of z, which is 1 at either, is the sum of its variance v over the posterior and
        that of its mean: z̄ has the variance 1 - v, plus v / S with S draws. Without this, tail
        probabilities averaged over the posterior are too close to one half.

        Meng 1994; Robins, van der Vaart & Ventura 2000.

        >>> z = jnp.array([1.0, 2.0] * 8)
        >>> round(float(StandardisedSums(z.sum(), (z**2).sum()).deviate(16)), 3)
        1.732
        """
        share = self.share(n_draws)
        z = self.z / n_draws / jnp.sqrt(jnp.maximum(share, LEAST_SHARE))
        return jnp.where(share >= LEAST_SHARE, z, jnp.nan)


def over_draws(
    at_draw: Callable[[Draw], Sequence[Array]], draws: Draws
) -> tuple[StandardisedSums, Array]:
    """Return the sums of the first statistic over draws, and the means of the others."""
    one, *more = jax.eval_shape(at_draw, jax.tree.map(lambda x: x[0], draws.each))

    def add(total: tuple[StandardisedSums, Array], draw: Draw) -> tuple[StandardisedSums, Array]:
        z, *others = at_draw(draw)
        return total[0].add(z), total[1] + jnp.stack(others)

    dtype = draws.each.a.dtype
    nothing = StandardisedSums.none(one.shape, dtype), jnp.zeros((len(more), *one.shape), dtype)
    sums, others = draws.added(add, nothing)
    return sums, others / draws.n


@jax.jit
def to_normal(z: Float[Array, "..."], skewness: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the normal deviate that is about as far out as a standardised, skewed sum.

    (6 / γ) ((1 + γ z / 2)^⅓ - 1) + γ / 6, the cube root that makes a gamma distribution with
    skewness γ nearly normal; beyond the end of that distribution the deviate is constant.

    Wilson & Hilferty 1931.

    >>> round(float(to_normal(jnp.array(3.0), jnp.array(0.0))), 3)
    3.0
    >>> round(float(to_normal(jnp.array(3.0), jnp.array(0.5))), 3)
    2.544
    """
    flat = jnp.abs(skewness) < _NEARLY_NORMAL
    g = jnp.where(flat, 1, skewness)
    cube = 6 / g * (jnp.cbrt(jnp.maximum(1 + g * z / 2, 0)) - 1) + g / 6
    return jnp.where(flat, z - skewness / 6 * (z**2 - 1), cube)


def adjusted(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted for the false-discovery rate (Benjamini & Hochberg 1995).

    >>> adjusted(np.array([0.01, np.nan, 0.5])).tolist()
    [0.02, nan, 0.5]
    """
    p_adjusted = np.full_like(p, np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # nan comes last
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    p_adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return p_adjusted

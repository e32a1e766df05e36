"""The normal model's own: where its chains start."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.inference.graded_moves import SHORT
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.starts import LEAST_SLOPE, Start, place_leaning, place_population, usable
from bayesirt.likelihood.cell_sums import Layout
from bayesirt.likelihood.normal import SPAN
from bayesirt.point_estimate import PointEstimate

_LEAST_NOISE = 0.1
_NARROW = 0.2
"""How far apart chains start in the logarithms of slopes and noise."""


class ByLines(OneAbility):
    """The normal model: noise that is far off needs short steps to get near."""

    short_step = SHORT

    def start(self, point: PointEstimate, data: Any) -> Start:
        """Return where chains start: at each item's regression on the abilities of an estimate."""
        start = super().start(point, data)
        a, d, noise = np.asarray(
            _regressions(self.layout(data), jnp.asarray(point["theta"])), np.float64
        )
        slopes, d_se, narrow = self.model.priors.slopes, usable(point["d_se"]), _NARROW + 0 * a
        start[0].update(noise=np.log(noise), mu_noise=np.log(noise).mean())
        start[1].update(noise=narrow)
        if slopes == "rasch":
            place_population(start, "d", d, d_se)
            return start
        a = np.maximum(a, LEAST_SLOPE)
        free = slopes == "free"
        place_population(start, "a", a if free else np.log(a), narrow * (a if free else 1))
        place_leaning(start, "d", d, d_se, ("mu_b", a))
        return start


def _regressions(data: Layout, theta: Float[Array, " subject"]) -> Float[Array, "3 item"]:
    """Return the slope, intercept and error of each item's least squares, drawn towards nil."""
    centred = jnp.nan_to_num(theta - jnp.nanmean(theta))

    def summed(layout: Layout, theta: Array) -> tuple[tuple[()], Array]:
        seen = (layout.trials > 0) * jnp.ones((), theta.dtype)
        z = seen * SPAN * (layout.successes / jnp.maximum(layout.trials, 1) - 0.5)
        one = jnp.ones_like(theta)
        pairs = (seen, one), (seen, theta), (seen, theta**2), (z, one), (z, theta), (z**2, one)
        return (), jnp.stack([layout.over_subjects(x, power) for x, power in pairs])

    n, t, tt, z, zt, zz = data.by_rows(summed, centred)[1]
    n = jnp.maximum(n, 1)
    a = (zt - z * t / n) / (tt - t**2 / n + 1)
    d = (z - a * t) / n
    left = (zz - 2 * a * zt - 2 * d * z + a**2 * tt + 2 * a * d * t + n * d**2) / n
    return jnp.stack([a, d, jnp.sqrt(jnp.maximum(left, _LEAST_NOISE**2))])

"""Items whose proportion correct does not rise with ability as the model expects."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from scipy.special import ndtr

from bayesirt.checks.fit.cell_residuals import Counts, Draw, Draws, residuals, with_room
from bayesirt.checks.fit.tail_probabilities import adjusted, over_draws, to_normal
from bayesirt.posterior import Posterior

LEAST_INFORMATION = 10.0
"""Least information about an item's intercept for a test: about forty answers at even odds."""
_MOST_SKEWNESS = 1.0
_MOST_DRAWS, _CELL_DRAWS = 200, 100_000_000
_QUARTER = 0.25


def item_fit(posterior: Posterior, *, q: float = 0.1) -> pd.DataFrame:
    """Compare each item's answers at low, middle and high abilities with the model's expectation.

    One row per item, in the order of the data: `item`, `z` (standardised mean over draws), `p`
    (two-sided), `p_adjusted` for all items, `low_excess` and `high_excess` (observed minus
    expected proportion correct at low and at high abilities, the ends that each hold a quarter of
    the information on the item), `direction` and `misfits`. NaN where there is too little to test.
    Directions are "both ends better" (weak subjects do better than expected, for example by
    guessing, or the ablest do), "both ends worse", and, with fixed slopes, "flatter" and "steeper"
    than in the model.

    At each draw z = Σ_i c_i s_ij / √(Σ_i c_i² w_ij), where c is made orthogonal, with weights w, to
    the scores of the item's own slope and intercept, so z hardly depends on their draw. With u_i
    the share of the information on the item at and below the ability of subject i, scaled from -1
    to 1, c starts as u², so that z > 0 if both ends are answered better than the middle. With fixed
    slopes, c starts as θ and is orthogonal only to the intercept's score. z is corrected for
    skewness, and its mean over draws (at most 200) is divided by its standard deviation if the
    model holds.

    Rubin 1984; Gelman, Meng & Stern 1996; Glas 1999 (scores orthogonal to the item's own).
    """
    counts, draws = with_room(posterior, min(_MOST_DRAWS, _CELL_DRAWS / posterior.trials.size))
    fixed = bool(np.ptp(posterior.draws("a")) == 0)
    statistics = _over_draws(posterior.link, fixed, counts, draws)
    n_items = len(posterior.items)
    z, skewness, information, low, high = (np.asarray(x, np.float64)[:n_items] for x in statistics)
    tested = (information >= LEAST_INFORMATION) & (skewness <= _MOST_SKEWNESS) & np.isfinite(z)
    z = np.where(tested, z, np.nan)
    p = 2 * ndtr(-np.abs(z))
    of_all = adjusted(p)
    up, down = ("steeper", "flatter") if fixed else ("both ends better", "both ends worse")
    return pd.DataFrame(
        {
            "item": posterior.items,
            "z": z,
            "p": p,
            "p_adjusted": of_all,
            "low_excess": low,
            "high_excess": high,
            "direction": np.where(tested, np.where(z > 0, up, down), ""),
            "misfits": of_all <= q,
        }
    )


class _Found(NamedTuple):
    """Statistics of each item."""

    z: Float[Array, " item"]
    skewness: Float[Array, " item"]
    information: Float[Array, " item"]
    low_excess: Float[Array, " item"]
    high_excess: Float[Array, " item"]


@partial(jax.jit, static_argnums=(0, 1))
def _over_draws(link: str, fixed: bool, counts: Counts, draws: Draws) -> _Found:
    """Return the standardised mean of z, and the means of the other statistics."""
    sums, others = over_draws(partial(_at_draw, link, fixed, counts), draws)
    return _Found(sums.deviate(draws.n), *others)


def _at_draw(link: str, fixed: bool, counts: Counts, draw: Draw) -> _Found:
    order = jnp.argsort(draw.theta)
    counts = Counts(*(x[order] for x in counts))
    draw = draw._replace(theta=draw.theta[order])
    cells = residuals(link, counts, draw)
    below = _share_below(cells.weight)
    c = _contrast(cells.weight, below, draw.theta, fixed)
    variance = (c**2 * cells.weight).sum(0)
    z = (c * cells.score).sum(0) / jnp.sqrt(variance)
    skewness = (c**3 * cells.third).sum(0) / variance**1.5
    ends = [
        jnp.where(end, cells.excess, 0).sum(0)
        / jnp.maximum(jnp.where(end, counts.trials, 0).sum(0), 1)
        for end in (below <= _QUARTER, below >= 1 - _QUARTER)
    ]
    return _Found(to_normal(z, skewness), jnp.abs(skewness), cells.weight.sum(0), *ends)


def _share_below(weight: Float[Array, "subject item"]) -> Float[Array, "subject item"]:
    """Return the share of an item's information below each subject, counting half of its own."""
    total = jnp.cumsum(weight, 0)
    return (total - weight / 2) / jnp.maximum(total[-1], jnp.finfo(weight.dtype).tiny)


def _contrast(
    weight: Float[Array, "subject item"],
    below: Float[Array, "subject item"],
    theta: Float[Array, " subject"],
    fixed: bool,
) -> Float[Array, "subject item"]:
    """Return c, orthogonal to the scores of the item's own parameters."""
    total = jnp.maximum(weight.sum(0), jnp.finfo(weight.dtype).tiny)
    slope = theta[:, None] - (theta @ weight) / total
    if fixed:
        return slope
    c = (2 * below - 1) ** 2
    c -= (weight * c).sum(0) / total
    square = jnp.maximum((weight * slope**2).sum(0), jnp.finfo(weight.dtype).tiny)
    return c - slope * ((weight * slope * c).sum(0) / square)

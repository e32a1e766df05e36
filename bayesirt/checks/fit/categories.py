"""Whether each item gets each grade (or no, a partial, the full score) as often as expected."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from scipy.special import ndtr

from bayesirt.checks.fit.cell_residuals import Counts, Draw, Draws, with_room
from bayesirt.checks.fit.tail_probabilities import (
    LEAST_SHARE,
    adjusted,
    over_draws,
    to_normal,
)
from bayesirt.data.scales import Scale
from bayesirt.likelihood.normal import NORMAL
from bayesirt.names import one_line
from bayesirt.posterior import Posterior

LEAST_VARIANCE = 1.0
"""Least variance of the number of answers with a grade, for a test."""
_MOST_DRAWS, _CELL_DRAWS = 200, 100_000_000


def category_fit(posterior: Posterior, *, q: float = 0.1) -> pd.DataFrame | None:
    """Compare how often each item gets each grade with what the model expects.

    One row per item and grade, in the order of the data: `item`, `grade` (for scores in [0, 1]
    "0", "inside" and the full score), shares `observed` and `expected`, posterior predictive `p`
    (two-sided; NaN where there is too little to test), and `misfits`, the same for all grades of an
    item. None if answers are neither grades nor such scores, or the model of scores is normal, in
    which 0 and the full score have no probability of their own.

    At each draw z is the observed minus the expected number of answers with the grade, standardised
    and made normal. Its mean over draws is divided by its standard deviation under the model, which
    is bounded below through `LEAST_SHARE`: for graded answers an item's own thresholds absorb most
    of the variance, and p is then too large. An item's p is the least of its grades, corrected by
    Bonferroni within the item and by Benjamini & Hochberg over items.
    """
    scale = posterior.answers
    if scale is None or scale.kind not in ("graded", "continuous") or posterior.link == NORMAL.name:
        return None
    names = _grades(scale)
    most = min(_MOST_DRAWS, _CELL_DRAWS / posterior.trials.size)
    seen = np.asarray(posterior.trials) > 0
    statistics = _over_draws(posterior.link, *with_room(posterior, most))
    n_items = len(posterior.items)
    z, variance, expected, observed = (np.asarray(x, np.float64)[:, :n_items] for x in statistics)
    p = np.where(variance >= LEAST_VARIANCE, 2 * ndtr(-np.abs(z)), np.nan)
    tested = np.isfinite(p)
    least = np.where(tested, p, 2).min(0) * tested.sum(0)
    misfits = adjusted(np.where(tested.any(0), np.minimum(least, 1), np.nan)) <= q
    size = np.maximum(seen.sum(0), 1)
    return pd.DataFrame(
        {
            "item": np.repeat(np.asarray(posterior.items, object), len(names)),
            "grade": np.tile(np.asarray(names, object), n_items),
            "observed": (observed / size).T.ravel(),
            "expected": (expected / size).T.ravel(),
            "p": p.T.ravel(),
            "misfits": np.repeat(misfits, len(names)),
        }
    )


def categories_in_words(table: pd.DataFrame | None, scale: Scale | None) -> str:
    """Return a sentence on how many items have grades more or less often than expected."""
    if table is None or scale is None or not table["misfits"].any():
        return ""
    of_items = table.groupby("item", sort=False)["misfits"].first()
    worst = table.loc[table.loc[table["misfits"], "p"].idxmin()]
    clause = "grades occur" if scale.kind == "graded" else f"scores of 0 or {scale.full:g} occur"
    return (
        f"On {of_items.sum():,} of {len(of_items):,} items {clause} more or less often than the "
        f"model expects, most clearly on {one_line(str(worst['item']), 60)}: {worst['grade']} in "
        f"{worst['observed']:.0%} of answers, {worst['expected']:.0%} expected."
    )


def misfitting(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of items that misfit, the clearest first."""
    return table[table["misfits"] & table["p"].notna()].sort_values("p", kind="stable")


def _grades(scale: Scale) -> tuple[str, ...]:
    return scale.labels if scale.kind == "graded" else ("0", "inside", f"{scale.full:g}")


@partial(jax.jit, static_argnums=0)
def _over_draws(link: str, counts: Counts, draws: Draws) -> tuple[Float[Array, "grade item"], ...]:
    """Return z of each grade, and the variance, expectation and observed value of its count."""
    seen = counts.trials > 0

    def at_draw(draw: Draw) -> tuple[Array, ...]:
        law = draw.answers(link).law
        assert law is not None
        assert law.levels is not None
        levels = law.levels(draw.theta[:, None] * draw.a + draw.d)
        one = jnp.ones(seen.shape, draw.a.dtype)
        reached = jnp.stack([one, *(p for _, p in levels), 0 * one])
        least = jnp.array([0, *(y for y, _ in levels)])
        at = jnp.searchsorted(least, counts.successes, side="right") - 1
        observed = jnp.stack([(seen & (at == k)).sum(0) for k in range(len(levels) + 1)])
        p = jnp.where(seen, reached[:-1] - reached[1:], 0)
        expected, variance = p.sum(1), jnp.maximum((p * (1 - p)).sum(1), 1e-9)
        skewness = (p * (1 - p) * (1 - 2 * p)).sum(1) / variance**1.5
        z = to_normal((observed - expected) / jnp.sqrt(variance), skewness)
        return z, variance, expected, 1.0 * observed

    sums, others = over_draws(at_draw, draws)
    z = sums.z / draws.n / jnp.sqrt(jnp.maximum(sums.share(draws.n), LEAST_SHARE))
    return z, *others

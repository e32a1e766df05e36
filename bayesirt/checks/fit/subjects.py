"""Subjects that miss easy items and get hard ones right, given their ability."""

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

_MOST_DRAWS, _CELL_DRAWS = 200, 100_000_000
_MOST_SKEWNESS = 1.5
"""A sum that is more skewed than this depends on few answers and is not tested."""


def person_fit(posterior: Posterior, *, q: float = 0.1) -> pd.DataFrame:
    """Compare each subject's answers to easy and hard items with those its ability predicts.

    One row per subject, in the order of the data: `subject`, `z` (standardised log likelihood; low
    if answers are odd), `p` of answers at least as odd, `p_adjusted` for all subjects,
    `easy_excess` and `hard_excess` (observed minus expected proportion correct on items with
    probabilities above and below one half) and `misfits`. NaN where there is too little to test.

    At each draw z = Σ_j c_j s_ij / √(Σ_j c_j² w_ij), where s is the score of each cell and c the
    log odds p / (1 - p) in units of s, made orthogonal to the score of the ability: z is then the
    standardised log likelihood and hardly depends on the draw of θ. z is corrected for skewness,
    and its mean over draws (at most 200) is divided by its standard deviation if the model holds.

    Drasgow, Levine & Williams 1985; Snijders 2001 (estimated abilities); Glas & Meijer 2003.
    """
    most = min(_MOST_DRAWS, _CELL_DRAWS / posterior.trials.size)
    statistics = _over_draws(posterior.link, *with_room(posterior, most))
    n_subjects = len(posterior.subjects)
    z, skewness, easy, hard = (np.asarray(x, np.float64)[:n_subjects] for x in statistics)
    z = np.where(np.isfinite(z) & (np.abs(skewness) <= _MOST_SKEWNESS), z, np.nan)
    p = ndtr(z)
    of_all = adjusted(p)
    return pd.DataFrame(
        {
            "subject": posterior.subjects,
            "z": z,
            "p": p,
            "p_adjusted": of_all,
            "easy_excess": easy,
            "hard_excess": hard,
            "misfits": of_all <= q,
        }
    )


class _Found(NamedTuple):
    """Statistics of each subject."""

    z: Float[Array, " subject"]
    skewness: Float[Array, " subject"]
    easy_excess: Float[Array, " subject"]
    hard_excess: Float[Array, " subject"]


@partial(jax.jit, static_argnums=0)
def _over_draws(link: str, counts: Counts, draws: Draws) -> _Found:
    """Return the standardised mean of z, and the means of the other statistics."""
    sums, others = over_draws(partial(_at_draw, link, counts), draws)
    return _Found(sums.deviate(draws.n), *others)


def _at_draw(link: str, counts: Counts, draw: Draw) -> _Found:
    cells = residuals(link, counts, draw)
    # In units of s: for one trial, variance over slope is one over the step from wrong to right.
    odds = cells.odds
    c = odds * jnp.where(cells.slope > 0, cells.variance / cells.slope, 0)
    weighted = cells.weight * draw.a
    c -= draw.a * ((weighted * c).sum(1) / (weighted @ draw.a))[:, None]
    variance = (c**2 * cells.weight).sum(1)
    z = (c * cells.score).sum(1) / jnp.sqrt(variance)
    skewness = (c**3 * cells.third).sum(1) / variance**1.5
    ends = [
        jnp.where(side, cells.excess, 0).sum(1)
        / jnp.maximum(jnp.where(side, counts.trials, 0).sum(1), 1)
        for side in (odds > 0, odds <= 0)
    ]
    return _Found(to_normal(z, skewness), skewness, *ends)

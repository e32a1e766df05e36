"""Wide tables: a check of fit needs neither all subjects there nor many draws."""

import numpy as np
from jaxtyping import Array

from bayesirt.posterior import Posterior
from bayesirt.random_keys import host_random

WIDE = 2_000_000
"""Cells, observed or not, above which a part is checked."""
MOST_SUBJECTS, FEW_DRAWS = 2_000, 20


def is_wide(posterior: Posterior) -> bool:
    """Return whether a part of the table is checked in its place."""
    return posterior.trials.size > WIDE


def few_subjects(posterior: Posterior, key: Array) -> Posterior:
    """Return the posterior of at most 2,000 subjects, drawn at random."""
    n = len(posterior.subjects)
    drawn = host_random(key).permutation(n)[:MOST_SUBJECTS]
    return Posterior(posterior.tree.isel(subject=np.sort(drawn), missing_dims="ignore"))


def few_draws(posterior: Posterior) -> Posterior:
    """Return the posterior with about 20 draws, evenly from each chain.

    Statistics of a check of fit hardly move over draws where answers are many; how much they do is
    estimated from the same draws, and `bayesirt.checks.fit.tail_probabilities` allows for their
    number.
    """
    chains, draws, _ = posterior["theta"].shape
    kept = min(draws, -(-FEW_DRAWS // chains))
    places = (2 * np.arange(kept) + 1) * draws // (2 * kept)
    return Posterior(posterior.tree.isel(draw=places, missing_dims="ignore"))

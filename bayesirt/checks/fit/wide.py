"""Wide tables, for which a fit check needs neither all subjects nor many draws."""

import numpy as np
from jaxtyping import Array

from bayesirt.posterior import Posterior
from bayesirt.random_keys import host_random

WIDE = 2_000_000
"""Number of cells, observed or not, above which only a part is checked."""
MOST_SUBJECTS, FEW_DRAWS = 2_000, 20


def is_wide(posterior: Posterior) -> bool:
    """Return whether only a part of the table is checked."""
    return posterior.trials.size > WIDE


def few_subjects(posterior: Posterior, key: Array) -> Posterior:
    """Return the posterior of at most 2,000 subjects, drawn at random."""
    n = len(posterior.subjects)
    drawn = host_random(key).permutation(n)[:MOST_SUBJECTS]
    return Posterior(posterior.tree.isel(subject=np.sort(drawn), missing_dims="ignore"))


def few_draws(posterior: Posterior) -> Posterior:
    """Return the posterior with about 20 draws, evenly from each chain.

    Fit statistics hardly vary over draws if answers are many. How much they do is estimated from
    the same draws, and `bayesirt.checks.fit.tail_probabilities` accounts for their number.
    """
    chains, draws, _ = posterior["theta"].shape
    n_kept = min(draws, -(-FEW_DRAWS // chains))
    places = (2 * np.arange(n_kept) + 1) * draws // (2 * n_kept)
    return Posterior(posterior.tree.isel(draw=places, missing_dims="ignore"))

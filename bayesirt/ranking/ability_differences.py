"""Differences of two abilities, and what their draws say of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesirt.posterior import TAILS, Posterior
from bayesirt.ranking.chain_bounds import chains_of, supported


class Differences(NamedTuple):
    """Draws of a difference."""

    draws: NDArray[np.floating]  # shape (chain, draw)
    sound: bool  # False if the draws of the posterior are not.


def differences(posterior: Posterior, name: str, one: int, other: int) -> Differences:
    """Return draws of the difference of two abilities, on the scale that is reported."""
    draws = posterior.reported[name]
    return Differences(draws[..., one] - draws[..., other], posterior.verdict.sound)


def difference_columns(apart: Differences) -> tuple[float, float, float, float]:
    """Return P(above 0) of a difference, its mean and its 90% interval."""
    chains = apart.draws.reshape(1, -1) if apart.sound else chains_of(apart.draws)
    above = (chains > 0).mean(1)
    p_above = above if apart.sound else supported(above[:, None], of_pairs=True)
    low, high = np.quantile(chains, TAILS, axis=1)
    return float(p_above[0]), float(apart.draws.mean()), float(low.min()), float(high.max())

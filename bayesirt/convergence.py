"""R-hat and effective draws of many quantities at once, as ArviZ has them one after another.

Vehtari et al. 2021, doi:10.1214/20-BA1221. NumPyro takes long to import and is imported where it is
used: a finished run is read without it.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

Draws = NDArray[np.floating]  # shape (chain, draw, quantity).
_TAILS = 0.05, 0.95
_FEWEST = 4
_AT_ONCE = 1 << 18
"""Numbers that a thread works on: NumPy, pandas and SciPy let go of the interpreter."""


class Convergence(NamedTuple):
    """How far each quantity has converged."""

    r_hat: NDArray[np.float64]  # The larger of that of the bulk and that of the tails.
    ess_bulk: NDArray[np.float64]
    ess_tail: NDArray[np.float64]  # The fewer of those of the 5% and the 95% quantile.


def convergence(draws: Draws) -> Convergence:
    """Return how far quantities have converged, each by itself; nan with fewer than four draws."""
    n_chains, n_draws, n = draws.shape
    if n_draws < _FEWEST or n == 0:
        return Convergence(*np.full((3, n), np.nan))
    size = max(1, _AT_ONCE // (n_chains * n_draws))
    batches = (draws[..., k : k + size] for k in range(0, n, size))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(_of_batch, batches)
        return Convergence(*map(np.concatenate, zip(*found, strict=True)))


def _of_batch(draws: Draws) -> Convergence:
    from numpyro.diagnostics import gelman_rubin

    halves = _halves(draws)
    scores = _normal_scores(halves)
    folded = _normal_scores(np.abs(halves - np.median(halves, (0, 1))))
    ends = np.quantile(draws, _TAILS, (0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return Convergence(
            np.maximum(gelman_rubin(scores), gelman_rubin(folded)),
            _effective(scores),
            np.min([_effective((halves <= end).astype(float)) for end in ends], 0),
        )


def _halves(draws: Draws) -> Draws:
    """Return halves of chains as chains, without the draw in the middle of an odd number."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Draws) -> Draws:
    """Return what a normal sample of as many is expected to have at the ranks of each quantity."""
    flat = draws.reshape(-1, draws.shape[-1])
    ranks = pd.DataFrame(flat).rank().to_numpy()
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape)


def _effective(draws: Draws) -> NDArray[np.float64]:
    """Return effective draws; where draws swing about their mean, n log n at most, of n."""
    from numpyro.diagnostics import effective_sample_size

    n = draws.shape[0] * draws.shape[1]
    found, most = effective_sample_size(draws), n * np.log10(n)
    found = np.where((found <= 0) | (found > most), most, found)
    return np.where(np.ptp(draws, (0, 1)) == 0, n, found)

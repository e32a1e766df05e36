"""Vectorised R-hat and effective sample size, with the same results as ArviZ.

Vehtari et al. 2021, doi:10.1214/20-BA1221. NumPyro is slow to import, so it is imported only where
it is used: a finished run can be read without it.
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
"""Numbers per batch and thread; NumPy, pandas and SciPy release the interpreter lock."""


class Convergence(NamedTuple):
    """Convergence diagnostics of each quantity."""

    r_hat: NDArray[np.float64]  # The larger of bulk and tail R-hat.
    ess_bulk: NDArray[np.float64]
    ess_tail: NDArray[np.float64]  # The smaller of those of the 5% and the 95% quantile.


def convergence(draws: Draws) -> Convergence:
    """Return convergence diagnostics of each quantity; nan with fewer than four draws."""
    n_chains, n_draws, n = draws.shape
    if n_draws < _FEWEST or n == 0:
        return Convergence(*np.full((3, n), np.nan))
    size = max(1, _AT_ONCE // (n_chains * n_draws))
    batches = (draws[..., k : k + size] for k in range(0, n, size))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(_of_batch, batches)
        return Convergence(*map(np.concatenate, zip(*results, strict=True)))


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
    """Split each chain into two; the middle draw of an odd number is dropped."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Draws) -> Draws:
    """Return the rank-normalised draws of each quantity."""
    flat = draws.reshape(-1, draws.shape[-1])
    ranks = pd.DataFrame(flat).rank().to_numpy()
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape)


def _effective(draws: Draws) -> NDArray[np.float64]:
    """Return the effective sample size, at most n log10(n), the limit for antithetic chains."""
    from numpyro.diagnostics import effective_sample_size

    n = draws.shape[0] * draws.shape[1]
    sizes, most = effective_sample_size(draws), n * np.log10(n)
    sizes = np.where((sizes <= 0) | (sizes > most), most, sizes)
    return np.where(np.ptp(draws, (0, 1)) == 0, n, sizes)

"""Intervals of time horizons cover the true ones, also of few subjects."""

import numpy as np
import pandas as pd
import pytest
from made_posterior import of_four_chains as made
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.ranking.horizon import horizons

pytestmark = pytest.mark.statistical

N_TASKS, LEVEL, SLOPE, BESIDE = 80, 0.3, -0.6, 0.8


def intercepts_drawn(
    right: NDArray[np.int64],
    theta: NDArray[np.float64],
    a: NDArray[np.float64],
    sd: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return 400 exact draws of intercepts from N(LEVEL, sd) given answers and all else."""
    grid = np.linspace(-9, 9, 721)
    draws = []
    for answers, slope in zip(right.T, a, strict=True):
        chances = expit(slope * theta + grid[:, None])
        log_p = np.log(chances) @ answers + np.log1p(-chances) @ (1 - answers)
        density = np.exp(log_p - log_p.max() - ((grid - LEVEL) / sd) ** 2 / 2)
        draws.append(grid[np.searchsorted(density.cumsum() / density.sum(), rng.random(400))])
    return np.stack(draws, axis=1)


@pytest.mark.parametrize("n_subjects", [12, 40])
def test_horizons_are_held(n_subjects: int):
    """Bounds of 5 standard errors over 30 tables, in which subjects share a line and its error."""
    held, spread = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        theta, a = rng.normal(size=n_subjects), np.exp(0.3 * rng.normal(size=N_TASKS))
        x = 1.5 * rng.normal(size=N_TASKS)
        d = LEVEL + SLOPE * x + BESIDE * rng.normal(size=N_TASKS)
        right = rng.binomial(1, expit(a * theta[:, None] + d))
        of_items = intercepts_drawn(right, theta, a, np.hypot(SLOPE * 1.5, BESIDE), rng)
        of_subjects = rng.normal(theta, 0.01, (400, n_subjects))
        slopes = a * np.exp(rng.normal(0, 0.01, (400, N_TASKS)))
        posterior = made(of_subjects, slopes, of_items, right, np.ones_like(right))
        found = horizons(posterior, pd.Series(np.exp(x), index=posterior.items)).summary
        found = found.set_index("subject").loc[posterior.subjects]
        for chance, wanted in (("50", 0.0), ("80", np.log(4))):
            truth = (theta + LEVEL - wanted) / -SLOPE
            low, high = (np.log(found[f"horizon_{chance}_{end}"]) for end in ("low", "high"))
            held.append(np.mean((low <= truth) & (truth <= high)))
        spread.append(np.std(np.log(found["horizon_50"])) / np.std(theta / SLOPE))
    assert np.mean(held) > 0.9 - 5 * np.std(held) / np.sqrt(len(held))
    assert np.mean(spread) == pytest.approx(1, abs=5 * np.std(spread) / np.sqrt(len(spread)))

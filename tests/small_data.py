"""Small responses, sparse copies of them, and 32-bit arithmetic, used by many tests."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayesirt import Priors
from bayesirt.data.cells import SparseCells
from bayesirt.data.responses import Responses

PRIORS = [Priors(), Priors(slopes="free"), Priors(slopes="rasch"), Priors(kind="fixed")]
each_prior = pytest.mark.parametrize("priors", PRIORS, ids=Priors.describe)
EXTREMES = {
    "all right": np.ones((4, 3)),
    "all wrong": np.zeros((4, 3)),
    "equal scores": np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 1]]),
    "separated": np.tri(4, 3, -1),
    "half empty": np.where(np.eye(4, 3) > 0, 1, [[np.nan, 0, 1]]),
}
"""Answers with little information about some subject or item."""
each_extreme = pytest.mark.parametrize(
    ("priors", "y"),
    [(PRIORS[0], y) for y in EXTREMES.values()] + [(p, EXTREMES["separated"]) for p in PRIORS[1:]],
)


def masked_counts(n_subjects: int, n_items: int) -> Responses:
    """Return counts of one to four trials, about a third of the cells missing."""
    rng = np.random.default_rng(3)
    trials = rng.integers(1, 5, (n_subjects, n_items))
    trials = trials * (rng.uniform(size=trials.shape) < 0.7)
    trials[0], trials[:, 0] = 3, 2
    return Responses.from_arrays(rng.binomial(trials, 0.6), trials)


def model_counts(n_subjects: int, n_items: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return successes and one to five trials of the 2PL, about a third of the cells missing."""
    rng = np.random.default_rng(seed)
    theta, a = rng.normal(size=(n_subjects, 1)), np.exp(0.4 * rng.normal(size=n_items))
    p = expit(theta * a + rng.normal(size=n_items))
    trials = rng.integers(1, 6, p.shape) * (rng.uniform(size=p.shape) < 0.7)
    return rng.binomial(trials, p), trials


def as_sparse(responses: Responses) -> Responses:
    """Return the same responses stored as a list of cells."""
    return replace(responses, cells=SparseCells(*responses.cells.shape, responses.cells.listed()))


def in_32_bits() -> AbstractContextManager[None]:
    """Compute in 32 bits, which is JAX's default."""
    return jax.enable_x64(False)


def write_table(path: Path, rows: pd.DataFrame) -> Path:
    rows.to_parquet(path) if path.suffix == ".parquet" else rows.to_csv(path, index=False)
    return path

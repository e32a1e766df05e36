"""Simulated answers with several abilities, for tests of MIRT, FPC and dimension."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from bayesirt.data.responses import Responses
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.likelihood.cell_sums import DenseLayout


class Simulated(NamedTuple):
    """Answers and their true parameters."""

    responses: Responses
    theta: np.ndarray
    a: np.ndarray
    d: np.ndarray

    @property
    def eta(self) -> np.ndarray:
        return self.theta @ self.a.T + self.d


def simulated(
    n_subjects: int,
    n_items: int,
    n_abilities: int,
    seed: int = 0,
    *,
    trials: int = 1,
    missing: float = 0.0,
    mean: float = 0.0,
    sd: float = 1.0,
) -> Simulated:
    """Draw slopes around 1 for the first ability and around 0 for others, with sd .3 and .6."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n_items, n_abilities)) * 0.6
    a[:, 0] = 1 + a[:, 0] / 2
    d, theta = rng.normal(size=n_items), rng.normal(size=(n_subjects, n_abilities))
    theta[:, 0] = mean + sd * theta[:, 0]
    n = trials * (rng.uniform(size=(n_subjects, n_items)) >= missing)
    y = rng.binomial(n, 1 / (1 + np.exp(-(theta @ a.T + d))))
    return Simulated(Responses.from_arrays(y, n), theta, a, d)


def some_layout(n_subjects: int, n_items: int) -> DenseLayout:
    """Return counts of zero to two trials."""
    rng = np.random.default_rng(4)
    trials = rng.integers(0, 3, (n_subjects, n_items))
    successes = rng.binomial(trials, 0.6)
    return DenseLayout(jnp.asarray(successes, jnp.int8), jnp.asarray(trials, jnp.int8))


def known_of(
    data: Simulated, positions: np.ndarray, error: float = 0.0, seed: int = 0
) -> KnownItems:
    """Return the true items with normal calibration errors."""
    rng = np.random.default_rng(seed)
    n, k = len(positions), data.a.shape[1]
    off = error * rng.normal(size=(n, k + 1))
    return KnownItems(
        tuple(data.responses.items[j] for j in positions),
        data.a[positions] + off[:, :k],
        data.d[positions] + off[:, k],
        np.tile(error**2 * np.eye(k + 1), (n, 1, 1)),
    )


def rotated_to(a: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the rotation Q that brings a Q closest to the target (Procrustes)."""
    u, _, vt = np.linalg.svd(a.T @ target)
    return u @ vt

"""Intervals of abilities, slopes and intercepts hold the truth as often as they say."""

import jax
import numpy as np
import pytest

from bayesirt import RunOptions
from bayesirt.data.q_matrix import QMatrix
from bayesirt.inference.engines import sample_q_mirt
from bayesirt.profiles.simulation import simulate_q_mirt

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

REPLICATIONS = 6
NEEDS = np.kron(np.eye(3, dtype=int), np.ones((10, 1), int))
NEEDS[[0, 5, 10, 15, 20, 25], [1, 2, 0, 2, 0, 1]] = 1
Q = QMatrix.from_arrays(NEEDS)


def covered(draws: np.ndarray, truth: np.ndarray) -> float:
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return float(np.mean((low <= truth) & (truth <= high)))


def test_intervals_cover_the_truth_as_often_as_they_say():
    """The mean share over independent replications, at four of its own standard errors."""
    shares = []
    for key in jax.random.split(jax.random.key(5), REPLICATIONS):
        simulate_key, run_key = jax.random.split(key)
        simulation = simulate_q_mirt(100, Q, key=simulate_key, correlation=0.5)
        posterior = sample_q_mirt(
            simulation.responses,
            Q,
            key=run_key,
            options=RunOptions(num_chains=2, num_warmup=200, num_samples=300),
        )
        truth = {name: simulation.parameters[name].to_numpy() for name in ("theta", "a", "d")}
        shares.append({k: covered(posterior.draws(k), v) for k, v in truth.items()})
    for name in ("theta", "a", "d"):
        each = np.array([share[name] for share in shares])
        error = max(each.std(ddof=1) / np.sqrt(len(each)), 0.005)
        print(f"{name}: {each.mean():.3f} covered, error {error:.3f}")
        assert abs(each.mean() - 0.9) < 4 * error

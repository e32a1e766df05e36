"""Intervals of predictors, slopes, intercepts and abilities have their nominal coverage."""

import jax
import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import wishart

from bayesirt import Responses, RunOptions, fit_mirt, sample_mirt
from bayesirt.inference.mirt_moves import aligned_draws

pytestmark = pytest.mark.statistical

REPLICATIONS, N_SUBJECTS, N_ITEMS, K = 30, 60, 20, 2
FALSE_ALARMS = 1e-6
MOST_ERRORS = float(student.isf(FALSE_ALARMS / 2, REPLICATIONS - 1))


def from_prior(rng: np.random.Generator) -> tuple[Responses, dict[str, np.ndarray]]:
    """Draw parameters from the prior, independently of the model's code, and answers given them."""
    precision = wishart.rvs(K + 2, np.eye(K) / 0.5**2, random_state=rng)
    a = rng.multivariate_normal(rng.normal(size=K), np.linalg.inv(precision), N_ITEMS)
    d = 2 * rng.normal() + 2 * abs(rng.normal()) * rng.normal(size=N_ITEMS)
    theta = rng.normal(size=(N_SUBJECTS, K))
    y = rng.uniform(size=(N_SUBJECTS, N_ITEMS)) < 1 / (1 + np.exp(-(theta @ a.T + d)))
    return Responses.from_arrays(y.astype(int)), {"theta": theta, "a": a, "d": d}


def quantities(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return rotation-invariant quantities, and slopes and abilities in their present axes."""
    theta, a, d = (draws[name] for name in ("theta", "a", "d"))
    free = {"eta": theta @ np.swapaxes(a, -1, -2) + d[..., None, :]}
    return free | {"length": np.linalg.norm(a, axis=-1), "d": d, "a": a, "theta": theta}


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Compare mean coverage over replications with 90%, in its own standard errors (Student's t).

    With parameters from the prior, intervals of rotation-invariant quantities cover 90% on average.
    Slopes and abilities are first rotated to the axes of the true slopes, which the draws do not
    know, so their coverage may be slightly off; they are held to the same bound.
    """
    rng, shares = np.random.default_rng(5), []
    for key in jax.random.split(jax.random.key(5), REPLICATIONS):
        responses, truth = from_prior(rng)
        init = fit_mirt(responses, n_abilities=K, tolerance=1e-4)  # gives the start and the axes
        posterior = sample_mirt(
            responses,
            n_abilities=K,
            key=key,
            init=init,
            options=RunOptions(num_chains=2, num_warmup=200, num_samples=300),
        )
        draws = {name: posterior.draws(name) for name in truth}
        found, true = quantities(aligned_draws(draws, truth["a"])), quantities(truth)
        shares.append({name: covered(found[name], true[name]) for name in true})
    for name in shares[0]:
        each = np.array([share[name] for share in shares])
        error = each.std(ddof=1) / np.sqrt(len(each))
        print(f"{name}: {each.mean():.3f} covered, error {error:.3f}")
        assert abs(each.mean() - 0.9) < MOST_ERRORS * error


def covered(draws: np.ndarray, truth: np.ndarray) -> float:
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return float(np.mean((low <= truth) & (truth <= high)))

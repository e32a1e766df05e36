"""NUTS against importance sampling from the prior, which needs no gradient and no Markov chain.

Each case compares 15 means at 4 combined Monte Carlo errors, so a correct sampler fails a case with
a new key with probability 15 x 6e-5 = 0.1%. Three subjects leave a funnel, so steps are small.
"""

import jax
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import log_expit

from bayesirt import Priors, Responses, RunOptions
from bayesirt.inference.nuts import sample_nuts
from bayesirt.models import TwoPL

pytestmark = pytest.mark.statistical

BINARY = Responses.from_arrays([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
COUNTS = Responses.from_arrays([[3, 1, 0], [1, 0, 0], [2, 2, 1]], [[3, 2, 0], [2, 4, 1], [2, 3, 1]])
LEVEL = Responses.from_arrays([[1, 0, 1], [0, 1, 1], [1, 1, 0]])  # every score is equal
BLOCKS, BLOCK = 20, 100_000


def prior_draws(priors: Priors, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    theta, z_a, z_d = rng.normal(size=(3, BLOCK, 3))
    if priors.kind == "fixed":
        a = np.exp(0.5 * z_a)
        return theta, a, -a * 2 * z_d
    mu_a, sigma_a = 0.5 * rng.normal(size=(BLOCK, 1)), 0.5 * np.abs(rng.normal(size=(BLOCK, 1)))
    mu_d, sigma_d = 2 * rng.normal(size=(BLOCK, 1)), 2 * np.abs(rng.normal(size=(BLOCK, 1)))
    a = {"positive": np.exp(mu_a + sigma_a * z_a), "free": mu_a + sigma_a * z_a}.get(
        priors.slopes, np.ones_like(z_a)
    )
    mu_b = 0 if priors.slopes == "rasch" else 2 * rng.normal(size=(BLOCK, 1))
    return theta, a, mu_d - mu_b * a + sigma_d * z_d


def quantities(theta: np.ndarray, a: np.ndarray, d: np.ndarray) -> np.ndarray:
    return np.concatenate([theta, theta**2, np.arctan(a), np.arctan(d), theta * d], axis=-1)


def importance(responses: Responses, priors: Priors) -> tuple[np.ndarray, np.ndarray, float]:
    """Return posterior means, their standard errors and the effective sample size."""
    successes, trials = responses.cells.matrices()
    rng = np.random.default_rng(2024)
    weights, values = [], []
    for _ in range(BLOCKS):
        theta, a, d = prior_draws(priors, rng)
        eta = theta[:, :, None] * a[:, None] + d[:, None]
        log_likelihood = successes * log_expit(eta) + (trials - successes) * log_expit(-eta)
        supported = a.sum(1) > 0
        weights.append(np.exp(log_likelihood.sum((1, 2))) * supported)
        values.append(quantities(theta, a, d))
    weight, value = np.concatenate(weights), np.concatenate(values)
    weight /= weight.sum()
    mean = weight @ value
    return mean, np.sqrt(weight**2 @ (value - mean) ** 2), 1 / (weight**2).sum()


@pytest.mark.parametrize(
    ("responses", "priors"),
    [
        pytest.param(BINARY, Priors(), id="binary"),
        pytest.param(BINARY, Priors(kind="fixed"), id="binary fixed"),
        pytest.param(COUNTS, Priors(slopes="rasch"), id="counts rasch"),
        pytest.param(COUNTS, Priors(slopes="free"), id="counts free"),
        pytest.param(LEVEL, Priors(), id="equal scores"),
    ],
)
def test_posterior_means(responses, priors):
    expected, error, effective = importance(responses, priors)
    assert effective > 10_000
    posterior = sample_nuts(
        responses,
        key=jax.random.key(1),
        model=TwoPL(priors),
        options=RunOptions(num_samples=1000, target_accept=0.99),
    )
    values = quantities(*(posterior[name] for name in ("theta", "a", "d")))
    mcse = array_stats.mcse(values, method="mean", chain_axis=0, draw_axis=1)
    live = values.std((0, 1)) > 1e-9
    z = (values.mean((0, 1)) - expected)[live] / np.hypot(mcse, error)[live]
    assert np.abs(z).max() < 4

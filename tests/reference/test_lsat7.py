"""LSAT section 7: 1000 subjects x 5 items, with published maximum likelihood estimates.

The estimates assume θ ~ N(0, 1) and no prior on items. bayesirt's default prior pulls slopes to
their common centre, item 3's from 1.71 to 1.4 (σ_a is estimated as .3). So the sampler is compared
with the posterior under the default prior, with θ integrated out on a grid: a Markov chain over 14
parameters and 32 answer patterns. `test_marginal.py` reproduces the published estimates.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from arviz_stats.base import array_stats
from numpyro import plate, sample
from numpyro.distributions import HalfNormal, Normal
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

from bayesirt import Responses, RunOptions, sample_posterior
from bayesirt.likelihood.families import LOGIT

PATTERNS = np.array([list(f"{k:05b}") for k in range(32)], int)
COUNTS = np.array(
    [
        [12, 19, 1, 7, 3, 19, 3, 17, 10, 5, 3, 7, 7, 23, 8, 28],
        [7, 39, 11, 34, 14, 51, 15, 90, 6, 25, 7, 35, 18, 136, 32, 308],
    ]
).ravel()
PUBLISHED = {"a": [0.99, 1.08, 1.71, 0.77, 0.74], "d": [1.86, 0.81, 1.80, 0.49, 1.85]}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
AXES = {"chain_axis": 0, "draw_axis": 1}

pytestmark = pytest.mark.reference


def log_marginal(a: jax.Array, d: jax.Array) -> jax.Array:
    eta = NODES[:, None, None] * a + d
    given_theta = LOGIT.terms(eta, PATTERNS, np.ones_like(PATTERNS)).log_likelihood.sum(2)
    log_weights = np.log(WEIGHTS / WEIGHTS.sum())[:, None]
    return COUNTS @ jax.nn.logsumexp(log_weights + given_theta, axis=0)


def items_under_the_default_prior() -> tuple[jax.Array, jax.Array]:
    mu_a, sigma_a = sample("mu_a", Normal(0, 0.5)), sample("sigma_a", HalfNormal(0.5))
    mu_d, sigma_d = sample("mu_d", Normal(0, 2)), sample("sigma_d", HalfNormal(2))
    mu_b = sample("mu_b", Normal(0, 2))
    not_centred = {"log_a": LocScaleReparam(0)}
    with plate("item", 5), numpyro.handlers.reparam(config=not_centred):
        log_a = sample("log_a", Normal(mu_a, sigma_a))
        a = jnp.exp(log_a)
        return a, sample("d", Normal(mu_d - mu_b * a, sigma_d))


def grid_posterior(items) -> dict[str, np.ndarray]:
    def model():
        a, d = items()
        numpyro.deterministic("a", a)
        numpyro.factor("responses", log_marginal(a, d))

    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=500,
        num_samples=2000,
        num_chains=4,
        chain_method="parallel" if jax.local_device_count() >= 4 else "vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0))
    samples = mcmc.get_samples(group_by_chain=True)
    return {name: np.asarray(samples[name]) for name in ("a", "d")}


@pytest.mark.statistical
def test_default_posterior_is_the_one_without_subjects():
    """30 quantiles at 4 standard errors: a correct sampler fails with a new key once in 500."""
    expected = grid_posterior(items_under_the_default_prior)
    responses = Responses.from_arrays(np.repeat(PATTERNS, COUNTS, axis=0))
    assert responses.n_subjects == 1000
    options = RunOptions(num_warmup=300, num_samples=600)
    posterior = sample_posterior(responses, key=jax.random.key(0), options=options)
    assert posterior.verdict.sound, posterior.verdict.to_text()
    for name, published in PUBLISHED.items():
        for q in (0.05, 0.5, 0.95):
            sides = [draws[name] for draws in (posterior, expected)]
            errors = [array_stats.mcse(x, method="quantile", prob=q, **AXES) for x in sides]
            values = [np.quantile(x, q, axis=(0, 1)) for x in sides]
            z = (values[0] - values[1]) / np.hypot(*errors)
            print(f"{q:.0%} of {name}: {values[0].round(3)}, grid {values[1].round(3)}")
            assert np.abs(z).max() < 4
        far = np.abs(np.median(posterior.draws(name), 0) - published) > 0.15
        assert not far[[0, 1, 3, 4]].any()
    assert 1.2 < np.median(posterior.draws("a"), 0)[2] < 1.56

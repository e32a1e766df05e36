"""bayesirt's likelihood under another model's priors, against draws by Stan."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from arviz_stats.base import array_stats
from numpyro import deterministic, plate, sample
from numpyro.distributions import HalfCauchy, Normal
from numpyro.infer import MCMC, NUTS

from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.responses import Responses

STAN = json.loads((Path(__file__).parent / "stan_irt_2pl.json").read_text())
Y = np.array([list(map(int, row)) for row in STAN["responses"]]).T
AXES = {"chain_axis": 0, "draw_axis": 1}


@pytest.fixture(scope="module")
def draws() -> dict[str, np.ndarray]:
    log_likelihood = log_likelihood_of(layout_of(Responses.from_arrays(Y)))

    def model():
        sigma_theta, sigma_a = sample("sigma", HalfCauchy(2).expand([2]).to_event(1))
        mu_b, sigma_b = sample("mu_b", Normal(0, 5)), sample("sigma_b", HalfCauchy(2))
        with plate("subject", Y.shape[0]):
            theta = deterministic("theta", sigma_theta * sample("z_theta", Normal()))
        with plate("item", Y.shape[1]):
            log_a = deterministic("log_a", sigma_a * sample("z_a", Normal()))
            b = deterministic("b", mu_b + sigma_b * sample("z_b", Normal()))
        a = jnp.exp(log_a)
        numpyro.factor("responses", log_likelihood(theta, a, -a * b))

    mcmc = MCMC(
        NUTS(model),
        num_warmup=1000,
        num_samples=2500,
        num_chains=4,
        chain_method="parallel" if jax.local_device_count() >= 4 else "vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0))
    return {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}


def largest(z: np.ndarray, label: str) -> float:
    print(
        f"{label}: largest |z| {np.abs(z).max():.2f} of {z.size}, rms {np.sqrt((z**2).mean()):.2f}"
    )
    return float(np.abs(z).max())


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.statistical
class TestStan:
    """180 comparisons at 4 errors: a right sampler fails with a new key once in 90."""

    @pytest.mark.parametrize("name", ["theta", "b"])
    def test_means(self, draws, name):
        stan = {k: np.array(v) for k, v in STAN[name].items()}
        error = np.hypot(stan["mcse"], array_stats.mcse(draws[name], method="mean", **AXES))
        assert largest((draws[name].mean((0, 1)) - stan["mean"]) / error, name) < 4

    @pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
    def test_quantiles_of_log_a(self, draws, q):
        log_a = draws["log_a"]
        own = array_stats.mcse(log_a, method="quantile", prob=q, **AXES)
        ratio = array_stats.ess(log_a, method="quantile", prob=q, **AXES) / STAN["a"]["ess"]
        error = own * np.sqrt(1 + ratio)
        expected = np.log(STAN["a"]["quantiles"][str(q)])
        z = (np.quantile(log_a, q, axis=(0, 1)) - expected) / error
        assert largest(z, f"{q:.0%} of log a") < 4

"""LaRT: time of its point estimate, and effective draws per second against NumPyro's NUTS."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from effective_draws import FEW, Draws, measured
from lart_data import simulate_lart
from numpyro.infer import MCMC, NUTS

from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.saem import fit_saem
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import LaRT

CHAINS, WARMUP = 4, 300
NAMES = ("theta", "tau", "a", "d", "phi", "omega", "lam", "rho")


@pytest.mark.bench
@pytest.mark.parametrize("size", ["138 x 40", "140 x 500", "1000 x 1000"])
def test_seconds_of_the_point_estimate(size: str, capsys):
    responses, truth = simulate_lart(*map(int, size.split(" x ")))
    key = jax.random.key(0)
    estimators = {
        "LaRT, EM": lambda: fit_lart(responses),
        "without lengths, EM": lambda: fit_lart(responses, lengths=False),
        "LaRT, SAEM": lambda: fit_saem(responses, key=key),
    }
    with capsys.disabled():
        print(f"\n{size}")
        for name, fit in estimators.items():
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                point = fit()
                seconds.append(time.perf_counter() - began)
            error = np.sqrt(np.mean((point["theta"] - truth["theta"]) ** 2))
            print(
                f"  {name:20} {seconds[1]:6.2f} s (first call {seconds[0]:5.1f} s), "
                f"{point.iterations} iterations, RMSE of theta {error:.3f}"
            )
            assert point.converged


@pytest.mark.bench
def test_effective_draws_a_second(capsys):
    responses, _ = simulate_lart(100, 50)
    point = fit_lart(responses)
    listed = responses.cells.listed()
    x = np.full(responses.cells.shape, np.nan)
    x[listed.subject, listed.item] = np.log(responses.latency)
    successes, trials = (jnp.asarray(m, int) for m in responses.cells.matrices())

    def plain(draws: int) -> Draws:
        mcmc = MCMC(
            NUTS(LaRT()), num_warmup=WARMUP if draws > FEW else 1, num_samples=draws,
            num_chains=CHAINS, chain_method="parallel", progress_bar=False,
        )  # fmt: skip
        mcmc.run(jax.random.key(0), trials, successes, jnp.asarray(x))
        return jax.device_get(mcmc.get_samples(group_by_chain=True))

    def blocked(draws: int) -> Draws:
        warmup = 300 if draws > FEW else 1
        options = RunOptions(num_chains=CHAINS, num_warmup=warmup, num_samples=draws, thinning=1)
        posterior = sample_blocked(
            responses, key=jax.random.key(0), model=LaRT(), init=point, options=options
        )
        return {name: posterior[name] for name in NAMES}

    samplers: dict[str, tuple[Callable[[int], Draws], int]] = {
        "blocked": (blocked, 1000),
        "NumPyro NUTS": (plain, 300),
    }
    speeds = {k: measured(sample, draws, NAMES) for k, (sample, draws) in samplers.items()}
    with capsys.disabled():
        print(f"\nLaRT, 100 x 50, {CHAINS} chains")
        for name, speed in speeds.items():
            print(f"  {name:13} {speed.beside(speeds['blocked'])}")
    own, other = speeds["blocked"], speeds["NumPyro NUTS"]
    assert own.least / own.warm > other.least / other.warm

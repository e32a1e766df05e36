"""Effective draws per second against NumPyro's own NUTS on the same model, in one run."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from conftest import simulate
from numpyro.infer import MCMC, NUTS

from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.options import RunOptions
from bayesirt.models import TwoPL

WARMUP, DRAWS, CHAINS = 500, 500, 4


def least_ess(draws: dict[str, np.ndarray]) -> float:
    axes = {"chain_axis": 0, "draw_axis": 1, "method": "bulk"}
    return min(float(np.min(array_stats.ess(draws[k], **axes))) for k in ("theta", "a", "d"))


@pytest.mark.bench
@pytest.mark.parametrize("size", ["40 x 300", "200 x 200"])
def test_effective_draws_a_second(size: str, capsys):
    responses = simulate(*map(int, size.split(" x ")))[0]
    successes, trials = map(jnp.asarray, responses.cells.matrices())
    began = time.perf_counter()
    mcmc = MCMC(
        NUTS(TwoPL()),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="parallel",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), trials, successes)
    plain = least_ess(jax.device_get(mcmc.get_samples(group_by_chain=True)))
    plain_seconds = time.perf_counter() - began
    began = time.perf_counter()
    posterior = sample_nuts(
        responses,
        key=jax.random.key(0),
        init=fit_cbmm(responses),
        options=RunOptions(num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS),
    )
    ours = least_ess({k: posterior[k] for k in ("theta", "a", "d")})
    our_seconds = time.perf_counter() - began
    ratio = (ours / our_seconds) / (plain / plain_seconds)
    with capsys.disabled():
        print(
            f"\n{size}, compilation included: least bulk ESS {ours:.0f} against {plain:.0f}, "
            f"seconds {our_seconds:.1f} against {plain_seconds:.1f}, ESS/s {ratio:.1f} x"
        )
    assert ratio > 1

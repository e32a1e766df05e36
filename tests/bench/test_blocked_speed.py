"""Effective draws per second of the blocked engine and NUTS, and seconds of one sweep."""

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from conftest import simulate
from effective_draws import FEW, Draws, measured
from numpyro.infer import MCMC, NUTS

from bayesirt import RunOptions, fit_cbmm
from bayesirt.inference.blocked import BlockedNewton, start_chains
from bayesirt.inference.moves import moves_of
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.models import TwoPL

CHAINS = 4
NAMES = ("theta", "a", "d")


def numpyro_nuts(responses, warmup: int) -> Callable[[int], Draws]:
    successes, trials = map(jnp.asarray, responses.cells.matrices())

    def sample(draws: int) -> Draws:
        mcmc = MCMC(
            NUTS(TwoPL()),
            num_warmup=warmup if draws > FEW else 1,
            num_samples=draws,
            num_chains=CHAINS,
            chain_method="parallel",
            progress_bar=False,
        )
        mcmc.run(jax.random.key(0), trials, successes)
        return jax.device_get(mcmc.get_samples(group_by_chain=True))

    return sample


def ours(engine, responses, warmup: int) -> Callable[[int], Draws]:
    point = fit_cbmm(responses)

    def sample(draws: int) -> Draws:
        posterior = engine(
            responses,
            key=jax.random.key(0),
            init=point,
            options=RunOptions(
                num_chains=CHAINS,
                num_warmup=warmup if draws > FEW else 1,
                num_samples=draws,
                thinning=1,
            ),
        )
        return {k: posterior[k] for k in NAMES}

    return sample


@pytest.mark.bench
@pytest.mark.parametrize(
    ("size", "nuts_draws"), [("200 x 200", 500), ("1000 x 500", 200)], ids=["200", "1000"]
)
def test_effective_draws_a_second(size: str, nuts_draws: int, capsys):
    """Include warm-up; "warm" subtracts compilation, measured by runs with few draws."""
    responses = simulate(*map(int, size.split(" x ")))[0]
    speeds = {
        "blocked": measured(ours(sample_blocked, responses, 300), 1000, NAMES),
        "our NUTS": measured(ours(sample_nuts, responses, nuts_draws), nuts_draws, NAMES),
        "NumPyro NUTS": measured(numpyro_nuts(responses, nuts_draws), nuts_draws, NAMES),
    }
    own = speeds["blocked"]
    with capsys.disabled():
        print(f"\n{size}, {CHAINS} chains")
        for name, s in speeds.items():
            print(f"  {name:13} {s.beside(own)}")
    plain = speeds["NumPyro NUTS"]
    assert own.least / own.warm > 25 * plain.least / plain.warm


@pytest.mark.bench
def test_seconds_of_a_sweep(capsys):
    responses = simulate(1000, 1000)[0]
    point = fit_cbmm(responses)
    way, layout = OneAbility(TwoPL()), layout_of(responses)
    kernel = BlockedNewton(moves_of(way, layout))
    starts = start_chains(jax.random.key(0), *way.start(point, layout), 1)
    sites = {name: x[0] for name, x in starts.items()}
    sweep = jax.jit(kernel.sweep)
    began = time.perf_counter()
    sites, _ = jax.block_until_ready(sweep(jax.random.key(1), sites))
    first = time.perf_counter() - began
    seconds, accepted = [], {}
    for seed in range(5):
        began = time.perf_counter()
        sites, accepted = jax.block_until_ready(sweep(jax.random.key(seed), sites))
        seconds.append(time.perf_counter() - began)
    cells = responses.n_subjects * responses.n_items
    shares = {k: round(float(v), 3) for k, v in accepted.items() if k.startswith("acceptance")}
    with capsys.disabled():
        print(
            f"\n1000 x 1000: a sweep {1e3 * min(seconds):.1f} ms, {1e9 * min(seconds) / cells:.1f} "
            f"ns a cell; the first {first:.1f} s; {shares}"
        )
    assert min(shares["acceptance_theta"], shares["acceptance_items"]) > 0.5

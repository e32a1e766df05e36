"""LaRT's two engines share no step, and agree."""

import jax
import numpy as np
import pytest
from lart_data import simulate_lart

from bayesirt import RunOptions
from bayesirt.inference.engines import sample_posterior
from bayesirt.models import LaRT

RESPONSES, _ = simulate_lart(60, 20)
RAMBLING, _ = simulate_lart(60, 20, delta=0.8)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("wrong_lengths", [False, True])
def test_nuts_and_blocked_agree(wrong_lengths):
    """Means and spreads of 231 quantities, or 253, at 5 standard errors: a false alarm in 3,000."""
    responses = RAMBLING if wrong_lengths else RESPONSES
    tables = []
    for engine, draws in (("nuts", 1000), ("blocked", 2000)):
        posterior = sample_posterior(
            responses,
            key=jax.random.key(1),
            engine=engine,
            model=LaRT(wrong_lengths=wrong_lengths),
            options=RunOptions(num_warmup=800, num_samples=draws),
        )
        assert posterior.tree.attrs["engine"] == engine
        assert posterior.tree.attrs["wrong_lengths"] == wrong_lengths == posterior.has_wrong_lengths
        squares = {n: (posterior[n] - posterior[n].mean((0, 1))) ** 2 for n in ("theta", "tau")}
        assert all(np.isfinite(s).all() for s in squares.values())
        tables.append(posterior.summary.drop(index="b", level="parameter"))
    one, other = tables
    assert one["r_hat"].max() < 1.03
    assert other["r_hat"].max() < 1.02
    errors = np.hypot(
        one["sd"] / np.sqrt(one["ess_bulk"]), other["sd"] / np.sqrt(other["ess_bulk"])
    )
    z = (one["mean"] - other["mean"]) / errors
    of_log_sd = np.sqrt(1 / one["ess_tail"] + 1 / other["ess_tail"])
    z_sd = np.log(one["sd"] / other["sd"]) / of_log_sd
    print(f"largest z of means {z.abs().max():.2f}, of spreads {z_sd.abs().max():.2f}, {len(z)}")
    assert z.abs().max() < 5
    assert z_sd.abs().max() < 5

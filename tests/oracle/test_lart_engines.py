"""LaRT's two engines share no step, and agree: here with lengths of wrong answers.

`test_cluster_engines.py` holds them where there are none, and clusters.
"""

import jax
import pytest
from agreement import largest_z
from lart_data import simulate_lart

from bayesirt import RunOptions
from bayesirt.inference.engines import sample_posterior
from bayesirt.models import LaRT

RAMBLING, _ = simulate_lart(60, 20, delta=0.8)


@pytest.mark.slow
@pytest.mark.statistical
def test_nuts_and_blocked_agree():
    """Means and spreads of 253 quantities at 5 standard errors: a false alarm in 3,000."""
    tables = []
    for engine, draws in (("nuts", 1000), ("blocked", 2000)):
        posterior = sample_posterior(
            RAMBLING,
            key=jax.random.key(1),
            engine=engine,
            model=LaRT(wrong_lengths=True),
            options=RunOptions(num_warmup=800, num_samples=draws),
        )
        assert posterior.tree.attrs["engine"] == engine
        assert posterior.tree.attrs["wrong_lengths"]
        assert posterior.has_wrong_lengths
        tables.append(posterior.summary.drop(index="b", level="parameter"))
    one, other = tables
    assert one["r_hat"].max() < 1.03
    assert other["r_hat"].max() < 1.02
    assert max(largest_z(one, other)) < 5

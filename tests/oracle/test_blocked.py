"""The blocked engine against NUTS, which shares no code with it."""

import jax
import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayesirt import Responses, RunOptions
from bayesirt.inference.nuts import sample_nuts
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import ThreePL, TwoPL

pytestmark = pytest.mark.statistical


def means_and_errors(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    error = array_stats.mcse(values, method="mean", chain_axis=0, draw_axis=1)
    return values.mean((0, 1)), error


@pytest.mark.parametrize("model", [TwoPL(), ThreePL()], ids=lambda model: model.name)
def test_means_and_spreads_are_those_of_nuts(model):
    """Up to 111 comparisons at 4.5 standard errors: a correct sampler fails once in 1300 keys."""
    rng = np.random.default_rng(4)
    trials = rng.integers(1, 6, (10, 7)) * (rng.uniform(size=(10, 7)) < 0.8)
    trials[:, 0], trials[0] = 2, 3
    eta = rng.normal(size=(10, 1)) * np.exp(0.4 * rng.normal(size=7)) + rng.normal(size=7)
    responses = Responses.from_arrays(rng.binomial(trials, 1 / (1 + np.exp(-eta))), trials)
    assert responses.coverage < 0.95
    nuts = sample_nuts(
        responses,
        key=jax.random.key(1),
        model=model,
        options=RunOptions(num_samples=1500, target_accept=0.98),
    )
    blocked = sample_blocked(
        responses,
        key=jax.random.key(2),
        model=model,
        options=RunOptions(num_warmup=300, num_samples=5000, thinning=1),
    )
    names = [str(name) for name in nuts.dataset.data_vars if name != "b"]
    assert sorted(names) == sorted(str(n) for n in blocked.dataset.data_vars if n != "b")
    worst = {}
    for name in names:
        both = [np.atleast_3d(p[name]) for p in (nuts, blocked)]
        centre = both[0].mean((0, 1))
        for power in (1, 2):
            (m, e), (own, own_e) = (means_and_errors((v - centre) ** power) for v in both)
            worst[name, power] = np.abs((m - own) / np.hypot(e, own_e)).max()
    print(worst)
    assert max(worst.values()) < 4.5

"""R-hat and effective draws equal ArviZ's, for many quantities at once."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayesirt.convergence import convergence

AXES = {"chain_axis": 0, "draw_axis": 1}


def autoregressive(rho: float, n_draws: int = 1001) -> np.ndarray:
    """Return long chains of 70 quantities, which are more than one batch."""
    draws = np.random.default_rng(0).normal(size=(4, n_draws, 70))
    for t in range(1, n_draws):
        draws[:, t] += rho * draws[:, t - 1]
    return draws


CASES = {
    "slow": autoregressive(0.9),
    "swinging": autoregressive(-0.8),
    "few": autoregressive(0.5, 101),
    "tied": np.round(autoregressive(0.5), 1),
    "in two places": autoregressive(0.5) + np.array([0, 0, 0, 2.0])[:, None, None],
    "wider in one chain": autoregressive(0.5) * np.array([1, 1, 1, 4.0])[:, None, None],
}


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_arviz_says(name: str):
    draws, found = CASES[name], convergence(CASES[name])
    np.testing.assert_allclose(found.r_hat, array_stats.rhat(draws, **AXES), rtol=1e-12)
    # The sums of autocorrelations stop one term apart.
    bulk = array_stats.ess(draws, method="bulk", **AXES)
    np.testing.assert_allclose(found.ess_bulk, bulk, rtol=0.05)
    tail = array_stats.ess(draws, method="tail", prob=(0.05, 0.95), **AXES)
    np.testing.assert_allclose(found.ess_tail, tail, rtol=0.05)


def test_one_chain_is_judged_by_its_halves():
    draws = autoregressive(0.5)[:1]
    moved = np.concatenate([draws[:, :500], draws[:, 500:] + 2], 1)
    assert convergence(draws).r_hat.max() < 1.05 < 1.3 < convergence(moved).r_hat.min()


def test_what_does_not_vary_or_is_no_number_is_told():
    draws = autoregressive(0.5)[..., :2]
    draws[..., 0], draws[0, 0, 1] = 1, np.nan
    found = convergence(draws)
    assert np.isnan(found.r_hat).all()
    assert found.ess_bulk[0] == found.ess_tail[0] == draws[:, 1:, 0].size  # halves of 1,001
    assert np.isnan(found.ess_bulk[1])
    assert np.isnan(convergence(draws[:, :3])).all()

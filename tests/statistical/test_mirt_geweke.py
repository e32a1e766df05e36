"""Getting MIRT's sweeps right (Geweke 2004), as `test_blocked_geweke` does for the 2PL.

Parameters are drawn from the prior, and answers given them, some missing. After ten sweeps given
these answers, the parameters are still draws from the prior. The prior is invariant to rotations,
so no axes are chosen.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from geweke import answered, assert_no_drift, swept
from scipy.stats import wishart

from bayesirt.inference.mirt_moves import Exploratory
from bayesirt.models import Mirt

pytestmark = pytest.mark.statistical

TRIALS = np.array([[1, 3, 0, 1], [2, 1, 1, 0], [0, 5, 1, 2]], np.int8)
PAIRS, K = 10_000, 2
N_SUBJECTS, N_ITEMS = TRIALS.shape


def prior_sites(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return unconstrained draws from the prior, written independently of the model."""
    precision = wishart.rvs(K + 2, np.eye(K) / 0.5**2, PAIRS, rng)
    root = np.linalg.cholesky(precision)
    logs = np.log(np.diagonal(root, axis1=1, axis2=2))
    sites = {
        "theta": rng.normal(size=(PAIRS, N_SUBJECTS, K)),
        "mu_a": rng.normal(size=(PAIRS, K)),
        "precision_a": np.concatenate([root[:, 1, :1], logs], 1),
        "mu_b": 2 * rng.normal(size=(PAIRS, K)),
        "mu_d": 2 * rng.normal(size=PAIRS),
        "sigma_d": np.log(2 * np.abs(rng.normal(size=PAIRS))),
    }
    away = np.linalg.solve(root.swapaxes(1, 2), rng.normal(size=(PAIRS, K, N_ITEMS)))
    sites["a"] = sites["mu_a"][:, None] + away.swapaxes(1, 2)
    spread = np.exp(sites["sigma_d"])[:, None] * rng.normal(size=(PAIRS, N_ITEMS))
    lean = (sites["a"] @ sites["mu_b"][:, :, None])[:, :, 0]
    sites["d"] = sites["mu_d"][:, None] - lean + spread
    return sites


def quantities(sites: dict[str, np.ndarray]) -> np.ndarray:
    """Return first moments, bounded second moments and products, shape (pair, quantity)."""
    theta = sites["theta"].reshape(PAIRS, -1)
    a = np.tanh(sites["a"].reshape(PAIRS, -1))
    names = "d", "mu_a", "mu_b", "precision_a"
    d, mu_a, mu_b, precision = (np.tanh(sites[name] / 2) for name in names)
    mu_d, sigma_d = (np.tanh(sites[name] / 2)[:, None] for name in ("mu_d", "sigma_d"))
    eta = np.tanh((sites["theta"] @ sites["a"].swapaxes(1, 2)).reshape(PAIRS, -1) / 2)
    lengths = np.tanh(np.linalg.norm(sites["a"], axis=2))
    columns = [theta, theta**2, sites["theta"][:, :, 0] * sites["theta"][:, :, 1]]
    columns += [a, a**2, d, d**2, mu_a, mu_a**2, precision, precision**2, eta, eta * d[:, :1]]
    columns += [
        mu_b,
        mu_b**2,
        mu_d,
        mu_d**2,
        sigma_d,
        sigma_d**2,
        lengths,
        lengths * sigma_d,
        a[:, ::2] * d,
    ]
    return np.concatenate(columns, 1)


def test_parameters_stay_draws_from_the_prior():
    """About 100 quantities at 6 standard errors: a correct sampler fails once in 4 million."""
    before, way = prior_sites(np.random.default_rng(7)), Exploratory(Mirt(K))

    def data_of(key, sites):
        return answered(key, jax.nn.sigmoid(sites["theta"] @ sites["a"].T + sites["d"]), TRIALS)

    after, accepted = swept(way, data_of, before, dtype=jnp.float64)
    assert len(accepted) == 4
    change = quantities(after) - quantities(before)
    assert change.shape[1] <= 110
    assert_no_drift(change, f"{accepted}")

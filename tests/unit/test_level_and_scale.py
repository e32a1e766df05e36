"""Redrawing the level, unit and population of draws: the invariants, and the density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.inference import level_and_scale
from bayesirt.inference.level_and_scale import log_density, redraw_level_and_scale
from bayesirt.inference.one_ability import OneAbility
from bayesirt.models import Priors, TwoPL

PRIORS = [Priors(), Priors(slopes="free")]
NUMBERS = ("c", "log_s", "centre_a", "centre_d", "lean", "log_spread_a", "log_spread_d")
each_prior = pytest.mark.parametrize("priors", PRIORS, ids=Priors.describe)


def some_draws(n_draws: int = 5, n_subjects: int = 7, n_items: int = 9) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "theta": rng.normal(size=(n_draws, n_subjects)),
        "a": np.exp(0.4 * rng.normal(size=(n_draws, n_items))),
        "d": rng.normal(size=(n_draws, n_items)),
    }


@each_prior
def test_density_is_that_of_the_model_with_the_volume_along_the_orbit(priors):
    """θ' = s θ + c grows as s^N; free slopes and their mean shrink, logarithms of slopes do not."""
    draws, free = some_draws(), priors.slopes == "free"
    rng = np.random.default_rng(2)
    numbers = {name: jnp.asarray(0.5 * rng.normal(size=5)) for name in NUMBERS}
    seen = level_and_scale._moments(draws, free=free)
    population = level_and_scale._hyper(numbers, seen, free=free)
    own = np.asarray(log_density(priors, seen, numbers))
    density, expected = jax.jit(lambda s: OneAbility(TwoPL(priors)).terms(s).total()), []
    for k in range(5):
        s, c = jnp.exp(numbers["log_s"][k]), numbers["c"][k]
        a = draws["a"][k] / s
        sites = {name: x[k] for name, x in population.items()}
        sites |= {"theta": s * draws["theta"][k] + c, "d": draws["d"][k] - a * c}
        sites["a"] = a if free else jnp.log(a)
        growth = (7 - 9 - 1 if free else 7) * numbers["log_s"][k]
        expected.append(float(density(sites) + growth))
    np.testing.assert_allclose(own - own[0], np.array(expected) - expected[0], atol=1e-9)


def assert_same_to_responses(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> None:
    eta = [x["theta"][:, :, None] * x["a"][:, None] + x["d"][:, None] for x in (before, after)]
    np.testing.assert_allclose(*eta, atol=1e-9)
    assert np.abs(after["theta"] - before["theta"]).mean() > 0.01
    np.testing.assert_allclose(after["b"], -after["d"] / after["a"])


@pytest.mark.statistical
@each_prior
def test_draws_from_the_prior_stay_draws_from_the_prior(priors):
    """18 means at 5 standard errors: a correct sampler fails with a new key once in 100,000."""
    n, n_subjects, n_items = 20_000, 4, 6
    rng = np.random.default_rng(3)
    mu_a, sigma_a = 0.5 * rng.normal(size=n), 0.5 * np.abs(rng.normal(size=n))
    mu_d, sigma_d = 2 * rng.normal(size=n), 2 * np.abs(rng.normal(size=n))
    mu_b = 2 * rng.normal(size=n)
    a = mu_a[:, None] + sigma_a[:, None] * rng.normal(size=(n, n_items))
    a = a if priors.slopes == "free" else np.exp(a)
    d = mu_d[:, None] - mu_b[:, None] * a + sigma_d[:, None] * rng.normal(size=(n, n_items))
    before = {"theta": rng.normal(size=(n, n_subjects)), "a": a, "d": d}
    population = {"mu_a": mu_a, "sigma_a": sigma_a, "mu_d": mu_d, "sigma_d": sigma_d, "mu_b": mu_b}
    after = redraw_level_and_scale(before, priors, jax.random.key(4))
    assert_same_to_responses(before, after)
    own, other = (
        np.stack([f(x[k]) for k in population for f in (np.tanh, lambda v: np.tanh(v) ** 2)]
        + [np.tanh(x["theta"].mean(1)), np.tanh(x["theta"].std(1)), np.tanh(x["a"].mean(1)),
           np.tanh(x["d"].mean(1)), np.tanh(x["theta"][:, 0]), np.tanh(x["theta"][:, 0]) ** 2,
           np.tanh(x["d"][:, 0]), np.tanh(x["a"][:, 0])])
        for x in (after, before | population)
    )  # fmt: skip
    error = np.sqrt(own.var(1) / n + other.var(1) / n)
    z = (own.mean(1) - other.mean(1)) / error
    print(f"largest z {np.abs(z).max():.1f}")
    assert np.abs(z).max() < 5

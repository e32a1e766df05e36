"""LaRT written for reading and LaRT written for speed say the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import as_sparse, some_missing
from numpyro.infer.util import log_density
from scipy.special import gammaln
from scipy.stats import halfnorm, lognorm, norm

from bayesirt.families import FAMILIES
from bayesirt.inference.lart_sites import (
    LaRTPrior,
    ability_scaled,
    ability_shifted,
    lengths_of,
    speed_scaled,
    speed_shifted,
)
from bayesirt.latencies import latencies_of
from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.models import lart_model

N, J = 6, 5
RESPONSES = some_missing(N, J)
SUCCESSES, TRIALS = RESPONSES.cells.matrices()


def log_lengths() -> np.ndarray:
    matrix = np.full((N, J), np.nan)
    listed = RESPONSES.cells.listed()
    matrix[listed.subject, listed.item] = np.log(RESPONSES.latency)
    return matrix


def some_sites(seed: int) -> dict[str, np.ndarray]:
    """Return constrained values of all sites, with a negative slope among them."""
    rng = np.random.default_rng(seed)
    sites = {"rho": np.array(-0.4), "theta": rng.normal(size=N), "tau": rng.normal(size=N)}
    for name in ("a", "d", "phi", "omega", "lam"):
        sites |= {f"mu_{name}": rng.normal(), f"sigma_{name}": np.exp(rng.normal())}
        sites[name] = rng.normal(size=J)
    for name in ("a", "phi"):
        sites[name] = np.append(-0.5, 1 + np.abs(sites[name][1:]))
    sites["lam"] = np.exp(sites["lam"])
    return sites


def unconstrained(sites: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    free = dict(sites)
    free["rho"] = np.log((1 + sites["rho"]) / (1 - sites["rho"]))
    for name in sites:
        if name.startswith("sigma_") or name == "lam":
            free[name] = np.log(sites[name])
    return jax.tree.map(jnp.asarray, free)


def log_prior(s: dict[str, np.ndarray]) -> float:
    """Return the log prior density as scipy knows it."""
    total = -np.log(2) + norm.logpdf(s["theta"]).sum()
    total += norm.logpdf(s["tau"], s["rho"] * s["theta"], np.sqrt(1 - s["rho"] ** 2)).sum()
    of_mu = {"a": 0.5, "d": 2, "phi": 0.5, "omega": 10, "lam": 2}
    of_sigma = {"a": 0.5, "d": 2, "phi": 0.5, "omega": 2, "lam": 1}
    for name in of_mu:
        mu, sigma = s[f"mu_{name}"], s[f"sigma_{name}"]
        total += norm.logpdf(mu, 0, of_mu[name]) + halfnorm.logpdf(sigma, scale=of_sigma[name])
        if name == "lam":
            total += lognorm.logpdf(s["lam"], sigma, scale=np.exp(mu)).sum()
        else:
            total += norm.logpdf(s[name], mu, sigma).sum()
    return float(total)


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("responses", [RESPONSES, as_sparse(RESPONSES)], ids=["dense", "sparse"])
def test_density_is_that_of_the_families_and_the_sums(link, responses):
    sites = some_sites(0)
    arguments = (jnp.asarray(TRIALS, int), jnp.asarray(log_lengths()), jnp.asarray(SUCCESSES, int))
    found, _ = log_density(lart_model, arguments, {"link": link}, sites)
    layout = layout_of(responses)
    latencies = latencies_of(responses, layout)
    moments = latencies.moments(sites["tau"], sites["tau"] ** 2)
    answers = log_likelihood_of(layout, FAMILIES[link])(
        *(jnp.asarray(sites[k]) for k in ("theta", "a", "d"))
    )
    ways = gammaln(TRIALS + 1) - gammaln(SUCCESSES + 1) - gammaln(TRIALS - SUCCESSES + 1)
    lengths = latencies.log_likelihood(*lengths_of(sites), moments)
    expected = log_prior(sites) + float(answers) + ways.sum() + float(lengths.sum())
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_terms_are_the_prior_with_its_jacobians():
    sites = some_sites(1)
    terms = LaRTPrior().terms(unconstrained(sites))
    jacobians = np.log((1 - sites["rho"] ** 2) / 2) + np.log(sites["lam"]).sum()
    jacobians += sum(np.log(v) for k, v in sites.items() if k.startswith("sigma_"))
    assert float(terms.total()) == pytest.approx(log_prior(sites) + jacobians, rel=1e-10)
    np.testing.assert_allclose(terms.values["b"], -sites["d"] / sites["a"])


@pytest.mark.parametrize("line", [ability_shifted, speed_shifted, ability_scaled, speed_scaled])
def test_no_response_sees_a_line(line):
    sites = unconstrained(some_sites(2))
    prior = LaRTPrior()

    def seen(sites: dict[str, jax.Array]) -> np.ndarray:
        v = prior.terms(sites).values
        eta = v["theta"][:, None] * v["a"] + v["d"]
        return np.stack([eta, v["omega"] - v["tau"][:, None] * v["phi"]])

    moved, log_jacobian = line(prior, sites, jnp.array(0.4))
    np.testing.assert_allclose(seen(moved), seen(sites), atol=1e-12)
    flat, unravel = jax.flatten_util.ravel_pytree(sites)
    jacobian = jax.jacobian(
        lambda x: jax.flatten_util.ravel_pytree(line(prior, unravel(x), jnp.array(0.4))[0])[0]
    )(flat)
    assert float(log_jacobian) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-10)
    back, _ = line(prior, moved, jnp.array(-0.4))
    assert all(np.allclose(back[k], sites[k], atol=1e-12) for k in sites)


def test_the_model_refuses_slopes_that_sum_below_zero():
    sites = some_sites(3)
    arguments = (jnp.asarray(TRIALS, int), jnp.asarray(log_lengths()), jnp.asarray(SUCCESSES, int))
    for name in ("a", "phi"):
        turned = sites | {name: -sites[name]}
        assert log_density(lart_model, arguments, {}, turned)[0] == -np.inf

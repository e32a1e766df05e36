"""LaRT with lengths of wrong answers: the model, the sums and the Gibbs steps say the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import as_sparse, some_missing
from numpyro.handlers import seed, substitute, trace
from numpyro.infer.util import log_density
from scipy.special import gammaln
from scipy.stats import halfnorm, lognorm, norm

from bayesirt.families import FAMILIES
from bayesirt.inference.lart_moves import draw_lengths, draw_wrong_lengths
from bayesirt.inference.lart_nuts import LaRTTarget
from bayesirt.inference.lart_sites import HIERARCHICAL, LaRTPrior, lengths_of
from bayesirt.latencies import latencies_of
from bayesirt.likelihood import layout_of, log_likelihood_of
from bayesirt.models import lart_model
from bayesirt.models.coordinates import Known

N, J = 6, 5
RESPONSES = some_missing(N, J)
SUCCESSES, TRIALS = RESPONSES.cells.matrices()
WRONG = (TRIALS - SUCCESSES) / np.maximum(TRIALS, 1)
OF_MU = {"a": 0.5, "d": 2, "phi": 0.5, "omega": 10, "lam": 2, "delta": 0.5}
OF_SIGMA = {"a": 0.5, "d": 2, "phi": 0.5, "omega": 2, "lam": 1, "delta": 0.5}


def log_lengths() -> np.ndarray:
    matrix = np.full((N, J), np.nan)
    listed = RESPONSES.cells.listed()
    matrix[listed.subject, listed.item] = np.log(RESPONSES.latency)
    return matrix


def some_sites(number: int) -> dict[str, np.ndarray]:
    """Return constrained values of all sites, with a negative slope among them."""
    rng = np.random.default_rng(number)
    sites = {"rho": np.array(-0.4), "theta": rng.normal(size=N), "tau": rng.normal(size=N)}
    for name in OF_MU:
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
    for name in OF_MU:
        mu, sigma = s[f"mu_{name}"], s[f"sigma_{name}"]
        total += norm.logpdf(mu, 0, OF_MU[name]) + halfnorm.logpdf(sigma, scale=OF_SIGMA[name])
        if name == "lam":
            total += lognorm.logpdf(s["lam"], sigma, scale=np.exp(mu)).sum()
        else:
            total += norm.logpdf(s[name], mu, sigma).sum()
    return float(total)


def log_joint(s: dict[str, np.ndarray]) -> float:
    """Return the log density of parameters, answers and lengths, cell by cell."""
    p = norm.cdf(s["theta"][:, None] * s["a"] + s["d"])
    ways = gammaln(TRIALS + 1) - gammaln(SUCCESSES + 1) - gammaln(TRIALS - SUCCESSES + 1)
    answers = ways + SUCCESSES * np.log(p) + (TRIALS - SUCCESSES) * np.log1p(-p)
    mean = s["omega"] - np.outer(s["tau"], s["phi"]) + s["delta"] * WRONG
    lengths = norm.logpdf(log_lengths(), mean, np.sqrt(s["lam"]))
    return log_prior(s) + answers.sum() + np.nansum(lengths)


def test_the_model_is_the_formula():
    sites = some_sites(0)
    arguments = (jnp.asarray(TRIALS, int), jnp.asarray(log_lengths()), jnp.asarray(SUCCESSES, int))
    found, _ = log_density(lart_model, arguments, {"wrong_lengths": True}, sites)
    assert float(found) == pytest.approx(log_joint(sites), rel=1e-10)


@pytest.mark.parametrize("responses", [RESPONSES, as_sparse(RESPONSES)], ids=["dense", "sparse"])
def test_prior_and_sums_are_the_formula(responses):
    sites = some_sites(1)
    layout = layout_of(responses)
    latencies = latencies_of(responses, layout, wrong_lengths=True)
    plain = latencies.without_wrong(sites["delta"])
    moments = plain.moments(sites["tau"], sites["tau"] ** 2)
    seen = log_likelihood_of(layout, FAMILIES["probit"])(
        *(jnp.asarray(sites[k]) for k in ("theta", "a", "d"))
    )
    seen += plain.log_likelihood(*lengths_of(sites), moments).sum()
    ways = gammaln(TRIALS + 1) - gammaln(SUCCESSES + 1) - gammaln(TRIALS - SUCCESSES + 1)
    found = float(LaRTPrior().terms(unconstrained(sites)).total() + seen) + ways.sum()
    jacobians = np.log((1 - sites["rho"] ** 2) / 2) + np.log(sites["lam"]).sum()
    jacobians += sum(np.log(v) for k, v in sites.items() if k.startswith("sigma_"))
    assert found == pytest.approx(log_joint(sites) + jacobians, rel=1e-10)


def test_the_potential_falls_as_the_formula_rises():
    """Flat coordinates: the same difference between two places, Jacobians of items included."""
    latencies = latencies_of(RESPONSES, layout_of(RESPONSES), wrong_lengths=True)
    others = {k: v for k, v in unconstrained(some_sites(2)).items() if k not in HIERARCHICAL}
    known = {k: Known(jnp.full(J, 1.5), jnp.full(J, 0.3)) for k in HIERARCHICAL}
    target = LaRTTarget(latencies, others, jax.tree.map(jnp.ones_like, others), known, "probit")
    drawn, values = [], []
    for k in (2, 3):
        flat = 0.1 * jax.random.normal(jax.random.key(k), (target.size,))
        sites, log_jacobian = target._sites(flat)
        s = {name: np.asarray(v) for name, v in target.to_draw(flat).items() if name != "b"}
        jacobians = np.log((1 - s["rho"] ** 2) / 2) + np.log(s["lam"]).sum() + log_jacobian
        jacobians += sum(np.log(v) for name, v in s.items() if name.startswith("sigma_"))
        drawn.append(float(target.potential(flat)))
        values.append(float(-log_joint(s) - jacobians))
        assert set(sites) == set(s)
    assert drawn[0] - drawn[1] == pytest.approx(values[0] - values[1], rel=1e-9)


def test_data_are_drawn_answers_first():
    """Residuals have almost no variance, so a length tells the share that was wrong."""
    values = {"delta": jnp.linspace(1, 2, J), "lam": jnp.full(J, 1e-16), "phi": jnp.ones(J)}
    model = seed(substitute(lart_model, values), jax.random.key(0))
    drawn = trace(model).get_trace(jnp.asarray(TRIALS, int), wrong_lengths=True)
    site = {name: drawn[name]["value"] for name in ("tau", "omega", "successes", "log_latency")}
    wrong = (TRIALS - site["successes"]) / np.maximum(TRIALS, 1)
    found = site["log_latency"] - site["omega"] + site["tau"][:, None]
    there = TRIALS > 0
    np.testing.assert_allclose(found[there], (values["delta"] * wrong)[there], atol=1e-6)
    assert 0 < wrong[there].mean() < 1


def regression_posterior(
    s: dict[str, np.ndarray], item: int, slope: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of (slope, ω) of an item from its rows."""
    x = log_lengths()[:, item]
    seen = np.isfinite(x)
    x, tau, wrong = x[seen], s["tau"][seen], WRONG[seen, item]
    regressor, taken_out = (wrong, -s["phi"][item] * tau)
    if slope == "phi":
        regressor, taken_out = (-tau, s["delta"][item] * wrong)
    design = np.stack([regressor, np.ones(len(x))], 1)
    weights = np.array([s[f"sigma_{slope}"] ** -2, s["sigma_omega"] ** -2])
    precision = design.T @ design / s["lam"][item] + np.diag(weights)
    pull = design.T @ (x - taken_out) / s["lam"][item]
    pull += weights * [s[f"mu_{slope}"], s["mu_omega"]]
    return np.linalg.solve(precision, pull), np.linalg.inv(precision)


@pytest.mark.parametrize("slope", ["delta", "phi"])
@pytest.mark.parametrize("responses", [RESPONSES, as_sparse(RESPONSES)], ids=["dense", "sparse"])
def test_slopes_and_levels_are_drawn_from_their_regression(responses, slope):
    """40,000 draws of 5 pairs: 25 moments at 5 standard errors, one false alarm in 70,000."""
    constrained = some_sites(4)
    constrained |= {"phi": constrained["phi"] + 4, "mu_phi": 5.0, "sigma_phi": 0.5}
    sites = unconstrained(constrained)
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=True)
    move = draw_wrong_lengths if slope == "delta" else draw_lengths

    def draw(key: jax.Array) -> jax.Array:
        moved, _ = move(LaRTPrior(), latencies, key, sites)
        return jnp.stack([moved[slope], moved["omega"]])

    n = 40_000
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(5), n)))
    for j in range(J):
        mean, covariance = regression_posterior(constrained, j, slope)
        z = (draws[:, :, j].mean(0) - mean) / np.sqrt(np.diag(covariance) / n)
        white = np.linalg.solve(np.linalg.cholesky(covariance), (draws[:, :, j] - mean).T)
        of_squares = ((white**2).mean(1) - 1) * np.sqrt(n / 2)
        of_product = (white[0] * white[1]).mean() * np.sqrt(n)
        assert max(np.abs([*z, *of_squares, of_product])) < 5, (j, z, of_squares, of_product)

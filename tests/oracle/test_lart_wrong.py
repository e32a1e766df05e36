"""LaRT with lengths of wrong answers: the model, the sums and the Gibbs steps agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import some_missing
from lart_prior import (
    OF_MU,
    log_jacobian,
    log_lengths,
    log_prior,
    mean_of,
    some_sites,
    unconstrained,
)
from numpyro.handlers import seed, substitute, trace
from numpyro.infer.util import log_density
from scipy.special import gammaln
from scipy.stats import norm
from small_data import as_sparse

from bayesirt.inference.lart_moves import (
    WithLengths,
    draw_lengths,
    draw_wrong_lengths,
)
from bayesirt.inference.nuts import Target
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.start_coordinates import Known, StartCoordinates
from bayesirt.likelihood.cell_sums import layout_of
from bayesirt.likelihood.latencies import latencies_of
from bayesirt.models import LaRT

N, J = 6, 5
WAY = WithLengths(LaRT(wrong_lengths=True))
RESPONSES = some_missing(N, J)
SUCCESSES, TRIALS = RESPONSES.cells.matrices()
WRONG = (TRIALS - SUCCESSES) / np.maximum(TRIALS, 1)
ALL = tuple(OF_MU)


def log_joint(s: dict[str, np.ndarray]) -> float:
    """Return the log density of parameters, answers and lengths, cell by cell."""
    p = norm.cdf(s["theta"][:, None] * s["a"] + s["d"])
    ways = gammaln(TRIALS + 1.0) - gammaln(SUCCESSES + 1.0) - gammaln(TRIALS - SUCCESSES + 1.0)
    answers = ways + SUCCESSES * np.log(p) + (TRIALS - SUCCESSES) * np.log1p(-p)
    mean = s["omega"] - np.outer(s["tau"], s["phi"]) + s["delta"] * WRONG
    lengths = norm.logpdf(log_lengths(RESPONSES), mean, np.sqrt(s["lam"]))
    return log_prior(s) + answers.sum() + np.nansum(lengths)


def test_the_model_is_the_formula():
    sites = some_sites(0, (N, J), ALL)
    arguments = (
        jnp.asarray(TRIALS, int),
        jnp.asarray(SUCCESSES, int),
        jnp.asarray(log_lengths(RESPONSES)),
    )
    found, _ = log_density(LaRT(wrong_lengths=True), arguments, {}, sites)
    assert float(found) == pytest.approx(log_joint(sites), rel=1e-10)


def test_the_potential_falls_as_the_formula_rises():
    """Differences between two points in flat coordinates agree, with the items' Jacobians."""
    latencies = latencies_of(RESPONSES, layout_of(RESPONSES), wrong_lengths=True)
    others = {k: v for k, v in unconstrained(some_sites(2, (N, J), ALL)).items() if k not in ALL}
    known = {k: Known(jnp.full(J, 1.5), jnp.full(J, 0.3)) for k in ALL}
    coordinates = StartCoordinates(others, jax.tree.map(jnp.ones_like, others), known)
    target = Target(latencies, coordinates, WAY)
    drawn, values = [], []
    for k in (2, 3):
        flat = 0.1 * jax.random.normal(jax.random.key(k), (target.size,))
        sites, of_items = coordinates.at(flat, WAY)
        s = {name: np.asarray(v) for name, v in target.to_draw(flat).items() if name != "b"}
        drawn.append(float(target.potential(flat)))
        values.append(float(-log_joint(s) - log_jacobian(s) - of_items))
        assert set(sites) == set(s)
    assert drawn[0] - drawn[1] == pytest.approx(values[0] - values[1], rel=1e-9)


def test_data_are_drawn_answers_first():
    """Residuals have almost no variance, so a length reveals the share of wrong answers."""
    values = {"delta": jnp.linspace(1, 2, J), "lam": jnp.full(J, 1e-16), "phi": jnp.ones(J)}
    model = seed(substitute(LaRT(wrong_lengths=True), values), jax.random.key(0))
    drawn = trace(model).get_trace(jnp.asarray(TRIALS, int))
    site = {name: drawn[name]["value"] for name in ("tau", "omega", "successes", "log_latency")}
    wrong = (TRIALS - site["successes"]) / np.maximum(TRIALS, 1)
    found = site["log_latency"] - site["omega"] + site["tau"][:, None]
    there = TRIALS > 0
    np.testing.assert_allclose(found[there], (values["delta"] * wrong)[there], atol=1e-6)
    assert 0 < wrong[there].mean() < 1


def regression_posterior(
    s: dict[str, np.ndarray], item: int, slope: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the conditional mean and covariance of an item's (slope, ω)."""
    x = log_lengths(RESPONSES)[:, item]
    seen = np.isfinite(x)
    x, tau, wrong = x[seen], s["tau"][seen], WRONG[seen, item]
    regressor, taken_out = (wrong, -s["phi"][item] * tau)
    if slope == "phi":
        regressor, taken_out = (-tau, s["delta"][item] * wrong)
    design = np.stack([regressor, np.ones(len(x))], 1)
    weights = np.array([s[f"sigma_{slope}"] ** -2, s["sigma_omega"] ** -2])
    lean, level = (s["mu_tau"], s["mu_omega"]) if slope == "phi" else (0, mean_of("omega", s)[item])
    away = np.array([[1, 0], [-lean, 1]])
    precision = design.T @ design / s["lam"][item] + away.T @ np.diag(weights) @ away
    pull = design.T @ (x - taken_out) / s["lam"][item]
    pull += away.T @ (weights * [s[f"mu_{slope}"], level])
    return np.linalg.solve(precision, pull), np.linalg.inv(precision)


@pytest.mark.parametrize("slope", ["delta", "phi"])
@pytest.mark.parametrize("responses", [RESPONSES, as_sparse(RESPONSES)], ids=["dense", "sparse"])
def test_slopes_and_levels_are_drawn_from_their_regression(responses, slope):
    """40,000 draws of 5 pairs: 25 moments at 5 standard errors, one false alarm in 70,000."""
    constrained = some_sites(4, (N, J), ALL)
    constrained |= {"phi": constrained["phi"] + 4, "mu_phi": 5.0, "sigma_phi": 0.5}
    sites = unconstrained(constrained)
    latencies = latencies_of(responses, layout_of(responses), wrong_lengths=True)
    move = draw_wrong_lengths if slope == "delta" else draw_lengths

    def draw(key: jax.Array) -> jax.Array:
        moved, _ = move(WAY, latencies, RandomNumbers(key), sites)
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

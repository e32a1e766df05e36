"""Marginal EM of every model of one ability, compared with sums over a fine grid of abilities."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import simulate
from scipy.linalg import block_diag
from scipy.stats import spearmanr

from bayesirt import (
    Continuous,
    Graded,
    Normal,
    PointEstimate,
    Priors,
    Repeats,
    Responses,
    Scale,
    ThreePL,
    TwoPL,
    fit_cbmm,
)
from bayesirt.estimators.marginal import fit_marginal, usual_items
from bayesirt.estimators.marginal_information import observed_covariance
from bayesirt.estimators.registry import fit_point
from bayesirt.models import ResponseModel

PATTERNS = np.array([list(f"{k:05b}") for k in range(32)], int)
LSAT6 = [3, 6, 2, 11, 1, 1, 3, 4, 1, 8, 0, 16, 0, 3, 2, 15]
LSAT6 += [10, 29, 14, 81, 3, 28, 15, 80, 16, 56, 21, 173, 11, 61, 28, 298]
LSAT7 = [12, 19, 1, 7, 3, 19, 3, 17, 10, 5, 3, 7, 7, 23, 8, 28]
LSAT7 += [7, 39, 11, 34, 14, 51, 15, 90, 6, 25, 7, 35, 18, 136, 32, 308]
PUBLISHED = {
    "LSAT6": (LSAT6, [0.825, 0.723, 0.890, 0.689, 0.658], [2.773, 0.990, 0.249, 1.285, 2.053]),
    "LSAT7": (LSAT7, [0.988, 1.081, 1.706, 0.765, 0.736], [1.856, 0.808, 1.804, 0.486, 1.855]),
}
N, J, RUNS = 150, 10, 3
MODELS: dict[str, tuple[ResponseModel, Scale | None]] = {
    "2pl": (TwoPL(), None),
    "3pl": (ThreePL(), None),
    "3pl guessing": (ThreePL(Priors(guessing=0.2)), None),
    "repeats": (Repeats(), None),
    "graded": (Graded(n=4), Scale("graded", ("1", "2", "3", "4", "5"))),
    "continuous": (Continuous(), Scale("continuous")),
    "normal": (Normal(), Scale("unbounded", low=-1.0)),
}
CASES = {
    name: name if name in ("2pl", "graded") else pytest.param(name, marks=pytest.mark.slow)
    for name in MODELS
}


@cache
def simulated(name: str) -> tuple[Responses, dict[str, np.ndarray]]:
    """Return answers of a model, a tenth of them missing, and the truth."""
    model, scale = MODELS[name]
    rng = np.random.default_rng(4)
    truth = {"theta": rng.normal(size=N), "a": np.exp(0.4 * rng.normal(size=J))}
    truth["d"] = rng.normal(size=J)
    for further in model.family.further:
        truth[further] = np.full(J, 0.2) if further == "c" else np.exp(0.4 * rng.normal(size=J))
    family = model.family.given([truth[further] for further in model.family.further])
    eta = truth["theta"][:, None] * truth["a"] + truth["d"]
    trials = (RUNS if scale is None else scale.steps) * (rng.uniform(size=(N, J)) < 0.9)
    drawn = family.draw(jax.random.key(0), jnp.asarray(eta), jnp.asarray(trials))
    responses = Responses.from_arrays(np.clip(drawn, 0, trials), trials)
    return replace(responses, scale=scale), truth


@cache
def fitted(name: str) -> PointEstimate:
    return fit_marginal(simulated(name)[0], model=MODELS[name][0])


@pytest.mark.parametrize("name", CASES.values())
def test_abilities_are_integrated_out_as_a_fine_grid_does(name):
    model, _ = MODELS[name]
    responses, point = simulated(name)[0], fitted(name)
    assert point.converged
    grid = np.linspace(-7, 7, 281)

    @jax.jit
    def log_likelihoods(y, n, a, d, *further):
        family = model.family.given([x[:, None] for x in further])
        return family.terms(a[:, None] * grid + d[:, None], y, n).log_likelihood.sum(1)

    y, n = (x.astype(float)[:, :, None] for x in responses.cells.matrices())
    columns = (point[x] for x in ("a", "d", *model.family.further))
    log_joint = np.asarray(log_likelihoods(y, n, *columns)) - grid**2 / 2
    density = np.exp(log_joint - log_joint.max(1, keepdims=True))
    whole = density.sum(1)
    log_likelihood = np.log(whole * (grid[1] - grid[0]) / np.sqrt(2 * np.pi)) + log_joint.max(1)
    assert point.log_likelihood == pytest.approx(log_likelihood.sum(), rel=1e-6)
    mean = density @ grid / whole
    np.testing.assert_allclose(point["theta"], mean, atol=2e-3)
    sd = np.sqrt(density @ grid**2 / whole - mean**2)
    np.testing.assert_allclose(point["theta_se"], sd, rtol=0.02)


@pytest.mark.parametrize("name", [CASES[name] for name in MODELS if "guessing" not in name])
def test_the_truth_lies_within_the_errors(name):
    (_, truth), point = simulated(name), fitted(name)
    theta = np.abs(point["theta"] - truth["theta"]) / point["theta_se"]
    assert (theta < 1.645).mean() > 0.8
    assert np.abs(point["d"] - truth["d"]).mean() < 0.35
    for further in MODELS[name][0].family.further:
        away = np.abs(np.log(point[further] / truth[further]))
        assert away.mean() < 0.6, further
    assert np.isfinite(point.summary.to_numpy()).all()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_estimates_come_back_to_two_decimals(name):
    counts, a, d = PUBLISHED[name]
    responses = Responses.from_arrays(np.repeat(PATTERNS, counts, axis=0))
    point = fit_marginal(responses, model="2pl", shrink=False)
    assert sum(counts) == 1000
    assert point.converged
    np.testing.assert_allclose(point["a"], a, rtol=0, atol=0.005)
    np.testing.assert_allclose(point["d"], d, rtol=0, atol=0.005)


@pytest.mark.parametrize(("name", "shrink"), [("2pl", True), ("2pl", False), ("graded", True)])
def test_optimum_and_errors_are_those_of_the_penalised_marginal_likelihood(name, shrink):
    """Compare with gradient and Hessian over a fine grid, with the items' means free as well."""
    model, _ = MODELS[name]
    responses, _ = simulated(name)
    point = fit_marginal(responses, model=model, shrink=shrink, n_nodes=21, tol=1e-12)
    known, grid = usual_items(model, shrink=shrink), jnp.linspace(-7, 7, 141)
    y, n = (jnp.asarray(x, float)[:, :, None] for x in responses.cells.matrices())
    columns = ["a", "d", *model.family.further]
    sites = [to.inv(point[x]) for to, x in zip(known.to_values, columns, strict=True)]

    def loss(parameters):
        sites, means = parameters
        values = [to(x) for to, x in zip(known.to_values, sites, strict=True)]
        a, d, *further = (x[:, None] for x in values)
        family = model.family.given(further)
        log_p = family.terms(a * grid + d, y, n).log_likelihood.sum(1) - grid**2 / 2
        prior = known.precisions * (sites - means) ** 2
        prior = prior.sum() + ((means - known.centres) ** 2).sum()
        return prior / 2 - jax.nn.logsumexp(log_p, axis=1).sum()

    precision = known.precisions
    own = (precision * jnp.stack(sites)).sum(1, keepdims=True) + known.centres
    means = own / (precision * len(sites[0]) + 1)
    flat, unravel = jax.flatten_util.ravel_pytree((jnp.stack(sites), means))
    gradient = jax.jit(jax.grad(lambda x: loss(unravel(x))))
    covariance = jnp.linalg.inv(jax.jit(jax.jacfwd(gradient))(flat))
    sd = jnp.sqrt(jnp.diag(covariance))
    # Steps set the abilities' level and unit to the population's without regard to the prior.
    assert np.abs(gradient(flat) * sd).max() < 0.03
    errors = unravel(sd)[0]
    usual = 0.001 if name == "2pl" else 0.15  # uses expected information, not observed
    of_a = point["a_se"] / (point["a"] if shrink else 1)
    np.testing.assert_allclose(of_a, errors[0], rtol=usual)
    np.testing.assert_allclose(point["d_se"], errors[1], rtol=usual)


@pytest.mark.parametrize("shape", [(60, 7), (4, 40)], ids=["by items", "by nodes"])
def test_either_side_gives_the_inverse(shape):
    """Compare with the dense matrix's inverse, from pieces of which the last is not full."""
    n, items = shape
    rng = np.random.default_rng(0)
    root = rng.normal(size=(items, 2, 4))
    own = root @ root.swapaxes(1, 2) + n * np.eye(2)
    rows = rng.normal(size=(n, items, 2)) * min(1, n / (4 * items)) ** 0.5 / 2
    found = observed_covariance(own, iter(np.array_split(rows, 3)), by_items=n > items)
    matrix = block_diag(*own) - rows.reshape(n, -1).T @ rows.reshape(n, -1)
    assert np.linalg.eigvalsh(matrix).min() > 0
    whole = np.linalg.inv(matrix).reshape(items, 2, items, 2)
    np.testing.assert_allclose(found, whole[np.arange(items), :, np.arange(items)], rtol=1e-9)


def test_errors_of_items_alone_are_lower_bounds_and_all_that_large_data_have(monkeypatch):
    responses, _ = simulated("2pl")
    own = fit_marginal(responses, errors="own")
    for name in ("a_se", "d_se"):
        assert (own[name] < fitted("2pl")[name]).all()
    monkeypatch.setattr("bayesirt.estimators.marginal.MOST_PRODUCTS", 10)
    large = fit_marginal(responses)
    assert large.settings["errors"] == "own"
    np.testing.assert_array_equal(large["a_se"], own["a_se"])


@pytest.mark.slow
def test_marginal_estimate_is_not_biased_where_the_joint_one_is():
    responses, _, a, d = simulate(2000, 6, seed=4)
    marginal, joint = fit_marginal(responses, shrink=False), fit_cbmm(responses)
    assert np.abs(np.log(marginal["a"] / a)).mean() < 0.12
    assert np.abs(marginal["d"] - d).mean() < 0.1
    assert np.log(joint["a"] / a).mean() > 0.3
    assert np.abs((marginal["a"] - a) / marginal["a_se"]).max() < 3.5


@pytest.mark.slow
def test_few_items_are_fitted_by_em_and_many_by_cbmm():
    few, many = simulate(40, 8)[0], simulate(40, 31)[0]
    assert fit_point(few).settings["estimator"] == "em"
    assert fit_point(many).settings["estimator"] == "cbmm"
    assert fit_point(few, "cbmm").settings["estimator"] == "cbmm"
    one, other = fit_marginal(many, shrink=False), fit_point(many)
    assert spearmanr(one["theta"], other["theta"]).statistic > 0.99


@pytest.mark.slow
def test_guessing_that_is_given_stays_there():
    np.testing.assert_allclose(fitted("3pl guessing")["c"], 0.2, atol=1e-3)


@pytest.mark.parametrize("name", [CASES[name] for name in MODELS if name != "2pl"])
def test_it_is_what_such_models_start_from(name):
    responses, _ = simulated(name)
    model, _ = MODELS[name]
    point = fit_point(responses, model=model)
    assert point.settings["estimator"] == "em"
    assert {*model.family.further} <= {*point.parameters}

"""The multidimensional 2PL by EM: the optimum, recovery, the axes, and invariances."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from mirt_data import rotated_to, simulated
from numpyro.infer.util import log_density
from small_data import as_sparse

from bayesirt import PointEstimate, ResponseError, Responses, fit_marginal
from bayesirt.estimators.ability_beliefs import evidence
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.item_newton import items_loss
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.mirt import em_step, fit_mirt
from bayesirt.estimators.mirt_population import (
    ItemPopulation,
    MirtPopulation,
    best_shift,
    moved_axes,
    population_loss,
    to_standard,
)
from bayesirt.estimators.mirt_start import start
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs, Items, Normal
from bayesirt.estimators.symmetric_matrices import to_root
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import Mirt

DATA = simulated(60, 14, 2, seed=4, trials=4, missing=0.2)
EXACT = {"tolerance": 1e-11, "n_nodes": 15}


@pytest.fixture(scope="module")
def point() -> PointEstimate:
    return fit_mirt(DATA.responses, n_abilities=2, **EXACT)


def log_prior(centre: jax.Array, precision: jax.Array, a: jax.Array, d: jax.Array) -> jax.Array:
    off = jnp.concatenate([a, d[:, None]], 1) - centre
    return -jnp.einsum("jk,kl,jl->", off, precision, off) / 2


def test_bound_written_anew_is_at_its_top():
    """The gradient vanishes, in standard errors, in abilities, items and their population."""
    y, n = map(jnp.asarray, DATA.responses.cells.matrices())
    layout = DenseLayout(y, n)
    parameters, beliefs = start(layout, 2)
    for _ in range(60):
        parameters, beliefs, _ = em_step(Quadrature(15, jnp.float64), layout, parameters, beliefs)
    (items, population), (abilities, unknown) = parameters, beliefs
    points, weights = np.polynomial.hermite_e.hermegauss(15)

    def bound(theta, a, d, mu_a, mu_d):
        x = jnp.concatenate([theta, jnp.ones((60, 1))], 1)
        variance = jnp.einsum("jk,ikl,jl->ij", a, abilities.covariance, a)
        variance += jnp.einsum("ik,jkl,il->ij", x, unknown, x)
        variance += jnp.einsum("ikl,jkl->ij", abilities.covariance, unknown[:, :2, :2])
        eta = theta @ a.T + d + points[:, None, None] * jnp.sqrt(variance)
        values = (y * eta - n * jax.nn.softplus(eta)).sum((1, 2))
        centre = jnp.append(mu_a, mu_d)
        own = log_prior(centre, population.prior.precision, a, d)
        hyper = -(mu_a @ mu_a + mu_d**2 / 4 + (theta**2).sum()) / 2
        return weights @ values / np.sqrt(2 * np.pi) + own + hyper

    at = abilities.mean, *items, population.mu_a, population.mu_d
    gradients = jax.jit(jax.grad(bound, argnums=range(5)))(*at)
    for gradient in gradients:
        assert np.abs(np.asarray(gradient)).max() < 1e-6


def exact_log_likelihood(a, d):
    """Integrate two abilities out over a grid, independently of the estimator's code."""
    y, n = map(jnp.asarray, DATA.responses.cells.matrices())
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(points, points), -1).reshape(-1, 2)
    shares = jnp.log(np.outer(weights, weights).ravel() / (2 * np.pi))
    eta = grid @ a.T + d
    values = y @ eta.T - n @ jax.nn.softplus(eta).T
    return jax.scipy.special.logsumexp(values + shares, axis=1).sum()


def test_exact_marginal_likelihood_hardly_rises_from_the_estimate(point):
    """The normal approximation moves parameters by less than two fifths of a standard error."""
    a, d = jnp.asarray(point["a"]), jnp.asarray(point["d"])
    precision = np.zeros((3, 3))
    precision[:2, :2], precision[2, 2] = point["precision_a"], point["sigma_d"] ** -2
    centre = np.append(point["mu_a"], point["mu_d"])

    def target(a, d):
        return exact_log_likelihood(a, d) + log_prior(centre, precision, a, d)

    gradients = jax.jit(jax.grad(target, argnums=(0, 1)))(a, d)
    for gradient, name in zip(gradients, ("a_se", "d_se"), strict=True):
        assert np.abs(np.asarray(gradient) * point[name]).max() < 0.4
    exact = float(jax.jit(exact_log_likelihood)(a, d))
    assert point.log_likelihood < exact
    assert point.log_likelihood == pytest.approx(exact, abs=0.2 * 60)


def random_population(rng: np.random.Generator, k: int) -> ItemPopulation:
    root = rng.normal(size=(k, k))
    covariance = jnp.asarray(root @ root.T + np.eye(k) / 2)
    numbers = (jnp.asarray(x) for x in rng.normal(size=2))
    return ItemPopulation(jnp.asarray(rng.normal(size=k)), to_root(covariance), *numbers)


def prior_loss(items: Items, covariance: jax.Array, population: ItemPopulation) -> jax.Array:
    """Return the negative log prior of items and of their population."""
    return items_loss(items, covariance, population.prior) + population_loss(population)


def test_prior_is_that_of_the_numpyro_model():
    rng = np.random.default_rng(0)
    trials = np.zeros((3, 5), int)
    density = jax.jit(lambda sites: log_density(Mirt(2), (trials, trials), {}, sites)[0])
    loss = jax.jit(prior_loss)

    def both(seed):
        draws = np.random.default_rng(seed)
        items = Items(*(jnp.asarray(draws.normal(size=s)) for s in ((5, 2), (5,))))
        population = random_population(draws, 2)
        sites = {
            "theta": jnp.zeros((3, 2)),
            "a": items.a,
            "d": items.d,
            "mu_a": population.mu_a,
            "precision_a": population.precision_a,
            "mu_d": population.mu_d,
            "mu_b": jnp.zeros(2),  # as the estimator fixes it
            "sigma_d": jnp.exp(population.log_sigma_d),
        }
        known = jnp.broadcast_to(1e-14 * jnp.eye(3), (5, 3, 3))
        return density(sites), loss(items, known, population)

    values = np.array([both(seed) for seed in rng.integers(1000, size=4)])
    np.testing.assert_allclose(np.diff(values[:, 0]), -np.diff(values[:, 1]), rtol=1e-9)


def test_neither_likelihood_nor_prior_sees_rotations():
    rng = np.random.default_rng(1)
    y, n = DATA.responses.cells.matrices()
    population = random_population(rng, 2)
    compiled = jax.jit(lambda sites: log_density(Mirt(2), (n, y), {}, sites)[0])
    turn, lean = np.linalg.qr(rng.normal(size=(2, 2)))[0], jnp.asarray(rng.normal(size=2))

    def density(turn):
        sites = {
            "theta": jnp.asarray(DATA.theta @ turn),
            "a": jnp.asarray(DATA.a @ turn),
            "d": jnp.asarray(DATA.d),
            "mu_a": population.mu_a @ turn,
            "precision_a": turn.T @ population.precision_a @ turn,
            "mu_d": population.mu_d,
            "mu_b": lean @ turn,
            "sigma_d": jnp.exp(population.log_sigma_d),
        }
        return float(compiled(sites))

    assert density(turn) == pytest.approx(density(np.eye(2)), rel=1e-10)


def test_location_and_scale_are_the_best():
    """A further move of the axes does not change the loss to first order."""
    rng = np.random.default_rng(2)
    roots = 0.3 * rng.normal(size=(20, 2, 2)) + np.eye(2)
    abilities = Abilities(
        jnp.asarray(1 + 2 * rng.normal(size=(20, 2))), jnp.asarray(roots @ roots.mT)
    )
    items = Items(*(jnp.asarray(rng.normal(size=s)) for s in ((6, 2), (6,))))
    unknown = jnp.broadcast_to(jnp.eye(3) / 10, (6, 3, 3))
    first = MirtPopulation(items, random_population(rng, 2)), Beliefs(abilities, unknown)
    first = jax.device_get(first)
    standard = Normal(jnp.zeros(2), jnp.eye(2))

    def loss(matrix, shift, mu_d, moved):
        (items, population), beliefs = moved_axes(*moved, matrix, shift)
        population = population._replace(mu_d=mu_d)
        own = evidence(beliefs.abilities, standard, jnp.zeros(20)).sum()
        return prior_loss(items, beliefs.unknown, population) - own

    @jax.jit
    def gradients(moved):
        at = jnp.eye(2), jnp.zeros(2), moved[0].population.mu_d
        return jax.grad(loss, argnums=(0, 1, 2))(*at, moved)

    def located(parameters, beliefs):
        shift, mu_d = best_shift(parameters, beliefs)
        (items, population), beliefs = moved_axes(parameters, beliefs, np.eye(2), shift)
        return MirtPopulation(items, population._replace(mu_d=mu_d)), beliefs

    _, shift, mu_d = gradients(located(*first))
    np.testing.assert_allclose(shift, 0, atol=1e-8)
    assert float(mu_d) == pytest.approx(0, abs=1e-8)
    scale = gradients(to_standard(*first, items))[0]
    np.testing.assert_allclose(scale, 0, atol=1e-8)


def test_parameters_of_a_leap_too_far_have_an_infinite_loss():
    layout = DenseLayout(*map(jnp.asarray, DATA.responses.cells.matrices()))
    parameters, beliefs = start(layout, 2)
    population = parameters.population._replace(root_a=np.full((2, 2), np.nan))
    far = parameters._replace(population=population)
    assert em_step(Quadrature(15, jnp.float64), layout, far, beliefs)[2] == np.inf


def test_axes_are_principal(point):
    square = point["a"].T @ point["a"]
    assert abs(square[0, 1]) < 1e-8 * square[0, 0]
    assert square[0, 0] > square[1, 1]
    assert (point["a"].sum(0) >= 0).all()


def test_result_is_complete(point, tmp_path):
    assert point.converged
    shapes = {
        "theta": (60, 2),
        "theta_covariance": (60, 2, 2),
        "a": (14, 2),
        "d": (14,),
        "item_covariance": (14, 3, 3),
        "mu_a": (2,),
        "precision_a": (2, 2),
        "mu_d": (),
        "sigma_d": (),
    }
    for name, shape in shapes.items():
        assert point[name].shape == shape
        assert np.isfinite(point[name]).all()
    variances = np.diagonal(point["item_covariance"], axis1=1, axis2=2)
    np.testing.assert_allclose(np.sqrt(variances[:, :2]), point["a_se"])
    np.testing.assert_allclose(np.sqrt(variances[:, 2]), point["d_se"])
    table = point.summary
    assert len(table) == 120 + 28 + 14
    assert table.loc[("a", "item 3, ability 2"), "estimate"] == point["a"][2, 1]
    point.save(tmp_path / "point.nc")
    back = PointEstimate.load(tmp_path / "point.nc")
    assert back.parameters.identical(point.parameters)
    assert back.settings == point.settings


@pytest.mark.slow
def test_several_abilities_come_back():
    data = simulated(500, 80, 2, seed=1)
    point = fit_mirt(data.responses, n_abilities=2)
    turn = rotated_to(point["a"], data.a)
    for k, least in ((0, 0.93), (1, 0.85)):
        assert np.corrcoef((point["theta"] @ turn)[:, k], data.theta[:, k])[0, 1] > least
        assert np.corrcoef((point["a"] @ turn)[:, k], data.a[:, k])[0, 1] > 0.9
    np.testing.assert_allclose(
        point["theta"] @ point["a"].T + point["d"], data.eta, atol=2.5, rtol=0.3
    )
    z = (point["a"] - data.a @ turn.T) / point["a_se"]
    assert 0.85 < z.std() < 1.3
    z = (point["d"] - data.d) / point["d_se"]
    assert 0.75 < z.std() < 1.3


@pytest.mark.slow
def test_one_ability_agrees_with_marginal_likelihood():
    data = simulated(1500, 40, 1, seed=3)
    one, other = fit_mirt(data.responses), fit_marginal(data.responses, model="2pl", shrink=False)
    theta = one["theta"][:, 0]
    assert np.corrcoef(theta, other["theta"])[0, 1] > 0.999
    np.testing.assert_allclose(theta, other["theta"], atol=0.12)
    np.testing.assert_allclose(one["theta_se"][:, 0], other["theta_se"], rtol=0.12)
    np.testing.assert_allclose(one["a"][:, 0], other["a"], atol=0.15)
    np.testing.assert_allclose(one["d"], other["d"], atol=0.08)
    ratio = one["a_se"][:, 0] / other["a_se"]
    assert 0.8 < ratio.mean() < 1  # shrunk, and a tenth too small with few items


def test_errors_of_all_items_together_hold_the_common_part(point):
    own = fit_mirt(DATA.responses, n_abilities=2, errors="own", **EXACT)
    np.testing.assert_array_equal(own["a"], point["a"])
    assert (own["d_se"] < point["d_se"]).all()
    assert own["d_se"] == pytest.approx(point["d_se"], rel=0.4)


def test_relabelling_permutes_the_answer(point):
    rng = np.random.default_rng(0)
    subjects, items = rng.permutation(60), rng.permutation(14)
    other = fit_mirt(DATA.responses.select(subjects, items), n_abilities=2, **EXACT)
    np.testing.assert_allclose(other["theta"], point["theta"][subjects], atol=1e-4)
    for name in ("a", "d", "item_covariance"):
        np.testing.assert_allclose(other[name], point[name][items], atol=1e-4)


def test_cells_without_trials_say_nothing(point):
    other = fit_mirt(as_sparse(DATA.responses), n_abilities=2, **EXACT)
    np.testing.assert_array_equal(other["theta"], point["theta"])
    table = DATA.responses.to_long()
    rows = table.loc[table.index.repeat(table["trials"])].reset_index(drop=True)
    within = rows.groupby(["subject", "item"]).cumcount()
    rows = pd.DataFrame(
        {
            "subject": rows["subject"],
            "item": rows["item"],
            "score": (within < rows["successes"]).astype(int),
        }
    )
    repeated = Responses.from_long(rows, duplicates="trials")
    order = [
        np.array([own.index(name) for name in names])
        for own, names in (
            (repeated.subjects, DATA.responses.subjects),
            (repeated.items, DATA.responses.items),
        )
    ]
    other = fit_mirt(repeated.select(*order), n_abilities=2, **EXACT)
    np.testing.assert_allclose(other["theta"], point["theta"], atol=1e-8)


def test_fit_goes_on_from_another(point):
    other = fit_mirt(DATA.responses, n_abilities=2, init=point, **EXACT)
    assert other.trace[0] - other.trace[-1] < (point.trace[0] - point.trace[-1]) / 5
    np.testing.assert_allclose(other["a"], point["a"], atol=1e-4)
    with pytest.raises(ResponseError, match="start from a fit of the same items"):
        fit_mirt(DATA.responses, n_abilities=1, init=point)


@pytest.mark.parametrize("kind", ["right", "wrong", "steps", "single"])
def test_extreme_answers_stay_finite(kind):
    y = {"right": np.ones, "wrong": np.zeros, "steps": np.tri, "single": np.eye}[kind]
    y = y((8, 12)) if kind in ("right", "wrong") else y(8, 12)
    point = fit_mirt(Responses.from_arrays(y), n_abilities=2)
    for name in ("theta", "a", "d", "a_se", "d_se", "theta_se"):
        assert np.isfinite(point[name]).all()
    assert np.abs(point["d"]).max() < 20
    assert np.abs(point["a"]).max() < 20


def test_bad_input_is_refused_in_a_sentence():
    for n_abilities in (0, 14):
        with pytest.raises(ResponseError, match="cannot be estimated from 14 items"):
            fit_mirt(DATA.responses, n_abilities=n_abilities)
    with pytest.warns(ConvergenceWarning, match="mirt: the loss still changes"):
        point = fit_mirt(DATA.responses, n_abilities=2, max_iterations=1, tolerance=0.0)
    assert not point.converged


@pytest.mark.slow
def test_real_suite_in_seconds_with_a_better_fit_for_more_abilities(shared):
    data = np.load(shared / "data" / "metabench_joint5.npz")
    responses = Responses.from_arrays(data["Y"], items=data["items"])
    one, five = (fit_mirt(responses, n_abilities=k) for k in (1, 5))
    assert one.converged
    assert five.converged
    assert five.log_likelihood > one.log_likelihood + 50_000

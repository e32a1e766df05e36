"""Fine-grained abilities by EM: the optimum, recovery, and invariances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import spearmanr
from small_data import as_sparse

from bayesirt import PointEstimate, ResponseError, Responses, fit_marginal
from bayesirt.data.q_matrix import QMatrix
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.profiles.simulation import simulate_q_mirt
from bayesirt.studies.abilities_matrix import draw_suite, study_q_matrix
from bayesirt.studies.tasks import PortableKey

Q = QMatrix.from_arrays(np.tile([[1, 0], [0, 1], [1, 1]], (6, 1)))
SIMULATED = simulate_q_mirt(30, Q, key=jax.random.key(0), correlation=0.6, trials=3, missing=0.2)
RESPONSES = SIMULATED.responses
SCALARS = ("mu_a", "sigma_a", "mu_d", "sigma_d", "sigma_beta")
each_structure = pytest.mark.parametrize("structure", ["correlated", "general", "independent"])


@pytest.fixture(scope="module")
def point() -> PointEstimate:
    return fit_q_mirt(RESPONSES, Q)


def expected_log_density(
    point: PointEstimate, mean: jax.Array, log_a: jax.Array, d: jax.Array, covariance: jax.Array
) -> jax.Array:
    """Return the expected log likelihood plus log priors, independently of the estimator's code."""
    y, n = RESPONSES.cells.matrices()
    item, ability = Q.loadings
    a = jnp.zeros(Q.needs.shape).at[item, ability].set(jnp.exp(log_a))
    spread = jnp.sqrt(jnp.einsum("jk,ikl,jl->ij", a, covariance, a))
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    eta = mean @ a.T + d + points[:, None, None] * spread
    values = (y * eta - n * jax.nn.softplus(eta)).sum((1, 2))
    expected = weights @ values / np.sqrt(2 * np.pi)
    precision = np.linalg.inv(point["correlation"])
    squares = jnp.einsum("ik,kl,il->", mean, precision, mean)
    squares += jnp.sum((log_a - point["mu_a"]) ** 2) / point["sigma_a"] ** 2
    centre = point["mu_d"] + Q.needs @ point["beta"]
    squares += jnp.sum((d - centre) ** 2) / point["sigma_d"] ** 2
    return expected - squares / 2


def covariances(point: PointEstimate) -> np.ndarray:
    """Return the fixed point of covariance = (AᵀE[W]A + Ω⁻¹)⁻¹."""
    _, n = RESPONSES.cells.matrices()
    a = np.zeros(Q.needs.shape)
    a[Q.loadings] = point["a"]
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    found = np.tile(point["correlation"], (RESPONSES.n_subjects, 1, 1))
    for _ in range(100):
        spread = np.sqrt(np.einsum("jk,ikl,jl->ij", a, found, a))
        eta = point["theta"] @ a.T + point["d"] + nodes[:, None, None] * spread
        p = 1 / (1 + np.exp(-eta))
        w = n * np.tensordot(weights, p * (1 - p), 1) / np.sqrt(2 * np.pi)
        precision = np.linalg.inv(point["correlation"]) + np.einsum("ij,jk,jl->ikl", w, a, a)
        found = np.linalg.inv(precision)
    return found


@pytest.mark.slow
@each_structure
def test_gradient_vanishes_at_the_estimate(structure):
    """The gradient of an independent objective vanishes, in standard errors."""
    point = fit_q_mirt(RESPONSES, Q, structure=structure, tolerance=1e-12, n_nodes=9)
    found = covariances(point)
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(found, axis1=1, axis2=2)), point["theta_se"], rtol=1e-4
    )
    arguments = (point["theta"], np.log(point["a"]), point["d"], found)
    gradients = jax.grad(lambda *x: expected_log_density(point, *x), argnums=(0, 1, 2))(
        *map(jnp.asarray, arguments)
    )
    errors = point["theta_se"], point["a_se"] / point["a"], point["d_se"]
    for gradient, error in zip(gradients, errors, strict=True):
        assert np.abs(np.asarray(gradient) * error).max() < 1e-3


@pytest.mark.slow
@each_structure
def test_result_is_complete(structure, tmp_path):
    point = fit_q_mirt(RESPONSES, Q, structure=structure)
    assert point.converged
    dims = {"theta": (30, 2), "a": (24,), "d": (18,), "beta": (2,), "correlation": (2, 2)}
    for name, shape in {**dims, **dict.fromkeys(SCALARS, ())}.items():
        assert point[name].shape == shape
        assert np.isfinite(point[name]).all()
    assert (point["a"] > 0).all()
    for name in ("theta", "a", "d"):
        assert (point[f"{name}_se"] > 0).all()
    np.testing.assert_allclose(np.diag(point["correlation"]), 1)
    off = point["correlation"][0, 1]
    if structure == "general":
        assert off == pytest.approx(np.prod(point["general"]))
    assert (off == 0) == (structure == "independent")
    table = point.summary
    assert len(table) == 60 + 24 + 18
    assert table.loc[("theta", "subject 2, ability 1"), "estimate"] == point["theta"][1, 0]
    assert table.loc[("a", "item 3: ability 2"), "estimate"] == point["a"][3]
    point.save(tmp_path / "point.nc")
    back = PointEstimate.load(tmp_path / "point.nc")
    assert back.parameters.identical(point.parameters)
    assert back.settings == point.settings


@pytest.mark.slow
def test_known_truth_comes_back_with_errors_of_the_right_size():
    q = QMatrix.from_arrays(np.tile([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]], (10, 1)))
    known = simulate_q_mirt(600, q, key=jax.random.key(2), correlation=0.5)
    point, truth = fit_q_mirt(known.responses, q), known.parameters
    theta, a, d = (truth[name].to_numpy() for name in ("theta", "a", "d"))
    (item, ability), mean, sd = q.loadings, theta.mean(0), theta.std(0)
    on_sample = {
        "theta": (theta - mean) / sd,
        "a": a * sd[ability],
        "d": d + np.bincount(item, a * mean[ability]),
    }
    for name, values in on_sample.items():
        z = (point[name] - values) / point[f"{name}_se"]
        assert abs(z.mean()) < 0.35, name
        assert 0.85 < z.std() < 1.5, name  # errors of items are lower bounds
    for k in range(3):
        assert np.corrcoef(point["theta"][:, k], truth["theta"][:, k])[0, 1] > 0.75
    off = point["correlation"][np.triu_indices(3, 1)]
    np.testing.assert_allclose(off, 0.5, atol=0.15)
    assert point["sigma_a"] == pytest.approx(0.3, abs=0.1)
    assert point["sigma_d"] == pytest.approx(1.0, abs=0.25)


@pytest.mark.slow
def test_one_ability_agrees_with_marginal_likelihood():
    q = QMatrix.from_arrays(np.ones((12, 1)))
    known = simulate_q_mirt(1500, q, key=jax.random.key(3), sigma_a=0.4)
    one, other = (
        fit_q_mirt(known.responses, q),
        fit_marginal(known.responses, model="2pl", shrink=False),
    )
    assert spearmanr(one["theta"][:, 0], other["theta"]).statistic > 0.99
    np.testing.assert_allclose(one["theta"][:, 0], other["theta"], atol=0.12)
    np.testing.assert_allclose(one["theta_se"][:, 0], other["theta_se"], rtol=0.12)
    assert np.mean(one["a"]) == pytest.approx(np.mean(other["a"]), rel=0.1)
    np.testing.assert_allclose(one["d"], other["d"], atol=0.3)


def test_relabelling_permutes_the_answer(point):
    rng = np.random.default_rng(0)
    subjects, items, abilities = rng.permutation(30), rng.permutation(18), np.array([1, 0])
    moved = QMatrix.from_arrays(Q.needs[:, abilities], Q.items, [Q.abilities[k] for k in abilities])
    other = fit_q_mirt(RESPONSES.select(subjects, items), moved)
    np.testing.assert_allclose(
        other["theta"], point["theta"][np.ix_(subjects, abilities)], atol=1e-7
    )
    np.testing.assert_allclose(other["d"], point["d"][items], atol=1e-7)
    by_name = point.parameters["a"].sel(loading=other.parameters["loading"])
    np.testing.assert_allclose(other["a"], by_name, rtol=1e-7)
    np.testing.assert_allclose(other["beta"], point["beta"][abilities], atol=1e-7)


def test_cells_without_trials_say_nothing(point):
    """Neither the values in them nor the way they are stored matters."""
    np.testing.assert_array_equal(fit_q_mirt(as_sparse(RESPONSES), Q)["theta"], point["theta"])
    y, n = (x.astype(float) for x in RESPONSES.cells.matrices())
    once = np.where(n > 0, y > 0, np.nan)
    missing = fit_q_mirt(Responses.from_arrays(once), Q)
    masked = fit_q_mirt(Responses.from_arrays(np.nan_to_num(once), n > 0), Q)
    np.testing.assert_array_equal(missing["theta"], masked["theta"])
    assert not np.allclose(missing["theta"], point["theta"], atol=0.01)


@pytest.mark.slow
def test_extreme_responses_stay_finite():
    for y in (np.ones((8, 18)), np.zeros((8, 18)), np.tri(8, 18), np.eye(8, 18)):
        point = fit_q_mirt(Responses.from_arrays(y), Q, tolerance=1e-4)
        for name in ("theta", "a", "d", *SCALARS):
            assert np.isfinite(point[name]).all()
        assert np.abs(point["d"]).max() < 20
        assert point["a"].max() < 20


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(ResponseError, match="`structure` must be one of correlated, general"):
        fit_q_mirt(RESPONSES, Q, structure="banana")
    with pytest.raises(ResponseError, match="no row for items"):
        fit_q_mirt(RESPONSES, QMatrix.from_arrays(np.eye(2, dtype=int)))
    with pytest.warns(ConvergenceWarning, match="q_mirt: the loss still changes"):
        point = fit_q_mirt(RESPONSES, Q, max_iterations=1, tolerance=0.0)
    assert not point.converged


@pytest.mark.slow
def test_real_data_fit_better_with_abilities_than_with_one(shared):
    data = np.load(shared / "data" / "qmatrix_ecpe.npz")
    q = QMatrix.from_arrays(data["Q"], data["items"], data["Q_names"])
    answers = np.where(data["Y"] < 0, np.nan, data["Y"])
    responses = Responses.from_arrays(answers, items=data["items"])
    one = QMatrix.from_arrays(np.ones((28, 1)), q.items)
    several, single = fit_q_mirt(responses, q), fit_q_mirt(responses, one)
    assert several.converged
    assert several.log_likelihood > single.log_likelihood + 20
    assert several["correlation"][np.triu_indices(3, 1)].min() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "replication", "n_nodes"), [("coverage 0", 341, 5), ("stress", 55, 15)]
)
def test_steep_items_do_not_run_away(name, replication, n_nodes):
    """In suites with slopes of 20 and more, the loss falls and then stays level."""
    key = PortableKey.of(jax.random.key(0))
    q = study_q_matrix(40, 3, np.random.default_rng([0, 0, 0]))
    of_suite, _ = jax.random.split(key.folded(name, replication))
    suite = draw_suite(200, q, key=of_suite)
    point = fit_q_mirt(suite.responses, q)
    assert point.converged
    assert point.trace[-1] < point.trace.min() + 1
    assert point.settings["n_nodes"] == n_nodes
    assert 5 < point["a"].max() < 20
    for k in range(3):
        assert np.corrcoef(point["theta"][:, k], suite.parameters["theta"][:, k])[0, 1] > 0.8

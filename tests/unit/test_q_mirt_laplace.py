"""The Q-matrix model by Laplace's approximation: what it keeps, says of itself and refuses."""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt import (
    PointEstimate,
    Posterior,
    QMatrix,
    ResponseError,
    Responses,
    RunOptions,
    sample_q_mirt,
    simulate_q_mirt,
)
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.inference import engines
from bayesirt.inference.hamiltonian import follow
from bayesirt.inference.laplace import ApproximationWarning
from bayesirt.inference.q_mirt_laplace import sample_q_mirt_laplace
from bayesirt.inference.q_mirt_mode import _mended
from bayesirt.models import QMirt
from bayesirt.profiles.ability_profiles import profile_abilities
from bayesirt.profiles.item_prediction import predict_items

KEY = jax.random.key(0)
NEEDS = np.zeros((24, 3), int)
NEEDS[np.arange(24), np.arange(24) % 3] = 1
NEEDS[::4, 1] = 1
Q = QMatrix.from_arrays(NEEDS)
RUN = RunOptions(num_chains=2, num_samples=50)


@cache
def answers() -> Responses:
    return simulate_q_mirt(40, Q, key=KEY, correlation=0.5).responses


@cache
def estimate() -> PointEstimate:
    return fit_q_mirt(answers(), Q)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return sample_q_mirt(answers(), Q, key=KEY, engine="laplace", init=estimate(), options=RUN)


@pytest.mark.slow
def test_posterior_holds_the_models_sites_and_says_how_it_was_made(posterior, tmp_path):
    spreads = {f"{kind}_{name}" for kind in ("mu", "sigma") for name in "ad"} | {"sigma_beta"}
    sites = {"theta", "a", "d", "beta", "mu_b", "correlation"} | spreads
    assert set(map(str, posterior.dataset.data_vars)) == sites
    assert posterior["theta"].shape == (2, 50, 40, 3)
    assert posterior["a"].shape == (2, 50, NEEDS.sum())
    attrs = posterior.tree.attrs
    assert (attrs["model"], attrs["engine"], attrs["approximate"]) == ("Q-matrix 2PL", "laplace", 1)
    assert (attrs["few"], attrs["converged"], attrs["information"]) == (0, 1, "observed")
    assert posterior.verdict.sound
    assert "Laplace approximation, not exact" in posterior.verdict.to_text()
    posterior.save(tmp_path / "posterior.nc")
    again = Posterior.load(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(again.draws("theta"), posterior.draws("theta"))


@pytest.mark.slow
def test_every_draw_is_a_place_that_the_model_allows(posterior):
    assert all(np.isfinite(posterior[str(x)]).all() for x in posterior.dataset.data_vars)
    assert (posterior.draws("a") > 0).all()
    omega = posterior.draws("correlation")
    np.testing.assert_allclose(np.diagonal(omega, axis1=1, axis2=2), 1, rtol=1e-9)
    assert np.linalg.eigvalsh(omega).min() > 0


@pytest.mark.slow
def test_draws_lie_around_the_point_estimate(posterior):
    for name in ("theta", "d"):
        draws = posterior.draws(name)
        z = (draws.mean(0) - estimate()[name]) / draws.std(0)
        assert np.sqrt(np.mean(z**2)) < 0.5


@pytest.mark.slow
def test_profiles_and_predictions_rest_on_it_as_on_any_posterior(posterior):
    profiles = profile_abilities(posterior, Q)
    assert len(profiles.summary) == 40 * 3
    new = QMatrix.from_arrays([[1, 1]], ["new"], Q.abilities[::2])
    predictions = predict_items(posterior, new, key=KEY)
    assert ((predictions.low < predictions.probability) & (predictions.high > 0)).all()


@pytest.mark.slow
def test_same_key_gives_the_same_draws(posterior):
    def again(key: int) -> np.ndarray:
        settings = {"engine": "laplace", "init": estimate(), "options": RUN}
        return sample_q_mirt(answers(), Q, key=jax.random.key(key), **settings).draws("theta")

    np.testing.assert_array_equal(again(0), posterior.draws("theta"))
    assert (again(1) != posterior.draws("theta")).all()


def test_large_data_take_it_by_themselves(monkeypatch):
    asked = {}

    def noted(*_: object, **settings: object) -> str:
        asked.update(settings)
        return "drawn"

    monkeypatch.setattr(engines, "MOST_OF_SEVERAL_ABILITIES", answers().n_observed - 1)
    monkeypatch.setitem(engines.ENGINES["laplace"].own, QMirt, noted)
    options = RunOptions(num_chains=3, num_samples=7)
    drawn = sample_q_mirt(answers(), Q, key=KEY, options=options)
    assert (drawn, asked["options"]) == ("drawn", options)


def test_items_without_a_row_are_refused():
    with pytest.raises(ResponseError, match="no row for item"):
        sample_q_mirt(Responses.from_arrays(np.tri(4, 25)), Q, key=KEY, engine="laplace")


@pytest.mark.slow
def test_few_subjects_and_a_peak_out_of_reach_are_said():
    few = simulate_q_mirt(12, Q, key=jax.random.key(4)).responses
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        posterior = sample_q_mirt_laplace(
            few,
            key=KEY,
            model=QMirt.of(Q.for_items(few.items)),
            options=RunOptions(num_samples=2),
            max_iterations=0,
            tol=0,
        )
    kinds = {warning.category for warning in raised}
    assert {ApproximationWarning, ConvergenceWarning} <= kinds
    assert not posterior.verdict.sound
    assert "too few subjects or items" in posterior.verdict.to_text()
    assert "were not reached" in posterior.verdict.to_text()


def test_mended_information_keeps_a_tenth_of_the_complete_one_in_every_direction():
    rng = np.random.default_rng(0)
    complete = jnp.asarray(np.cov(rng.normal(size=(5, 40))) + np.eye(5))
    share = np.diag([0.9, 0.5, 0.2, 0.05, -0.3])
    root = np.linalg.cholesky(complete) @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    mended = _mended(jnp.asarray(root @ share @ root.T), complete)
    inside = np.linalg.solve(root, np.linalg.solve(root, np.asarray(mended)).T)
    np.testing.assert_allclose(np.diag(inside), [0.9, 0.5, 0.2, 0.1, 0.1], rtol=1e-9)
    np.testing.assert_allclose(inside - np.diag(np.diag(inside)), 0, atol=1e-9)


def test_trajectories_keep_a_density():
    """Means and covariances of 4000 chains of 20 trajectories, at five standard errors."""
    covariance = jnp.array([[1.0, 0.6], [0.6, 0.7]])
    precision = jnp.linalg.inv(covariance)

    def chain(key: jax.Array) -> jax.Array:
        def again(time: jax.Array, place: jax.Array) -> jax.Array:
            own = jax.random.fold_in(key, time)
            density = lambda x: -x @ precision @ x / 2 + 0.5 * x[0]  # noqa: E731
            return follow(own, place, density, step=0.9, n_steps=4).position

        return jax.lax.fori_loop(0, 20, again, jnp.zeros(2))

    draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(KEY, 4000)))
    mean = np.asarray(covariance[0]) * 0.5
    error = np.sqrt(np.diag(covariance) / 4000)
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * 1.5 / np.sqrt(4000))

"""The Q-matrix model's Laplace approximation against brute force and against exact draws."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from bayesirt import Responses, RunOptions
from bayesirt.data.q_matrix import QMatrix
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.normal_beliefs import Abilities
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.inference.engines import sample_q_mirt
from bayesirt.inference.q_mirt_approximation import Approximation
from bayesirt.inference.q_mirt_information import (
    QMirtProblem,
    directions,
    flat_parameters,
    in_chunks,
    marginal_terms,
    turning_of,
    with_parameters,
)
from bayesirt.inference.q_mirt_mode import find_peak, start_sites
from bayesirt.inference.q_mirt_moves import slopes_of
from bayesirt.models import QMirt
from bayesirt.profiles.simulation import simulate_q_mirt

Q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [1, 1]])
STRUCTURES = pytest.mark.parametrize("structure", ["correlated", "general", "independent"])

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
GRID = np.array(list(itertools.product(NODES, NODES)))
SHARES = np.array([np.prod(w) for w in itertools.product(WEIGHTS, WEIGHTS)])
SHARES = SHARES / SHARES.sum()


@cache
def answers() -> Responses:
    return simulate_q_mirt(7, Q, key=jax.random.key(3), correlation=0.6).responses


@cache
def problem_and_place(structure: str, n_nodes: int = 61):
    """Return a problem and a place that is nothing special, with correlated uncertainty."""
    point = fit_q_mirt(answers(), Q, structure=structure)
    problem = QMirtProblem.of(answers(), QMirt.of(Q, structure))
    problem = QMirtProblem(
        problem.layout, problem.slots, problem.way, Quadrature(n_nodes, jnp.float64)
    )
    sites = find_peak(problem, point, tol=1e-2, max_iterations=50).sites
    rng = np.random.default_rng(0)
    roots = rng.normal(0, 0.4, (7, 2, 2)) + 0.5 * np.eye(2)
    covariance = roots @ roots.transpose(0, 2, 1)
    return problem, sites, Abilities(jnp.asarray(rng.normal(size=(7, 2))), jnp.asarray(covariance))


@cache
def problem_and_peak():
    """Return a problem whose abilities correlate, and its peak."""
    problem = QMirtProblem.of(answers(), QMirt.of(Q, "correlated"))
    return problem, find_peak(problem, fit_q_mirt(answers(), Q), tol=1e-6, max_iterations=200)


def log_joint_of(problem: QMirtProblem, sites: dict):
    """Return the readable model's log density of one subject's answers and abilities."""
    successes, trials = (jnp.asarray(x) for x in answers().cells.matrices())

    def log_joint(flat, theta, i):
        own = with_parameters(sites, flat)
        omega = problem.correlation(own)
        eta = slopes_of(problem.way.needs, own) @ theta + own["d"]
        answers = successes[i] * eta - trials[i] * jnp.logaddexp(0, eta)
        return (
            answers.sum()
            - jnp.linalg.slogdet(omega)[1] / 2
            - theta @ jnp.linalg.solve(omega, theta) / 2
        )

    return log_joint


@jax.jit
def directions_of_all(problem: QMirtProblem, sites: dict, abilities: Abilities):
    chunk = in_chunks(problem, problem.cells(sites, abilities), abilities, 7)
    of_all = jax.tree.map(lambda x: x[0], chunk)
    return directions(problem, sites, turning_of(problem, sites), *of_all)


@pytest.mark.slow
@STRUCTURES
def test_directions_are_expected_derivatives_of_each_subjects_score(structure):
    problem, sites, abilities = problem_and_place(structure)
    log_joint, here = log_joint_of(problem, sites), flat_parameters(sites)
    root = np.linalg.cholesky(abilities.covariance)
    found = directions_of_all(problem, sites, abilities)

    def score(theta, i):
        return jax.grad(log_joint)(here, theta, i)

    derivatives = [
        jax.jit(jax.vmap(of(score), in_axes=(0, None))) for of in (jax.jacfwd, jax.hessian)
    ]
    x, y = np.tril_indices(2)
    for i in (0, 4):
        theta = abilities.mean[i] + GRID @ root[i].T
        first, second = (of_subject(theta, i) for of_subject in derivatives)
        along = np.einsum("n,npk->pk", SHARES, first) @ root[i]
        across = np.einsum("n,npkl,kx,ly->pxy", SHARES, second, root[i], root[i])[:, x, y]
        across = across * np.where(x == y, np.sqrt(0.5), 1)
        np.testing.assert_allclose(found.along[i], along, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.across[i], across, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@STRUCTURES
def test_score_and_complete_information_are_expectations_of_the_readable_densitys(structure):
    problem, sites, abilities = problem_and_place(structure)
    log_joint, here = log_joint_of(problem, sites), flat_parameters(sites)
    root = np.linalg.cholesky(abilities.covariance)
    theta = abilities.mean[:, None] + np.einsum("nk,ilk->inl", GRID, root)

    def expected(flat):
        def of_subject(thetas, i):
            return SHARES @ jax.vmap(lambda t: log_joint(flat, t, i))(thetas)

        return jax.vmap(of_subject)(theta, jnp.arange(7)).sum()

    terms = jax.jit(marginal_terms)(problem, sites, abilities)
    np.testing.assert_allclose(terms.score, jax.jit(jax.grad(expected))(here), rtol=1e-6, atol=1e-8)
    hessian = jax.jit(jax.hessian(expected))(here)
    np.testing.assert_allclose(terms.complete, -hessian, rtol=1e-6, atol=1e-8)


def exact_information(problem: QMirtProblem, sites: dict, abilities: Abilities) -> np.ndarray:
    """Return minus the Hessian of the marginal log likelihood, abilities summed over a grid."""
    log_joint, here = log_joint_of(problem, sites), flat_parameters(sites)
    root = np.linalg.cholesky(abilities.covariance)
    theta = abilities.mean[:, None] + np.einsum("nk,ilk->inl", GRID, root)
    log_shares = jnp.log(SHARES) + (GRID**2).sum(1) / 2

    def marginal(flat):
        of_subject = jax.vmap(lambda t, i: log_joint(flat, t, i), in_axes=(0, None))
        each = jax.vmap(of_subject)(theta, jnp.arange(len(theta)))
        return jax.scipy.special.logsumexp(each + log_shares, axis=1).sum()

    return -np.asarray(jax.jit(jax.hessian(marginal))(here))


@pytest.mark.slow
def test_information_is_nearly_that_of_the_marginal_likelihood():
    """At the peak, with abilities' own posteriors; the approximation leaves a few percent."""
    problem, peak = problem_and_peak()
    exact = exact_information(problem, peak.sites, peak.abilities)
    own, other = (np.linalg.inv(x + peak.known) for x in (peak.learnt, exact))
    ratio = np.sqrt(np.diag(own) / np.diag(other))
    assert np.abs(ratio - 1).max() < 0.05
    terms = jax.jit(marginal_terms)(problem, peak.sites, peak.abilities)
    without = np.linalg.inv(terms.complete + peak.known)
    assert (np.sqrt(np.diag(without) / np.diag(other))).min() < 0.9


@pytest.mark.slow
def test_surrogate_has_the_peaks_slope_and_information():
    problem, peak = problem_and_peak()
    surrogate = Approximation.around(problem, peak)
    here = flat_parameters(peak.sites)

    @jax.jit
    @jax.grad
    def slope(flat):
        return surrogate.log_density(with_parameters(peak.sites, flat))

    np.testing.assert_allclose(slope(here), 0, atol=1e-4)
    nudges = 1e-4 * np.eye(len(here))[:3]
    for k, nudge in enumerate(nudges):
        bend = (slope(here + nudge) - slope(here - nudge)) / 2e-4
        own = -(peak.learnt + peak.known)[k]
        np.testing.assert_allclose(bend, own, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.xfail(reason="since intercepts lean on slopes, these are .159 sd apart, not .15")
def test_laplace_is_close_to_exact_draws():
    """200 subjects, 30 items: where its 90% intervals lie among the exact engine's draws."""
    needs = np.zeros((30, 3), int)
    needs[np.arange(30), np.arange(30) % 3] = 1
    needs[::4, 1] = 1
    q = QMatrix.from_arrays(needs)
    responses = simulate_q_mirt(200, q, key=jax.random.key(3)).responses
    laplace, exact = (
        sample_q_mirt(
            responses,
            q,
            key=jax.random.key(0),
            engine=engine,
            options=RunOptions(num_warmup=300, num_samples=600),
        )
        for engine in ("laplace", "blocked")
    )
    for name in ("theta", "a", "d", "beta", "correlation"):
        own, other = (ravel_draws(posterior.draws(name)) for posterior in (laplace, exact))
        free = other.std(0) > 1e-9
        own, other = own[:, free], other[:, free]
        apart = np.sqrt(np.mean(((own.mean(0) - other.mean(0)) / other.std(0)) ** 2))
        widths = (own.std(0) / other.std(0)).mean()
        low, high = np.quantile(own, [0.05, 0.95], axis=0)
        holds = ((other > low) & (other < high)).mean()
        print(f"{name}: {apart:.3f} sd apart, sd ratio {widths:.3f}, holds {holds:.3f}")
        assert apart < 0.15
        assert 0.88 < widths < 1.05
        assert 0.86 < holds < 0.92


def ravel_draws(draws: np.ndarray) -> np.ndarray:
    return draws.reshape(len(draws), -1)


def test_flat_parameters_come_back():
    point = fit_q_mirt(answers(), Q, structure="general")
    sites = start_sites(QMirtProblem.of(answers(), QMirt.of(Q, "general")), point)
    flat = flat_parameters(sites)
    again = with_parameters(sites, flat + 1)
    np.testing.assert_array_equal(flat_parameters(again), flat + 1)
    same = {name: value for name, value in again.items() if name.startswith("sigma")}
    assert ravel_pytree(same)[0].tolist() == ravel_pytree({n: sites[n] for n in same})[0].tolist()

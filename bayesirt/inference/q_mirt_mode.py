"""The most probable items and correlations of the Q-matrix model, abilities integrated out."""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.normal_beliefs import Abilities
from bayesirt.estimators.q_slots import ability_step
from bayesirt.estimators.symmetric_matrices import inverse
from bayesirt.inference.blocked import Position
from bayesirt.inference.q_mirt_information import (
    QMirtProblem,
    flat_parameters,
    marginal_terms,
    with_parameters,
)
from bayesirt.point_estimate import PointEstimate

SPREADS = ("sigma_a", "sigma_d", "sigma_beta")
"""Of the items' populations."""
_LEAST_SPREAD = 0.1

_FARTHEST = 1.0
"""How far one step moves a parameter at most."""
_ABILITY_STEPS = 6
_LEAST_SHARE = 0.1
"""Of the information that there would be if abilities were known."""


class MarginalMode(NamedTuple):
    """The most probable items and correlations, given the spreads of items."""

    sites: Position  # Without ``theta``.
    abilities: Abilities  # Given these.
    score: Float[Array, " parameter"]  # Of the answers alone: the prior's is the opposite.
    # Information of the answers and of the prior.
    learnt: Float[Array, "parameter parameter"]
    known: Float[Array, "parameter parameter"]
    # False if the information was not positive definite. Then it was mended: in no direction is
    # more than nine tenths of it missing.
    observed: bool
    # Length of each Newton step, in posterior standard deviations (root mean square).
    steps: tuple[float, ...]
    converged: bool


class _Settled(NamedTuple):
    """Abilities given the sites, slope of the posterior, and what is known of the parameters."""

    abilities: Abilities
    slope: Array
    score: Array
    complete: Array
    learnt: Array
    known: Array


def find_peak(
    problem: QMirtProblem, init: PointEstimate, *, tol: float, max_iterations: int
) -> MarginalMode:
    """Climb to the most probable items and correlations by Newton's steps."""
    sites = start_sites(problem, init)
    theta, omega = jnp.asarray(init["theta"], float), problem.correlation(sites)
    abilities = Abilities(theta, jnp.broadcast_to(omega, (len(theta), *omega.shape)))
    steps: list[float] = []
    while True:
        settled = _SETTLED(problem, sites, abilities)
        abilities, slope, score, complete, learnt, known = settled
        step, length = _NEWTON(slope, learnt + known)
        if not (observed := bool(jnp.isfinite(length))):
            learnt = _MENDED(learnt + known, complete + known) - known
            step, length = _NEWTON(slope, learnt + known)
        steps.append(float(length))
        if steps[-1] <= tol or len(steps) > max_iterations:
            break
        sites = with_parameters(sites, flat_parameters(sites) + step)
    if not (converged := steps[-1] <= tol):
        warnings.warn(
            f"laplace: the most probable values were not reached in {max_iterations} steps",
            ConvergenceWarning,
            stacklevel=3,
        )
    return MarginalMode(sites, abilities, score, learnt, known, observed, tuple(steps), converged)


def start_sites(problem: QMirtProblem, init: PointEstimate) -> Position:
    """Return a point estimate as the model's unconstrained sites, abilities left out."""
    centre, _ = problem.way.start(init, problem.layout)
    sites = {name: jnp.asarray(value, float) for name, value in centre.items() if name != "theta"}
    sites["mu_a"] = jnp.asarray(init["mu_a"], float)
    for name in SPREADS:
        sites[name] = jnp.log(jnp.maximum(jnp.asarray(init[name], float), _LEAST_SPREAD))
    return sites


def _settle(problem: QMirtProblem, sites: Position, abilities: Abilities) -> _Settled:
    layout, slots, items = problem.layout, problem.slots, problem.items(sites)
    precision = inverse(problem.correlation(sites))

    def step(_: int, found: Abilities) -> Abilities:
        return ability_step(layout, slots, items, precision, found, problem.quadrature)

    def log_prior(flat: Array) -> Array:
        return problem.log_prior(with_parameters(sites, flat))

    abilities = jax.lax.fori_loop(0, _ABILITY_STEPS, step, abilities)
    terms, here = marginal_terms(problem, sites, abilities), flat_parameters(sites)
    slope = terms.score + jax.grad(log_prior)(here)
    known = -jax.hessian(log_prior)(here)
    learnt = terms.complete - terms.missing
    return _Settled(abilities, slope, terms.score, terms.complete, learnt, known)


def _newton(slope: Array, information: Array) -> tuple[Array, Array]:
    """Return Newton's step and its length; nan where the information is not positive definite."""
    root = jnp.linalg.cholesky(information)
    step = jax.scipy.linalg.cho_solve((root, True), slope)
    length = jnp.sqrt(slope @ step / len(step))
    return step * jnp.minimum(1, _FARTHEST / jnp.abs(step).max()), length


def _mended(information: Array, complete: Array) -> Array:
    """Return the information with, in every direction, a share of the complete one at least."""
    root = jnp.linalg.cholesky(complete)
    half = jax.scipy.linalg.solve_triangular(root, information, lower=True)
    shares, directions = jnp.linalg.eigh(
        jax.scipy.linalg.solve_triangular(root, half.T, lower=True)
    )
    outward = root @ directions
    return (outward * jnp.maximum(shares, _LEAST_SHARE)) @ outward.T


_SETTLED: Any = jax.jit(_settle)
_NEWTON: Any = jax.jit(_newton)
_MENDED: Any = jax.jit(_mended)

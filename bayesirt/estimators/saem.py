"""LaRT by stochastic approximation EM (SAEM), as in Xu et al. (2026) but with exact draws.

Each iteration draws every subject's (θ, τ) once, averages the resulting sufficient statistics with
those of all earlier draws, and maximises in closed form. The statistics of the answers are
expectations given the drawn ability (Rao-Blackwell), so no cell is sampled.
"""

import warnings
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.estimators.ability_quadrature import AbilityPosteriors, gauss_hermite
from bayesirt.estimators.iteration import ConvergenceWarning, Iterations
from bayesirt.estimators.lart_estimate import lart_estimate
from bayesirt.estimators.lart_steps import (
    ANSWER_PRECISION,
    LaRTData,
    LaRTItems,
    SubjectMoments,
    best_lengths,
    lart_data,
    oriented,
    posteriors_at,
    spectral_lart,
    to_standard_population,
)
from bayesirt.likelihood.cell_sums import Layout
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.latencies import Latencies, LengthMoments
from bayesirt.models.lart import Link
from bayesirt.point_estimate import PointEstimate
from bayesirt.random_keys import Key, as_key

_N_NODES = 11
"""Number of nodes from which each ability's log density is interpolated."""
_FINE = 257
_FARTHEST = 5.0
_LEAST_SHARE = 0.05
"""Least weight of cells far out in a tail, relative to the bound on a cell's information."""


class AnswerStatistics(NamedTuple):
    """Sufficient statistics of the answers' log likelihood, to second order at the current items.

    The approximation is that of latent answers z = η + s / w, normal about a θ + d with precision
    w.
    """

    # Σ w, Σ w θ and Σ w θ².
    weight: Float[Array, " item"]
    theta: Float[Array, " item"]
    theta_theta: Float[Array, " item"]
    # Σ w z and Σ w θ z.
    z: Float[Array, " item"]
    theta_z: Float[Array, " item"]


class Statistics(NamedTuple):
    """Statistics of the draws for the M-step."""

    answers: AnswerStatistics
    subjects: SubjectMoments
    lengths: LengthMoments


class SAEMState(NamedTuple):
    """State of the iteration."""

    items: LaRTItems
    statistics: Statistics  # Averages so far.
    mode: Float[Array, " subject"]  # Modes of the abilities' posteriors, to start the next search.
    # Negative marginal log likelihood with the weak prior, at the items of the previous step.
    loss: Float[Array, ""]


def fit_saem(
    responses: Responses,
    *,
    key: Key,
    link: Link = "probit",
    iterations: int = 200,
    burn_in: int = 0,
    decay: float = 1.0,
    start: Literal["spectral", "random"] = "spectral",
    tol: float = 1e-5,
) -> PointEstimate:
    """Fit LaRT's items by stochastic approximation EM.

    Parameters
    ----------
    responses : Responses
        Responses with lengths.
    key : jax.random.key or int
        The same key gives the same estimate on the same machine.
    link : {"probit", "logit"}
    iterations : int
    burn_in : int
        Initial iterations that do not average over earlier draws, needed with a poor start.
    decay : float
        After the burn-in, the t-th draw has weight t to the power of -decay; above 1/2, at most 1.
        Xu et al. (2026) use 1, which forgets the start slowly; .7 forgets it in a few dozen draws.
    start : {"spectral", "random"}
        ``"random"``: slopes of 1, other parameters standard normal, ρ = 0.
    tol : float
        Converged if the relative change of the loss over the last tenth is at most this.

    Returns
    -------
    PointEstimate
        As from `fit_lart`, which fits the same model without simulation noise.

    Raises
    ------
    ResponseError
        If there are no lengths, or they do not vary within any item.
    ValueError
        If there are not more iterations than in the burn-in, or the decay is out of range.

    References
    ----------
    Xu et al. (2026), Algorithms 1 and 2 and Appendix D.

    Examples
    --------
    >>> import dataclasses, jax, numpy as np
    >>> seconds = np.random.default_rng(0).lognormal(size=30)
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> responses = dataclasses.replace(responses, latency=seconds)
    >>> fit_saem(responses, key=jax.random.key(0), iterations=20, tol=0.1)["theta"].shape
    (6,)
    """
    key = as_key(key)
    if not 0 <= burn_in < iterations:
        raise ValueError(f"{iterations} iterations do not exceed a burn-in of {burn_in}")
    if not 0.5 < decay <= 1:
        raise ValueError(f"`decay` must be above 1/2 and at most 1, got {decay}")
    family, data = family_named(link), lart_data(responses, True)
    start_key, run_key = jax.random.split(key)
    items, theta = spectral_lart(responses, data, link)
    if start == "random":
        items, theta = _random_start(start_key, items, theta)
    weights = np.maximum(np.arange(1.0, iterations + 1) - burn_in, 1) ** -decay
    state, trace = _RUN(data, family, _N_NODES, items, theta, run_key, jnp.asarray(weights))
    items, mode = oriented(state.items, state.mode)
    posteriors, sums, loss = _AT_ITEMS(data, family, _N_NODES, items.a.dtype.type, items, mode)
    losses = np.append(np.asarray(trace, np.float64), float(loss))
    run = _judged(losses, tol)
    settings = {
        "estimator": "saem",
        "link": link,
        "burn_in": burn_in,
        "decay": decay,
        "start": start,
        "tol": tol,
    }
    return lart_estimate(responses, data, items, posteriors, sums, run, settings)


def draw_abilities(key: Array, posteriors: AbilityPosteriors, n_nodes: int) -> Array:
    """Draw each ability from its posterior by inverting its distribution function.

    The difference of the log density from its normal approximation is practically a polynomial. So
    it is interpolated between the nodes, and the density is summed on a fine grid of five standard
    deviations to each side.
    """
    points, _ = gauss_hermite(n_nodes, posteriors.mean.dtype)
    grid, between = (jnp.asarray(x, points.dtype) for x in _grid_and_interpolation(n_nodes))
    log_density = (posteriors.log_density + points**2 / 2) @ between - grid**2 / 2
    density = jnp.exp(log_density - log_density.max(1, keepdims=True))
    cumulated = jnp.cumsum((density[:, 1:] + density[:, :-1]) / 2, axis=1)
    cumulated = jnp.pad(cumulated, ((0, 0), (1, 0)))
    levels = jax.random.uniform(key, posteriors.mean.shape, points.dtype) * cumulated[:, -1]
    standard = jax.vmap(jnp.interp, (0, 0, None))(levels, cumulated, grid)
    return posteriors.mode + posteriors.scale * standard


def saem_step(
    data: LaRTData, family: Family, n_nodes: int, state: SAEMState, chance: tuple[Array, Array]
) -> SAEMState:
    """Draw every subject once, average the statistics, and maximise."""
    key, weight = chance
    theta_key, tau_key = jax.random.split(key)
    items, latencies = state.items, data.latencies
    assert latencies is not None
    posteriors, _, loss = posteriors_at(data, family, n_nodes, jnp.float32, items, state.mode)
    theta = draw_abilities(theta_key, posteriors, n_nodes)
    evidence = latencies.speed_evidence(items.phi, items.omega, items.lam)
    mean, variance = evidence.speed(items.rho, theta)
    tau = mean + jnp.sqrt(variance) * jax.random.normal(tau_key, mean.shape, mean.dtype)
    sample = Statistics(
        _answer_statistics(data.layout, family, items, theta),
        _moments_of_both(theta, tau),
        latencies.moments(tau, tau**2),
    )
    statistics = jax.tree.map(lambda old, new: old + weight * (new - old), state.statistics, sample)
    return SAEMState(_best_items(latencies, items, statistics), statistics, posteriors.mode, loss)


def _moments_of_both(theta: Array, tau: Array) -> SubjectMoments:
    n = jnp.asarray(1.0 * len(theta), theta.dtype)
    columns = theta, tau, theta**2, theta * tau, tau**2
    return SubjectMoments(n, *(x.sum() for x in columns))


def _answer_statistics(
    layout: Layout, family: Family, items: LaRTItems, theta: Array
) -> AnswerStatistics:
    """Return the expected statistics of the latent answers, given drawn abilities."""
    terms = family.terms(layout.predictor(theta, items.a, items.d), layout.successes, layout.trials)
    weights = jnp.maximum(terms.information, _LEAST_SHARE * family.bound(layout.trials))
    score, over, one = terms.score, layout.over_subjects, jnp.ones_like(theta)
    weight, of_theta, of_square = (over(weights, x) for x in (one, theta, theta**2))
    return AnswerStatistics(
        weight,
        of_theta,
        of_square,
        items.a * of_theta + items.d * weight + over(score, one),
        items.a * of_square + items.d * of_theta + over(score, theta),
    )


def _best_items(latencies: Latencies, items: LaRTItems, statistics: Statistics) -> LaRTItems:
    """Return the regression of latent answers on θ, of lengths on -τ, and ρ."""
    answers, subjects, of_lengths = statistics
    aa, dd = answers.theta_theta + ANSWER_PRECISION, answers.weight + ANSWER_PRECISION
    determinant = aa * dd - answers.theta**2
    a = (dd * answers.theta_z - answers.theta * answers.z) / determinant
    d = (aa * answers.z - answers.theta * answers.theta_z) / determinant
    lengths = best_lengths(latencies, of_lengths)
    return to_standard_population(LaRTItems(a, d, *lengths, items.rho), subjects)


def _run(
    data: LaRTData,
    family: Family,
    n_nodes: int,
    items: LaRTItems,
    theta: Array,
    key: Array,
    weights: Array,
) -> tuple[SAEMState, Array]:
    zero, scalar = jnp.zeros_like(items.a), jnp.zeros((), items.a.dtype)
    nothing = Statistics(
        AnswerStatistics(*[zero] * len(AnswerStatistics._fields)),
        SubjectMoments(*[scalar] * len(SubjectMoments._fields)),
        LengthMoments(*[zero] * len(LengthMoments._fields)),
    )

    def step(state: SAEMState, chance: tuple[Array, Array]) -> tuple[SAEMState, Array]:
        state = saem_step(data, family, n_nodes, state, chance)
        return state, state.loss

    first = SAEMState(items, nothing, theta, jnp.zeros((), items.a.dtype))
    return jax.lax.scan(step, first, (jax.random.split(key, len(weights)), weights))


def _random_start(key: Array, items: LaRTItems, theta: Array) -> tuple[LaRTItems, Array]:
    """Return a random start, which uses the data only for the level of the lengths."""
    keys = jax.random.split(key, 4)
    normal = [jax.random.normal(k, items.a.shape, items.a.dtype) for k in keys[:3]]
    one = jnp.ones_like(items.a)
    start = items._replace(
        a=one, d=normal[0], phi=one, omega=items.omega + normal[1], lam=one, rho=0 * items.rho
    )
    return start, jax.random.normal(keys[3], theta.shape, theta.dtype)


def _judged(losses: np.ndarray, tol: float) -> Iterations:
    """Return the record of a run of fixed length."""
    last = max(1, len(losses) // 10)
    change = abs(losses[-1] - losses[-1 - last])
    converged = bool(change <= tol * abs(losses[-1 - last]))
    says = "at most" if converged else "more than"
    reason = f"the loss changed by {says} {tol:g} of its value over the last {last} iterations"
    if not converged:
        warnings.warn(f"saem: {reason}", ConvergenceWarning, stacklevel=3)
    return Iterations(len(losses) - 1, converged, reason, losses)


@lru_cache
def _grid_and_interpolation(n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a fine grid, and the matrix that interpolates values at the nodes on it."""
    from scipy.interpolate import BarycentricInterpolator  # slow to import

    points = np.polynomial.hermite_e.hermegauss(n_nodes)[0]
    reach = min(_FARTHEST, points[-1])
    grid = np.linspace(-reach, reach, _FINE)
    return grid, BarycentricInterpolator(points, np.eye(n_nodes))(grid).T


_RUN: Any = jax.jit(_run, static_argnums=(1, 2))
_AT_ITEMS: Any = jax.jit(posteriors_at, static_argnums=(1, 2, 3))

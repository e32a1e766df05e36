"""LaRT by exact EM: speeds are integrated in closed form, abilities by adaptive quadrature.

Nothing is simulated, so the loss falls at every step and the estimate is exactly reproducible.
Without lengths this is marginal maximum likelihood for the probit 2PL with free slopes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.estimators.ability_quadrature import AbilityPosteriors, ExpectedItemSums
from bayesirt.estimators.iteration import Iterations, iterate, joined, squarem_leap
from bayesirt.estimators.lart_estimate import lart_estimate
from bayesirt.estimators.lart_steps import (
    ANSWER_PRECISION,
    LaRTData,
    LaRTItems,
    ability_moments,
    best_lengths,
    expected_speeds,
    lart_data,
    oriented,
    posteriors_at,
    spectral_lart,
    to_standard_population,
)
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.family import Family
from bayesirt.models.lart import Link
from bayesirt.point_estimate import PointEstimate

_FARTHEST = 1.0
_LONGEST_LEAP = 16.0
_LARGE = 1 << 20
_COARSE_TOL = 1e-6
"""With more than `_LARGE` responses, a first phase uses 32 bits up to this tolerance."""


class EMState(NamedTuple):
    """State of the iteration."""

    free: LaRTItems  # With log λ and artanh ρ instead of λ and ρ.
    mode: Float[Array, " subject"]  # Modes of the abilities' posteriors, to start the next search.
    # Negative marginal log likelihood with the weak prior, at the items before `free`.
    loss: Float[Array, ""]


def fit_lart(
    responses: Responses,
    *,
    lengths: bool = True,
    link: Link = "probit",
    n_nodes: int = 11,
    tol: float = 1e-9,
    max_iterations: int = 200,
) -> PointEstimate:
    """Fit LaRT's items by EM, with (θ, τ) normal and correlated; single slopes may be negative.

    Parameters
    ----------
    responses : Responses
        Responses with lengths.
    lengths : bool
        False ignores the lengths: the plain IRT model, for comparison.
    link : {"probit", "logit"}
    n_nodes : int
        Quadrature nodes for each ability, around its mode.
    tol : float
        Stop when the relative change of the loss is at most this.
    max_iterations : int
        Maximum number of iterations, of three EM steps each.

    Returns
    -------
    PointEstimate
        θ and τ are posterior means, theta_se and tau_se posterior standard deviations, given
        items. Errors of items treat abilities and speeds as known, so they are lower bounds.

    Raises
    ------
    ResponseError
        If there are no lengths, or they do not vary within any item.

    Notes
    -----
    Each step also maximises over the population of traits (parameter expansion). Three steps are
    extrapolated (SQUAREM), and the extrapolation is kept if the loss falls. Large data are first
    fitted with cells in 32 bits.

    References
    ----------
    Xu et al. (2026), equations 1 to 3; Varadhan & Roland 2008.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tri(6, 5)
    >>> fit_lart(Responses.from_arrays(answers), lengths=False)["theta"].argmax()
    np.int64(4)
    """
    family = family_named(link)
    data = lart_data(responses, lengths)
    start, theta = spectral_lart(responses, data, link)
    free, wide = to_free(start), start.a.dtype
    runs: list[Iterations] = []
    mode = theta
    phases: list[tuple[Any, float]] = [(wide, tol)]
    if responses.n_observed > _LARGE and wide != jnp.float32:
        phases = [(jnp.float32, max(tol, _COARSE_TOL)), *phases]
    for dtype, phase_tol in phases:
        em = partial(_EM, data, family, n_nodes, dtype)
        _, posteriors, _, loss = em(free, mode)
        state, run = iterate(
            partial(_squarem_step, em),
            EMState(free, posteriors.mode, loss),
            lambda s: s.loss,
            tol=phase_tol,
            max_iterations=max_iterations - sum(run.iterations for run in runs),
            name="lart",
        )
        runs.append(run)
        free, mode = state.free, state.mode
        if not run.converged:
            break
    items, mode = oriented(to_items(free), mode)
    _, posteriors, sums, _ = _EM(data, family, n_nodes, wide, to_free(items), mode)
    settings = {"estimator": "em", "link": link, "n_nodes": n_nodes, "tol": tol}
    return lart_estimate(responses, data, items, posteriors, sums, joined(runs), settings)


def to_free(items: LaRTItems) -> LaRTItems:
    """Return items with log λ and artanh ρ, which are unconstrained."""
    return items._replace(lam=jnp.log(items.lam), rho=jnp.arctanh(items.rho))


def to_items(free: LaRTItems) -> LaRTItems:
    """Invert `to_free`."""
    return free._replace(lam=jnp.exp(free.lam), rho=jnp.tanh(free.rho))


def em_step(
    data: LaRTData,
    family: Family,
    n_nodes: int,
    dtype: DTypeLike,
    free: LaRTItems,
    mode: Float[Array, " subject"],
) -> tuple[LaRTItems, AbilityPosteriors, ExpectedItemSums, Array]:
    """Take one EM step."""
    items = to_items(free)
    posteriors, sums, loss = posteriors_at(data, family, n_nodes, dtype, items, mode)
    a, d = _better_answers(items, sums)
    if data.latencies is None:
        better = items._replace(a=a, d=d)
        moments = ability_moments(posteriors.mean, posteriors.mean**2 + posteriors.variance)
    else:
        tau, tau_tau, moments = expected_speeds(data.latencies, items, posteriors)
        lengths = best_lengths(data.latencies, data.latencies.moments(tau, tau_tau))
        better = LaRTItems(a, d, *lengths, items.rho)
    better = to_standard_population(better, moments)
    return to_free(better), posteriors, sums, loss


def _better_answers(items: LaRTItems, sums: ExpectedItemSums) -> tuple[Array, Array]:
    """Take one Newton step on the expected log likelihood of each item's answers."""
    (aa, ad), (_, dd) = sums.information
    score_a, score_d = sums.score - ANSWER_PRECISION * jnp.stack([items.a, items.d])
    aa, dd = aa + ANSWER_PRECISION, dd + ANSWER_PRECISION
    determinant = aa * dd - ad**2
    step_a = (dd * score_a - ad * score_d) / determinant
    step_d = (aa * score_d - ad * score_a) / determinant
    steps = (jnp.clip(step, -_FARTHEST, _FARTHEST) for step in (step_a, step_d))
    a, d = (x + step for x, step in zip((items.a, items.d), steps, strict=True))
    return a, d


def _squarem_step(
    em: Callable[..., tuple[LaRTItems, AbilityPosteriors, Any, Array]], state: EMState
) -> EMState:
    """Take two EM steps, extrapolate them, and take a third from there."""
    once, posteriors, _, _ = em(state.free, state.mode)
    twice, posteriors, _, loss = em(once, posteriors.mode)
    leap, _ = squarem_leap(state.free, once, twice, _LONGEST_LEAP)
    settled, leap_posteriors, _, leap_loss = em(leap, posteriors.mode)
    if leap_loss <= loss:
        return EMState(settled, leap_posteriors.mode, leap_loss)
    return EMState(twice, posteriors.mode, loss)


_EM: Any = jax.jit(em_step, static_argnums=(1, 2, 3))

"""Marginal maximum likelihood (MML): items alone are estimated, abilities are integrated out.

A joint estimate of abilities and items is biased where each ability rests on few items: both
adapt to the same noise, and slopes come out too steep. Here abilities are N(0, 1) and are
integrated out (Bock & Aitkin 1981). The EM steps also move all items along the location and
scale of the abilities, where plain EM hardly moves on long tests, as parameter expansion does
(Liu, Rubin & Wu 1998), and are accelerated by SQUAREM (Varadhan & Roland 2008).
"""

from dataclasses import asdict
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.block_newton import item_direction
from bayesirt.estimators.driver import iterate
from bayesirt.estimators.mml_grid import Data, Expectation, covers, data_of, expectation, grid_for
from bayesirt.estimators.mml_information import (
    n_held,
    observed_covariance,
    own_covariance,
)
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.estimators.starts import logit_start
from bayesirt.estimators.weak_prior import WeakPrior
from bayesirt.likelihood.families import LOGIT
from bayesirt.point_estimate import PointEstimate

BARELY_ANY = WeakPrior(1.0, 0.01, 0.01)
"""Standard deviations of 10 for a and d: felt only by items that are all right or all wrong."""

_FIRST_STEPS = 3
_FARTHEST = 1.0
_LONGEST_LEAP = 16.0

MOST_HELD = 16000
"""Largest matrix that is inverted for the observed information, in rows."""


class MMLState(NamedTuple):
    """Where the iteration stands."""

    grid: Float[Array, " node"]  # Abilities at which posteriors are evaluated.
    items: Float[Array, "2 item"]  # a and d.
    found: Expectation  # At `items`.
    loss: Float[Array, ""]  # Negative marginal log likelihood with the prior, at `items`.


def fit_mml(
    responses: Responses,
    *,
    prior: WeakPrior = BARELY_ANY,
    n_nodes: int = 21,
    errors: Literal["observed", "own"] = "observed",
    tol: float | None = None,
    max_iterations: int = 500,
) -> PointEstimate:
    """Fit the 2PL's items by marginal maximum likelihood, with a ≥ 0 and θ ~ N(0, 1).

    Parameters
    ----------
    responses : Responses
    prior : WeakPrior
        Keeps items finite; its part on θ is not used.
    n_nodes : int
        Quadrature nodes within 8 standard deviations of the narrowest posterior; wider ones have
        more.
    errors : {"observed", "own"}
        Standard errors of items from the observed information of all items together, or from
        each item's own as if abilities were known, which costs nothing and is a lower bound.
    tol : float, optional
        Stop when the loss changes by at most this share of itself; by default 1e-10, or what the
        number format allows.
    max_iterations : int
        Each of three EM steps.

    Returns
    -------
    PointEstimate
        θ is the posterior mean (EAP) and theta_se the posterior standard deviation, given items.

    Raises
    ------
    ResponseError
        If the observed information is asked for and its smaller side has more than `MOST_HELD`
        rows.

    References
    ----------
    Bock & Aitkin 1981; Liu, Rubin & Wu 1998; Louis 1982; Varadhan & Roland 2008.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tri(6, 5)
    >>> fit_mml(Responses.from_arrays(answers))["theta"].argmax()
    np.int64(4)
    """
    if errors == "observed":
        _refuse_too_large(responses)
    if tol is None:
        tol = max(1e-10, 4 * float(jnp.finfo(jnp.result_type(float)).eps))
    data = data_of(responses)
    state, run = iterate(
        partial(squarem_step, data, prior, n_nodes),
        _first_state(responses, data, prior, n_nodes),
        lambda s: s.loss,
        tol=tol,
        max_iterations=max_iterations,
        name="mml",
    )
    grid, items, found, _ = state
    covariance = own_covariance(found.information, prior)
    if errors == "observed":
        covariance = observed_covariance(
            responses.cells, grid, items, found.information, prior, most_directions=n_nodes - 1
        )
    settings = {
        "estimator": "mml",
        "theta_scale": "population",
        "n_nodes": n_nodes,
        "errors": errors,
        "tol": tol,
        **{f"prior_{k}": v for k, v in asdict(prior).items()},
    }
    parameters = parameter_table(
        responses,
        (found.mean, *items),
        (found.sd, np.sqrt(covariance.of_a), np.sqrt(covariance.of_d)),
        -covariance.of_both / covariance.of_a,
    )
    log_likelihood = float(found.log_likelihood.sum())
    return PointEstimate(parameters, log_likelihood, *run[:3], run.trace, settings)


def squarem_step(data: Data, prior: WeakPrior, n_nodes: int, state: MMLState) -> MMLState:
    """Take two EM steps, extrapolate them, and settle by a third."""
    start = _on_fitting_grid(data, prior, n_nodes, state)
    once = _STATE_AT(data, prior, start.grid, _EM_STEP(prior, start.items, start.found))
    twice = _EM_STEP(prior, once.items, once.found)
    far = _LEAP(start.items, once.items, twice, _LONGEST_LEAP)
    there = _STATE_AT(data, prior, start.grid, far)
    if there.loss <= once.loss and _fits(there, n_nodes):
        twice = _EM_STEP(prior, there.items, there.found)
    return _STATE_AT(data, prior, start.grid, twice)


def leap(
    start: Float[Array, "2 item"],
    once: Float[Array, "2 item"],
    twice: Float[Array, "2 item"],
    longest: float,
) -> Float[Array, "2 item"]:
    """Extrapolate two steps.

    With r the first step and v the change from the first to the second, it goes to x - 2 α r + α²
    v, α = -|r| / |v|.
    """
    r = once - start
    v = twice - once - r
    alpha = -jnp.sqrt((r**2).sum() / jnp.maximum((v**2).sum(), jnp.finfo(v.dtype).tiny))
    alpha = jnp.clip(alpha, -longest, -1)
    a, d = start - 2 * alpha * r + alpha**2 * v
    return jnp.stack([jnp.maximum(a, 0), d])


def em_step(
    prior: WeakPrior, items: Float[Array, "2 item"], found: Expectation
) -> Float[Array, "2 item"]:
    """Take one Newton step on the items' expected log likelihood, then move the population.

    Given the expected log likelihood, abilities from N(μ, σ²) with d + a μ and a σ in the prior are
    best described by μ = (Σ_i E θ_i - q Σ a d) / (N + q Σ a²) and by the σ² that solves p Σ a² σ⁴ +
    N σ² = Σ_i E (θ_i - μ)², where p and q are the precisions of a and d. Then N(μ, σ²) becomes N(0,
    1) again, by d ← d + a μ and a ← a σ.

    Liu, Rubin & Wu 1998.
    """
    step = item_direction(items, found.score, found.information, prior)
    a, d = items + jnp.clip(step, -_FARTHEST, _FARTHEST)
    n, squares = len(found.mean), (a**2).sum()
    pull = found.mean.sum() - prior.d_precision * (a * d).sum()
    shift = pull / (n + prior.d_precision * squares)
    spread = (found.sd**2 + (found.mean - shift) ** 2).sum()
    scale = jnp.sqrt(2 * spread / (n + jnp.sqrt(n**2 + 4 * prior.a_precision * squares * spread)))
    return jnp.stack([a * scale, d + a * shift])


def state_at(
    data: Data, prior: WeakPrior, grid: Float[Array, " node"], items: Float[Array, "2 item"]
) -> MMLState:
    """Return the state at given items."""
    found = expectation(data, grid, items)
    loss = prior.loss(jnp.zeros(1), *items) - found.log_likelihood.sum()
    return MMLState(grid, items, found, loss)


_EM_STEP = jax.jit(em_step)
_STATE_AT = jax.jit(state_at)
_LEAP = jax.jit(leap)


def _first_state(responses: Responses, data: Data, prior: WeakPrior, n_nodes: int) -> MMLState:
    """Return the state some EM steps away from logits."""
    theta, a, d = logit_start(responses)
    known = LOGIT.bound(responses.cells.totals(axis=1).trials)
    grid = grid_for(theta, 1 / np.sqrt(known + 1), a, n_nodes)
    state = _STATE_AT(data, prior, grid, jnp.stack([a, d]))
    for _ in range(_FIRST_STEPS):
        state = _on_fitting_grid(data, prior, n_nodes, state)
        items = _EM_STEP(prior, state.items, state.found)
        state = _STATE_AT(data, prior, state.grid, items)
    return _on_fitting_grid(data, prior, n_nodes, state)


def _fits(state: MMLState, n_nodes: int) -> bool:
    return covers(state.grid, state.found.mean, state.found.sd, state.items[0], n_nodes)


def _on_fitting_grid(data: Data, prior: WeakPrior, n_nodes: int, state: MMLState) -> MMLState:
    """Return the state on a grid that does for its posteriors.

    Posteriors that fall between two nodes seem to have no width, so a grid becomes finer by
    degrees.
    """
    if _fits(state, n_nodes):
        return state
    spacing = state.grid[1] - state.grid[0]
    sd = jnp.maximum(state.found.sd, spacing / 4)
    grid = grid_for(state.found.mean, sd, state.items[0], n_nodes)
    return _STATE_AT(data, prior, grid, state.items)


def _refuse_too_large(responses: Responses) -> None:
    size = n_held(responses.n_subjects, responses.n_items)
    if size > MOST_HELD:
        raise ResponseError(
            f"the observed information needs a matrix of {size:,} x {size:,} for "
            f"{responses.n_subjects:,} subjects and {responses.n_items:,} items, and "
            f'{MOST_HELD:,} is the most; pass errors="own"'
        )

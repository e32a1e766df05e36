"""Fine-grained abilities by EM: normal approximations to the abilities, items by Newton steps."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from bayesirt.errors import ResponseError
from bayesirt.estimators.driver import LOSS_RISES, Run, iterate
from bayesirt.estimators.q_mirt_population import (
    Population,
    ability_log_evidence,
    best_correlation,
    best_spreads,
    correlation_loss,
    correlation_towards,
    first_population,
    population_loss,
    to_standard,
)
from bayesirt.estimators.q_mirt_steps import (
    Abilities,
    ItemEquations,
    Items,
    Quadrature,
    Slots,
    ability_step,
    inverse,
    item_equations,
    item_step,
    slots_of,
)
from bayesirt.likelihood import DenseLayout
from bayesirt.models.q_mirt import Structure
from bayesirt.point_estimate import PointEstimate
from bayesirt.q_matrix import QMatrix
from bayesirt.responses import Responses

_ABILITY_STEPS = 2
_NODES, _FEW_NODES = 5, 3
_MORE_NODES = (15, 31)
"""Tried where the loss rises: slopes so steep that few nodes miss the bend of a cell."""
_LARGE = 1 << 20
"""More cells than this are computed in 32 bits, by default with few nodes."""
_FIRST_LEAP, _SHORTEST_LEAP, _GROWTH = 4.0, 1.5, 2.0
_MOST_RISE = 1.0
"""Of the loss by a leap: an early one that overshoots a little still saves steps."""


class Parameters(NamedTuple):
    """All that belongs to no single subject.

    Attributes
    ----------
    items : Items
    population : Population
    """

    items: Items
    population: Population


class Expectation(NamedTuple):
    """What answers say at some parameters.

    Attributes
    ----------
    abilities : Abilities
    equations : ItemEquations
    log_likelihood : float
        A lower bound of the marginal one.
    loss : float
        Penalised.
    """

    abilities: Abilities
    equations: ItemEquations
    log_likelihood: Float[Array, ""]
    loss: Float[Array, ""]


class QMirtState(NamedTuple):
    """Where the iteration stands.

    Attributes
    ----------
    parameters : Parameters
    abilities : Abilities
    loss : float
        Penalised, at parameters that `parameters` improves on.
    longest : float
        In steps, how far the next leap may go: farther after leaps that went well.
    """

    parameters: Parameters
    abilities: Abilities
    loss: Float[Array, ""]
    longest: Float[Array, ""]


def fit_q_mirt(
    responses: Responses,
    q: QMatrix,
    *,
    structure: Structure = "correlated",
    n_nodes: int | None = None,
    tolerance: float | None = None,
    max_iterations: int = 200,
) -> PointEstimate:
    """Fit logit P = Σ_k q_jk a_jk θ_ik + d_j, with a > 0 and θ ~ N(0, Ω).

    Parameters
    ----------
    responses : Responses
    q : QMatrix
        Rows of other items are left out.
    structure : {"correlated", "general", "independent"}
        Ω is any correlation matrix, has one general factor, λλᵀ + diag(1 - λ²), or is the
        identity.
    n_nodes : int, optional
        Quadrature nodes of each cell's linear predictor; by default 5, or 3 beyond a million cells,
        where many items leave little to integrate over, and more where these do not do: where the
        loss rises.
    tolerance : float, optional
        Stop when the loss changes by at most this share of itself; by default 1e-6, or what the
        number format allows.
    max_iterations : int
        Each of three EM steps.

    Returns
    -------
    PointEstimate
        ``theta`` over subject and ability is a posterior mean and ``theta_se`` the posterior
        standard deviation, given items; ``a`` is over ``loading``, in the order of
        `QMatrix.loadings`. Errors of items are as if abilities were known to their posteriors, so
        lower bounds. The log likelihood is a lower bound of the marginal one.

    Raises
    ------
    ResponseError
        If an item has no row in the Q-matrix, or the structure is unknown.

    Warns
    -----
    ConvergenceWarning
        If the loss still changes at the end.

    Notes
    -----
    Each subject's posterior is approximated by the closest normal distribution (Gaussian
    variational EM): its covariance is (AᵀWA + Ω⁻¹)⁻¹ with expected information W. The priors are
    log a ~ N(μ_a, σ_a) and d ~ N(μ_d + Σ_k q_jk β_k, σ_d). Three EM steps are extrapolated
    (SQUAREM) and the leap kept unless the loss rises by more than 1.

    References
    ----------
    Zhang et al. (2026), section 2.4; Cho et al. 2021; Varadhan & Roland 2008.

    Examples
    --------
    >>> import numpy as np
    >>> q = QMatrix.from_arrays([[1, 0]] * 3 + [[0, 1]] * 3)
    >>> answers = np.hstack([np.tri(6, 3, -1), 1 - np.tri(6, 3, -1)])
    >>> theta = fit_q_mirt(Responses.from_arrays(answers), q)["theta"]
    >>> theta.argmax(0).tolist()
    [3, 0]
    """
    if structure not in get_args(Structure):
        raise ResponseError(
            f"the structure of abilities must be {', '.join(get_args(Structure))}, got "
            f"{structure!r}"
        )
    q = q.for_items(responses.items)
    layout, slots = DenseLayout(*map(jnp.asarray, responses.cells.matrices())), slots_of(q)
    parameters, abilities = start(layout, slots, structure)
    own, large = abilities.mean.dtype, layout.trials.size > _LARGE
    if tolerance is None:
        tolerance = max(1e-6, 4 * float(jnp.finfo(own).eps))
    first = parameters, abilities
    for nodes in _nodes_to_try(n_nodes, large=large):
        quadrature = Quadrature(nodes, jnp.float32 if large else own.type)
        em = partial(_EM, structure, quadrature, layout, slots)
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            state, run = _climb(em, *first, tolerance, max_iterations)
        if run.stop_reason != LOSS_RISES:
            break
    for warning in raised:
        warnings.warn(warning.message, stacklevel=2)
    found = em(state.parameters, state.abilities)[2]
    settings = {
        "estimator": "q_mirt",
        "theta_scale": "population",
        "structure": structure,
        "n_nodes": nodes,
        "tolerance": tolerance,
    }
    table = _table(responses, q, structure, state.parameters, found)
    return PointEstimate(table, float(found.log_likelihood), *run[:3], run.trace, settings)


def _nodes_to_try(n_nodes: int | None, *, large: bool) -> tuple[int, ...]:
    if n_nodes is not None:
        return (n_nodes,)
    return (_FEW_NODES if large else _NODES, *_MORE_NODES)


def _climb(
    em: Callable[..., Any],
    parameters: Parameters,
    abilities: Abilities,
    tolerance: float,
    max_iterations: int,
) -> tuple[QMirtState, Run]:
    loss = em(parameters, abilities)[2].loss
    longest = jnp.asarray(_FIRST_LEAP, abilities.mean.dtype)
    return iterate(
        partial(_squarem_step, em),
        QMirtState(parameters, abilities, loss, longest),
        lambda s: s.loss,
        tol=tolerance,
        max_iterations=max_iterations,
        name="q_mirt",
        most_rise=_MOST_RISE,
    )


def start(layout: DenseLayout, slots: Slots, structure: Structure) -> tuple[Parameters, Abilities]:
    """Return items from the shares right, and abilities of which nothing is known.

    Notes
    -----
    Slopes are smaller where an item needs many abilities, so that all items discriminate alike.
    """
    dtype = jnp.result_type(float)
    successes, trials = (x.sum(0).astype(dtype) for x in layout)
    d = jnp.log((successes + 0.5) / (trials - successes + 0.5))
    log_a = jnp.where(slots.taken, -jnp.log(slots.taken.sum(1, keepdims=True)) / 2, 0)
    population = first_population(slots.n_abilities, structure, d)
    n_subjects = layout.shape[0]
    abilities = Abilities(
        jnp.zeros((n_subjects, len(population.beta)), dtype),
        jnp.broadcast_to(population.correlation, (n_subjects, *population.correlation.shape)),
    )
    return Parameters(Items(log_a.astype(dtype), d), population), abilities


def expectation(
    structure: Structure,
    quadrature: Quadrature,
    layout: DenseLayout,
    slots: Slots,
    parameters: Parameters,
    abilities: Abilities,
) -> Expectation:
    """Return what answers say at some parameters, a few Newton steps from where abilities were."""
    items, population = parameters
    precision = inverse(population.correlation)

    def step(_: int, found: Abilities) -> Abilities:
        return ability_step(layout, slots, items, precision, found, quadrature)

    abilities = jax.lax.fori_loop(0, _ABILITY_STEPS, step, abilities)
    priors = population.item_priors(slots)
    equations = item_equations(layout, slots, items, priors, abilities, quadrature)
    evidence = ability_log_evidence(abilities, population, equations.log_likelihood).sum()
    loss = population_loss(slots, items, equations.covariance, population) - evidence
    return Expectation(
        abilities, equations, evidence, loss + correlation_loss(structure, population)
    )


def em_step(
    structure: Structure,
    quadrature: Quadrature,
    layout: DenseLayout,
    slots: Slots,
    parameters: Parameters,
    abilities: Abilities,
) -> tuple[Parameters, Abilities, Expectation]:
    """Take one EM step.

    Returns
    -------
    parameters : Parameters
        After the step.
    abilities : Abilities
        On the scale of these.
    found : Expectation
        At the parameters before the step.
    """
    found = expectation(structure, quadrature, layout, slots, parameters, abilities)
    items = item_step(
        layout,
        slots,
        parameters.items,
        parameters.population.item_priors(slots),
        found.abilities,
        quadrature,
        found.equations,
    )
    items, abilities, population = to_standard(slots, items, found.abilities, parameters.population)
    population = best_correlation(structure, abilities, population)
    population = best_spreads(slots, items, found.equations.covariance, population)
    return Parameters(items, population), abilities, found


def _squarem_step(
    em: Callable[..., tuple[Parameters, Abilities, Expectation]], state: QMirtState
) -> QMirtState:
    """Take two EM steps, extrapolate them, and settle by a third."""
    once, abilities, _ = em(state.parameters, state.abilities)
    twice, abilities, before = em(once, abilities)
    leap, length = _LEAP(state.parameters, once, twice, state.longest)
    settled, there, at_leap = em(leap, abilities)
    if at_leap.loss <= before.loss + _MOST_RISE:
        longest = jnp.where(length < state.longest, 1.0, _GROWTH) * state.longest
        return QMirtState(settled, there, at_leap.loss, longest)
    return QMirtState(twice, abilities, before.loss, jnp.maximum(length / 2, _SHORTEST_LEAP))


def _leap(
    first: Parameters, once: Parameters, twice: Parameters, longest: Array
) -> tuple[Parameters, Array]:
    """Return first + 2 α r + α² v for the first step r and its change v, and α = |r| / |v|."""
    r = jax.tree.map(jnp.subtract, once, first)
    v = jax.tree.map(lambda two, one, step: two - one - step, twice, once, r)
    of_r, of_v = (sum(jnp.vdot(x, x) for x in jax.tree.leaves(step)) for step in (r, v))
    alpha = jnp.sqrt(of_r / jnp.maximum(of_v, jnp.finfo(first.items.d.dtype).tiny))
    alpha = jnp.clip(alpha, 1, longest)
    leap = jax.tree.map(lambda x, r, v: x + 2 * alpha * r + alpha**2 * v, first, r, v)
    near, far = twice.population.correlation, leap.population.correlation
    population = leap.population._replace(correlation=correlation_towards(near, far))
    return leap._replace(population=population), alpha


def _table(
    responses: Responses,
    q: QMatrix,
    structure: Structure,
    parameters: Parameters,
    found: Expectation,
) -> xr.Dataset:
    """Return the named parameters, in 64 bits."""
    (log_a, d), population = parameters
    item = q.loadings[0]
    slot = np.concatenate([np.arange(n) for n in q.needs.sum(1)])
    abilities = found.abilities
    errors = jnp.sqrt(jnp.diagonal(found.equations.covariance, axis1=1, axis2=2))
    a = jnp.exp(log_a)[item, slot]
    spreads = population.spreads
    of_theta = jnp.sqrt(jnp.diagonal(abilities.covariance, axis1=1, axis2=2))
    columns: dict[str, tuple[Any, Any]] = {
        "theta": (("subject", "ability"), abilities.mean),
        "theta_se": (("subject", "ability"), of_theta),
        "a": ("loading", a),
        "a_se": ("loading", a * errors[item, slot]),
        "d": ("item", d),
        "d_se": ("item", errors[:, -1]),
        "beta": ("ability", population.beta),
        "correlation": (("ability", "ability_other"), population.correlation),
        "mu_a": ((), population.mu_a),
        "sigma_a": ((), jnp.exp(spreads.log_a)),
        "mu_d": ((), population.mu_d),
        "sigma_d": ((), jnp.exp(spreads.d)),
        "sigma_beta": ((), jnp.exp(spreads.beta)),
    }
    if structure == "general":
        columns["general"] = ("ability", population.general)
    coords = {"subject": list(responses.subjects), **q.coords()}
    named = {name: (dims, np.asarray(x, np.float64)) for name, (dims, x) in columns.items()}
    return xr.Dataset(named, coords=coords)


_EM: Any = jax.jit(em_step, static_argnums=(0, 1))
_LEAP: Any = jax.jit(_leap)

"""Q-matrix model by EM: normal approximations for abilities, Newton steps for items."""

import warnings
from functools import partial
from typing import Any, get_args

import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Float

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.item_newton import item_step
from bayesirt.estimators.iteration import LOSS_RISES
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs, Items, without_answers
from bayesirt.estimators.parameter_table import in_64_bits, standard_errors
from bayesirt.estimators.q_mirt_population import (
    QMirtPopulation,
    best_correlation,
    best_spreads,
    correlation_loss,
    correlation_towards,
    first_population,
    population_loss,
    to_standard,
)
from bayesirt.estimators.q_slots import SlotItems, Slots, slots_of
from bayesirt.estimators.variational_em import climb, expectation, usual_tolerance
from bayesirt.kept_programs import kept
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.loadings import Loadings
from bayesirt.models.q_mirt import Structure
from bayesirt.point_estimate import PointEstimate

_NODES, _FEW_NODES = 5, 3
_MORE_NODES = (15, 31)
"""Numbers of nodes to try if the loss rises, as steep slopes need more nodes."""
_LARGE = 1 << 20
"""With more cells than this, they are computed in 32 bits and by default with few nodes."""
_MOST_RISE = 1.0
"""Largest rise of the loss above its minimum before more nodes are tried."""


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
        Which abilities each item needs; rows of other items are ignored.
    structure : {"correlated", "general", "independent"}
        Ω is an arbitrary correlation matrix, has one general factor, λλᵀ + diag(1 - λ²), or is the
        identity.
    n_nodes : int, optional
        Quadrature nodes of each cell's linear predictor; by default 5, or 3 beyond a million cells,
        where many items determine abilities well. By default, more nodes are tried if the loss
        rises.
    tolerance : float, optional
        Stop when the relative change of the loss is at most this; by default 1e-6, or what the
        number format allows.
    max_iterations : int
        Maximum number of iterations, of three EM steps each.

    Returns
    -------
    PointEstimate
        ``theta`` over subject and ability is the posterior mean and ``theta_se`` the posterior
        standard deviation, given items; ``a`` is over ``loading``, in the order of
        `QMatrix.loadings`. Errors of items use complete-data information, so they are lower bounds.
        The log likelihood is a lower bound on the marginal one.

    Raises
    ------
    ResponseError
        If an item has no row in the Q-matrix, or the structure is unknown.

    Warns
    -----
    ConvergenceWarning
        If the iteration has not converged.

    Notes
    -----
    Each subject's posterior is approximated by the closest normal distribution (Gaussian
    variational EM): its covariance is (AᵀWA + Ω⁻¹)⁻¹ with expected information W. The priors are
    log a ~ N(μ_a, σ_a) and d ~ N(μ_d + Σ_k q_jk β_k, σ_d). Three EM steps are extrapolated
    (SQUAREM), and the extrapolation is kept unless the loss rises by more than 1.

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
            f"`structure` must be one of {', '.join(get_args(Structure))}, got {structure!r}"
        )
    q = q.for_items(responses.items)
    layout, slots = DenseLayout(*map(jnp.asarray, responses.cells.matrices())), slots_of(q)
    first = start(layout, slots, structure)
    dtype, large = first[0].items.d.dtype, layout.trials.size > _LARGE
    tolerance = usual_tolerance(dtype) if tolerance is None else tolerance
    rule: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations}
    rule |= {"name": "q_mirt", "most_rise": _MOST_RISE, "mend": _MEND}
    for nodes in _nodes_to_try(n_nodes, large=large):
        quadrature = Quadrature(nodes, jnp.float32 if large else dtype.type)
        em = partial(_EM, structure, quadrature, layout, slots)
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            state, run = climb(em, *first, **rule)
        if run.stop_reason != LOSS_RISES:
            break
    for warning in raised:
        warnings.warn(warning.message, stacklevel=2)
    *_, (abilities, covariance, bound) = em(state.parameters, state.beliefs)
    settings = {
        "estimator": "q_mirt",
        "theta_scale": "population",
        "structure": structure,
        "n_nodes": nodes,
        "tolerance": tolerance,
    }
    table = _table(responses, q, structure, state.parameters, abilities, covariance)
    return PointEstimate(table, float(bound), *run[:3], run.trace, settings)


def _nodes_to_try(n_nodes: int | None, *, large: bool) -> tuple[int, ...]:
    if n_nodes is not None:
        return (n_nodes,)
    return (_FEW_NODES if large else _NODES, *_MORE_NODES)


def start(
    layout: DenseLayout, slots: Slots, structure: Structure
) -> tuple[QMirtPopulation, Beliefs]:
    """Return items from the proportions correct, and abilities at their population.

    Slopes are smaller if an item needs many abilities, so that all items discriminate equally.
    """
    dtype = jnp.result_type(float)
    successes, trials = (x.sum(0).astype(dtype) for x in layout)
    d = jnp.log((successes + 0.5) / (trials - successes + 0.5))
    log_a = jnp.where(slots.taken, -jnp.log(slots.taken.sum(1, keepdims=True)) / 2, 0)
    population = first_population(slots.n_abilities, structure, d)
    abilities = without_answers(population.abilities, layout.shape[0])
    return QMirtPopulation(SlotItems(log_a.astype(dtype), d), population), Beliefs(abilities)


def em_step(
    structure: Structure,
    quadrature: Quadrature,
    layout: DenseLayout,
    slots: Slots,
    parameters: QMirtPopulation,
    beliefs: Beliefs,
) -> tuple[QMirtPopulation, Beliefs, Float[Array, ""], tuple[Abilities, Array, Array]]:
    """Take one EM step.

    The returned loss is that before the step, and so are the abilities, the covariances of items
    and the bound on the marginal log likelihood, which come last.
    """
    items, population = parameters
    prior = population.prior(slots)
    now, equations, bound = expectation(
        layout, slots.items(items), population.abilities, beliefs, quadrature, slots
    )
    derivative = SlotItems(slots.slopes(items.log_a), jnp.ones_like(items.d)).both
    equations = equations.per(derivative)
    covariance = equations.covariance(prior)
    loss = population_loss(slots, parameters, covariance) - bound
    loss += correlation_loss(structure, population)

    def to_items(x: Array) -> Items:
        return slots.items(SlotItems.of(x))

    best = item_step(layout, items.both, prior, now, quadrature, equations, to_items)
    moved, abilities = to_standard(
        slots, QMirtPopulation(SlotItems.of(best), population), now.abilities
    )
    moved = moved._replace(population=best_correlation(structure, abilities, moved.population))
    after = moved._replace(population=best_spreads(slots, moved, covariance))
    return after, Beliefs(abilities), loss, (now.abilities, covariance, bound)


def _mend(near: QMirtPopulation, far: QMirtPopulation) -> QMirtPopulation:
    """Return parameters after a leap, with a valid correlation matrix."""
    near_matrix, far_matrix = near.population.correlation, far.population.correlation
    population = far.population._replace(correlation=correlation_towards(near_matrix, far_matrix))
    return far._replace(population=population)


def _table(
    responses: Responses,
    q: QMatrix,
    structure: Structure,
    parameters: QMirtPopulation,
    abilities: Abilities,
    item_covariance: Float[Array, "item parameter parameter"],
) -> xr.Dataset:
    """Return the named parameters, in 64 bits."""
    (log_a, d), population = parameters
    needs, errors = Loadings.of(q.needs), standard_errors(item_covariance)
    at = needs.item, needs.slot
    a = jnp.exp(log_a)[at]
    spreads = population.spreads
    columns: dict[str, tuple[Any, Any]] = {
        "theta": (("subject", "ability"), abilities.mean),
        "theta_se": (("subject", "ability"), standard_errors(abilities.covariance)),
        "a": ("loading", a),
        "a_se": ("loading", a * errors[at]),
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
    return in_64_bits(columns, coords)


_EM, _MEND = kept(em_step, constants=2), kept(_mend, constants=0)

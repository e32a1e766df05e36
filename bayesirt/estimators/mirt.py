"""Multidimensional 2PL by EM: normal approximations for abilities, Newton steps for items."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.estimators.ability_beliefs import abilities_given
from bayesirt.estimators.cell_expectations import Quadrature, usual_quadrature
from bayesirt.estimators.iteration import Iterations
from bayesirt.estimators.mirt_population import (
    ItemPopulation,
    MirtPopulation,
    best_population,
    in_principal_axes,
    population_loss,
    to_standard,
)
from bayesirt.estimators.mirt_start import check_start, start, start_from
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs, standard_normal
from bayesirt.estimators.observed_information import item_covariance
from bayesirt.estimators.parameter_table import mirt_columns, named_table
from bayesirt.estimators.variational_em import EMState, climb, normal_step, usual_tolerance
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.host_arrays import host
from bayesirt.point_estimate import PointEstimate

MOST_JOINT = 1500
"""Largest number of item parameters for which "joint" is the default of `errors`."""


def fit_mirt(
    responses: Responses,
    *,
    n_abilities: int = 1,
    tolerance: float | None = None,
    max_iterations: int = 200,
    n_nodes: int | None = None,
    init: PointEstimate | None = None,
    errors: Literal["joint", "own"] | None = None,
) -> PointEstimate:
    """Fit logit P = a_j · θ_i + d_j with K abilities θ ~ N(0, I), in principal axes.

    Parameters
    ----------
    responses : Responses
    n_abilities : int
        Number of abilities, K.
    tolerance : float, optional
        Stop when the relative change of the loss is at most this; by default 1e-6, or what the
        number format allows.
    max_iterations : int
        Maximum number of iterations, of three EM steps each.
    n_nodes : int, optional
        Quadrature nodes of each cell's linear predictor; by default 5, or 3 from 200 items on.
    init : PointEstimate, optional
        Starting point: a fit of the same items with the same number of abilities.
    errors : {"joint", "own"}, optional
        Errors of items from the information of all items together, or from each item's information
        as if the other items were known, which is cheap but neglects their common uncertainty; by
        default "joint" up to 1,500 parameters.

    Returns
    -------
    PointEstimate
        ``theta`` over subject and ability is the posterior mean and ``theta_covariance`` the
        posterior covariance, given items; ``a`` is over item and ability, and ``item_covariance``
        is that of each item's (a, d), given μ_a, Λ, μ_d and σ_d. The log likelihood is a lower
        bound on the marginal one.

    Raises
    ------
    ResponseError
        If there are not more items than abilities, or `init` is of other items.

    Warns
    -----
    ConvergenceWarning
        If the iteration has not converged.

    Notes
    -----
    Likelihood and prior are invariant to rotations of the abilities. Results are in principal axes:
    Σ_j a aᵀ is diagonal and descending, and the slopes of each ability sum to 0 or more.

    The posteriors of abilities and items are approximated by the closest normal distributions
    (variational EM), and μ_a, Λ, μ_d and σ_d maximise the lower bound on the evidence. Abilities
    that the items do not need get slopes of 0. Three EM steps are extrapolated (SQUAREM). Errors of
    items are from the observed information; see `bayesirt.estimators.observed_information`.

    References
    ----------
    `bayesirt.models.mirt`; Cho et al. 2021; Louis 1982; Varadhan & Roland 2008.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.hstack([np.tri(6, 3, -1), 1 - np.tri(6, 3, -1)])
    >>> fit_mirt(Responses.from_arrays(answers), n_abilities=2)["a"].shape
    (6, 2)
    """
    check_start(responses, n_abilities, init)
    layout = DenseLayout(*map(jnp.asarray, responses.cells.matrices()))
    first = start_from(init, responses, n_abilities) if init else start(layout, n_abilities)
    quadrature = usual_quadrature(layout, n_nodes)
    if tolerance is None:
        tolerance = usual_tolerance(first[0].items.d.dtype)
    state, run = climbed(
        layout, quadrature, first, tolerance=tolerance, max_iterations=max_iterations
    )
    (items, population), abilities, log_likelihood = _given_items(layout, quadrature, state)
    if errors is None:
        few = (n_abilities + 1) * responses.n_items <= MOST_JOINT
        errors = "joint" if few else "own"
    covariance = item_covariance(
        layout, items, population.prior, abilities, quadrature, errors == "joint"
    )
    settings = {
        "estimator": "mirt",
        "theta_scale": "population",
        "n_abilities": n_abilities,
        "n_nodes": quadrature.n_nodes,
        "tolerance": tolerance,
        "errors": errors,
    }
    columns = mirt_columns(items, covariance, abilities)
    columns |= _population_columns(population)
    table = named_table(responses.subjects, responses.items, columns)
    return PointEstimate(table, float(log_likelihood), *run[:3], run.trace, settings)


def climbed(
    layout: DenseLayout,
    quadrature: Quadrature,
    first: tuple[MirtPopulation, Beliefs],
    *,
    tolerance: float,
    max_iterations: int,
) -> tuple[EMState, Iterations]:
    """Return the result of EM, in arbitrary axes."""
    em = partial(em_step, quadrature, layout)
    return climb(em, *first, tolerance=tolerance, max_iterations=max_iterations, name="mirt")


def _given_items(
    layout: DenseLayout, quadrature: Quadrature, state: EMState
) -> tuple[MirtPopulation, Abilities, Float[Array, ""]]:
    """Return parameters in principal axes, abilities given items, and a bound on the evidence."""
    (items, _), beliefs = state.parameters, state.beliefs
    standard = standard_normal(items.a.shape[1], items.d.dtype)
    abilities, bound = _GIVEN(layout, items, standard, beliefs.abilities, quadrature)
    known = beliefs._replace(abilities=jax.device_get(abilities))
    parameters, beliefs = in_principal_axes(state.parameters, known)
    return parameters, beliefs.abilities, bound


def em_step(
    quadrature: Quadrature, layout: DenseLayout, parameters: MirtPopulation, beliefs: Beliefs
) -> tuple[MirtPopulation, Beliefs, Float[Array, ""]]:
    """Take one EM step.

    The returned loss is that before the step: the negative lower bound on the evidence, with
    abilities and items integrated out, plus the hyperprior; infinite if a leap went too far.
    """
    items, population = jax.device_get(parameters)
    standard = standard_normal(items.a.shape[1], items.d.dtype)
    step = normal_step(quadrature, layout, items, population.prior, standard, beliefs)
    best, beliefs, loss = jax.device_get(step)
    try:
        after, standard_beliefs = to_standard(MirtPopulation(best, population), beliefs, items)
        improved = after._replace(population=best_population(after, standard_beliefs))
    except np.linalg.LinAlgError:
        return parameters, beliefs, host(np.inf)
    return improved, standard_beliefs, loss + population_loss(population)


def _population_columns(population: ItemPopulation) -> dict[str, tuple[Any, Any]]:
    return {
        "mu_a": ("ability", population.mu_a),
        "precision_a": (("ability", "ability_other"), population.precision_a),
        "mu_d": ((), population.mu_d),
        "sigma_d": ((), np.exp(population.log_sigma_d)),
    }


_GIVEN: Any = jax.jit(abilities_given, static_argnums=4)

"""Fixed-parameter calibration (FPC): new items on the scale of items that are held fixed."""

from functools import partial
from typing import get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cell_expectations import usual_quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.fpc_information import new_item_covariance
from bayesirt.estimators.fpc_steps import (
    AbilityPopulation,
    FPCParameters,
    em_step,
    given_items,
    problem_of,
    start,
)
from bayesirt.estimators.normal_beliefs import Abilities, Items
from bayesirt.estimators.parameter_table import mirt_columns, named_table
from bayesirt.estimators.symmetric_matrices import from_root
from bayesirt.estimators.variational_em import climb, usual_tolerance
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate

__all__ = ["KnownItems", "calibrate_items"]


def calibrate_items(
    responses: Responses,
    known: KnownItems,
    *,
    population: AbilityPopulation = "estimated",
    tolerance: float | None = None,
    max_iterations: int = 200,
    n_nodes: int | None = None,
) -> PointEstimate:
    """Calibrate new items on the scale of known ones, from subjects that answered both.

    Parameters
    ----------
    responses : Responses
        Answers of reference subjects to anchors (the known items among them) and to new items (all
        others). Subjects without answers to anchors are allowed.
    known : KnownItems
        Known items; their parameters are not changed.
    population : {"estimated", "standard"}
        Whether the mean and covariance of the reference subjects' abilities are estimated, as these
        may differ from the subjects with whom the scale was made, or are 0 and the identity.
    tolerance : float, optional
        Stop when the relative change of the loss is at most this; by default 1e-6, or what the
        number format allows.
    max_iterations : int
        Maximum number of iterations, of three EM steps each.
    n_nodes : int, optional
        Quadrature nodes of each cell's linear predictor; by default 5, or 3 from 200 items on.

    Returns
    -------
    PointEstimate
        As from `fit_mirt`, for all items of the responses in their order; ``known`` marks the known
        ones. ``population_mean`` and ``population_covariance`` describe the abilities. The setting
        ``n_without_anchors`` counts subjects that answered no known item.

    Raises
    ------
    ResponseError
        If there are fewer anchors than abilities, there are no new items, or a new item was
        answered by no subject that answered an anchor.

    Warns
    -----
    ConvergenceWarning
        If the iteration has not converged.

    Notes
    -----
    Variational EM with known items held fixed and the abilities' population updated in each step.
    New (a, d) are normal, with mean and covariance learned from them and shrunk towards those of
    the known items with a weight of K + 2 items. The uncertainty of new items is taken into account
    when abilities are estimated: otherwise the shrinkage of slopes towards their mean would let the
    abilities' spread grow, which a few anchors hardly prevent. The covariance of new items comes
    from the information about all of them and the population together; errors of slopes are too
    small, as `bayesirt.estimators.observed_information` says: 90% intervals hold 82% to 85% of
    slopes with 120 to 400 subjects and 12 to 30 anchors. The uncertainty of the known
    items is propagated by the delta method: ∂(new)/∂(known) = I⁻¹ C, for the observed information I
    and the covariance C of the complete data's scores.

    References
    ----------
    Habba et al. (2026), section 3; Kim 2006.

    Examples
    --------
    >>> import numpy as np
    >>> known = KnownItems(("x", "y"), np.ones((2, 1)), np.zeros(2), np.zeros((2, 2, 2)))
    >>> answers = Responses.from_arrays(np.tri(6, 3, -1), items=["x", "new", "y"])
    >>> calibrate_items(answers, known)["a"].shape
    (3, 1)
    """
    _check_population(population)
    anchors, at_known = known.within(responses)
    at_new = np.setdiff1d(np.arange(responses.n_items), at_known)
    n_without = _check_linked(responses, anchors, at_known, at_new)
    problem = problem_of(responses, known, anchors, np.append(at_new, at_known))
    quadrature = usual_quadrature(problem.layout, n_nodes)
    first = start(problem, population)
    tolerance = tolerance or usual_tolerance(problem.known.d.dtype)
    em = partial(em_step, quadrature, population, problem)
    state, run = climb(em, *first, tolerance=tolerance, max_iterations=max_iterations, name="fpc")
    parameters: FPCParameters = state.parameters
    abilities, log_likelihood = given_items(
        quadrature, problem, parameters, state.beliefs.abilities
    )
    covariance = new_item_covariance(
        problem.layout,
        parameters.items,
        anchors,
        parameters.prior,
        parameters.population,
        abilities,
        quadrature,
        estimated=population == "estimated",
    )
    table = _table(responses, parameters, anchors, at_known, covariance, abilities)
    settings = {
        "estimator": "fpc",
        "theta_scale": "known items",
        "population": population,
        "n_known": len(at_known),
        "n_new": len(at_new),
        "n_without_anchors": n_without,
        "n_nodes": quadrature.n_nodes,
        "tolerance": tolerance,
    }
    return PointEstimate(table, float(log_likelihood), *run[:3], run.trace, settings)


def _check_population(population: str) -> None:
    if population not in get_args(AbilityPopulation):
        raise ResponseError(
            f"`population` must be {' or '.join(get_args(AbilityPopulation))}, got {population!r}"
        )


def _check_linked(
    responses: Responses,
    anchors: KnownItems,
    at_known: NDArray[np.intp],
    at_new: NDArray[np.intp],
) -> int:
    """Return the number of subjects without anchors; refuse data that cannot be calibrated."""
    if not len(at_new):
        raise ResponseError(
            f"all {responses.n_items} items of the responses are known; there are no new items to "
            f"calibrate"
        )
    if len(at_known) < anchors.n_abilities:
        raise ResponseError(
            f"{len(at_known)} known items cannot determine the scale of {anchors.n_abilities} "
            f"abilities; let reference subjects answer at least as many known items"
        )
    trials = responses.cells.matrices()[1] > 0
    linked = trials[:, at_known].any(1)
    lost = ~trials[linked][:, at_new].any(0)
    if lost.any():
        name = one_line(responses.items[at_new[np.argmax(lost)]])
        raise ResponseError(
            f"the new item {name!r} was answered by no reference subject that answered a known "
            f"item; collect such answers or drop it"
        )
    return int((~linked).sum())


def _table(
    responses: Responses,
    parameters: FPCParameters,
    anchors: KnownItems,
    at_known: NDArray[np.intp],
    covariance: NDArray[np.float64],
    abilities: Abilities,
) -> xr.Dataset:
    """Return the named parameters, with known items unchanged."""
    n_items, n = responses.n_items, anchors.n_abilities
    is_known = np.zeros(n_items, bool)
    is_known[at_known] = True
    a, d = np.zeros((n_items, n)), np.zeros(n_items)
    covariances = np.zeros((n_items, n + 1, n + 1))
    a[is_known], d[is_known], covariances[is_known] = anchors.a, anchors.d, anchors.covariance
    a[~is_known], d[~is_known] = map(np.asarray, parameters.items)
    covariances[~is_known] = covariance
    columns = mirt_columns(Items(a, d), covariances, abilities)  # type: ignore[arg-type]
    columns |= {
        "population_mean": ("ability", parameters.mean),
        "population_covariance": (
            ("ability", "ability_other"),
            from_root(parameters.ability_root),
        ),
    }
    table = named_table(responses.subjects, responses.items, columns)
    return table.assign(known=("item", is_known))

"""Marginal EM for the items of any model of one ability, with abilities integrated out.

A joint estimate of abilities and items is biased if there are few items per ability: both adapt to
the same noise, and slopes come out too steep. Here each EM step integrates abilities out (Bock &
Aitkin 1981), takes a Newton step on each item's expected log likelihood, and makes the abilities'
population standard normal again by parameter expansion (Liu, Rubin & Wu 1998). From the model it
needs only the family and the typical values of item parameters.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import ExpTransform, IdentityTransform, Transform
from numpyro.handlers import seed, trace
from scipy.special import logit

from bayesirt.data.responses import Responses
from bayesirt.estimators import lapack
from bayesirt.estimators.ability_quadrature import (
    AbilityPosteriors,
    PriorMoments,
    gauss_hermite,
    integrate_abilities,
)
from bayesirt.estimators.iteration import iterate
from bayesirt.estimators.marginal_information import observed_covariance, score_roots
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.likelihood.cell_sums import Layout, layout_of
from bayesirt.likelihood.family import Family
from bayesirt.models import AUTO, ResponseModel, model_for
from bayesirt.point_estimate import PointEstimate

_SPREADS = {"a": 0.5, "d": 2.0}
"""Spreads of log slopes and intercepts about their means: the scales of the models' priors."""
_MEAN_SD, _NARROW, _WIDER = 1.0, 1e-3, 10.0
_FARTHEST, _LONGER = 1.0, 1.2

MOST_PRODUCTS, MOST_HELD = 1e11, 1e8
"""Limits on multiplications, and on numbers in memory, for the observed information. Beyond them,
errors are computed from each item's own information."""


class UsualItems(NamedTuple):
    """Priors of item parameters."""

    to_values: tuple[Transform, ...]  # Transform of each coefficient's unconstrained site.
    centres: Float[Array, "coefficient 1"]
    precisions: Float[Array, "coefficient 1"]


class _State(NamedTuple):
    """State of the iteration."""

    sites: Float[Array, "coefficient item"]
    following: Float[Array, "coefficient item"]  # Sites after one more step.
    posteriors: AbilityPosteriors
    covariance: Float[Array, "item coefficient coefficient"]  # Of the sites, given abilities.
    loss: Float[Array, ""]
    share: Float[Array, ""]  # Length of the step taken, relative to Newton's.


def fit_marginal(
    responses: Responses,
    *,
    model: str | ResponseModel = AUTO,
    shrink: bool = True,
    n_nodes: int = 11,
    errors: Literal["observed", "own"] = "observed",
    tol: float | None = None,
    max_iterations: int = 300,
) -> PointEstimate:
    """Fit the items of a model of one ability by marginal EM, with a ≥ 0 and θ ~ N(0, 1).

    Parameters
    ----------
    responses : Responses
    model : ResponseModel, or its name
        Unconstrained item parameters have normal priors whose means are estimated and whose spreads
        are typical of the model's priors.
    shrink : bool
        If False, slopes may be 0, and the priors of slopes and intercepts are ten times as wide, so
        that they matter only for items that are all right or all wrong: marginal maximum
        likelihood.
    n_nodes : int
        Number of quadrature nodes for each subject's ability.
    errors : {"observed", "own"}
        Standard errors of items from the observed information of all items together, or from each
        item's information as if abilities were known, a lower bound at no extra cost. Large data
        always use the latter.
    tol : float, optional
        Stop when the relative change of the loss is at most this; by default 1e-9, or what the
        number format allows.
    max_iterations : int

    Returns
    -------
    PointEstimate
        θ is the posterior mean (EAP) and theta_se the posterior standard deviation, given items.
        Further item parameters of the model are included under their names.

    References
    ----------
    Bock & Aitkin 1981; Louis 1982; Liu, Rubin & Wu 1998.

    Examples
    --------
    >>> import numpy as np
    >>> grades = np.tri(6, 5) + np.tri(6, 5, -2)
    >>> from bayesirt import Scale
    >>> fit_marginal(Responses.from_arrays(grades, scale=Scale("graded")))["theta"].argmax()
    np.int64(5)
    """
    model = model_for(responses, model)
    tol = max(1e-9, 4 * float(jnp.finfo(jnp.result_type(float)).eps)) if tol is None else tol
    layout, known = layout_of(responses), usual_items(model, shrink=shrink)
    totals = responses.cells.totals(1)
    near = jnp.asarray(totals.successes / np.maximum(totals.trials, 1))
    near = (near - near.mean()) / jnp.maximum(near.std(), jnp.finfo(near.dtype).eps)
    step = partial(_STEP, model, shrink, n_nodes, layout)
    state, run = iterate(
        lambda state: step(state.following, state.posteriors.mode, state.loss, state.share),
        step(_first_sites(responses, known), near, jnp.inf, 1.0),
        lambda state: state.loss,
        tol=tol,
        max_iterations=max_iterations,
        name="marginal EM",
    )
    covariance = state.covariance
    if _too_large(n_nodes * responses.n_subjects, state.sites.size):
        errors = "own"
    if errors == "observed":
        covariance = _observed(responses, model.family, known, state, n_nodes)
    settings = {
        "estimator": "em",
        "model": model.name,
        "theta_scale": "population",
        "shrink": int(shrink),
        "n_nodes": n_nodes,
        "errors": errors,
        "tol": tol,
    }
    log_likelihood = float(state.posteriors.log_likelihood.sum())
    parameters = _table(responses, model.family, known, state, covariance)
    return PointEstimate(parameters, log_likelihood, *run[:3], run.trace, settings)


def _table(
    responses: Responses, family: Family, known: UsualItems, state: _State, covariance: Array
) -> xr.Dataset:
    """Return all parameters with errors, given the covariance of each item's sites."""
    posteriors, (values, rates, _) = state.posteriors, _values_and_rates(known, state.sites)
    widths = rates * jnp.sqrt(jnp.einsum("jkk->kj", covariance))
    parameters = parameter_table(
        responses,
        (posteriors.mean, *values[:2]),
        (jnp.sqrt(posteriors.variance), *widths[:2]),
        -rates[0] * covariance[:, 0, 1] / widths[0] ** 2,
    )
    for name, *pair in zip(family.further, values[2:], widths[2:], strict=True):
        for column, x in zip((name, f"{name}_se"), pair, strict=True):
            parameters[column] = "item", np.asarray(x, np.float64)
    return parameters


def _too_large(n_rows: int, n_columns: int) -> bool:
    """Return whether the observed information would take too long or too much memory."""
    smaller, numbers = min(n_rows, n_columns), n_rows * n_columns
    held = smaller**2 if n_columns < n_rows else numbers
    return numbers * smaller > MOST_PRODUCTS or held > MOST_HELD


def _observed(
    responses: Responses, family: Family, known: UsualItems, state: _State, n_nodes: int
) -> Array:
    """Return the covariance of each item's sites from the observed information."""
    posteriors, (values, rates, bends) = state.posteriors, _values_and_rates(known, state.sites)
    points, log_weights = gauss_hermite(n_nodes, values.dtype)
    nodes = posteriors.mode[:, None] + posteriors.scale[:, None] * points
    weights = jax.nn.softmax(posteriors.log_density + log_weights, axis=1)
    lost = score_roots(responses.cells, family, nodes, weights, (*values,), rates)
    # Estimating the means also loses information.
    shared = known.precisions / jnp.sqrt(known.precisions * values.shape[1] + _MEAN_SD**-2)
    of_means = np.eye(len(values))[:, None] * np.asarray(shared).T
    rows = np.broadcast_to(of_means, (len(values), values.shape[1], len(values)))
    # The part of the curvature that steps neglect, as scores and prior cancel at the optimum.
    bent = jnp.minimum(-bends / rates * _pull(known, state.sites)[0], 0)
    item_information = lapack.inv(state.covariance) + jax.vmap(jnp.diag)(bent.T)
    by_items = values.size < nodes.size
    covariance = observed_covariance(item_information, chain([rows], lost), by_items=by_items)
    return jnp.asarray(covariance, values.dtype)


def usual_items(model: ResponseModel, *, shrink: bool = True) -> UsualItems:
    """Return the priors of item parameters, derived from the model."""
    further, sites = model.family.further, {}
    with jax.ensure_compile_time_eval():
        if further:
            with trace() as sites:
                seed(model.parameters, 0)(1, 1)
        usual = [(0.0, spread * (1 if shrink else _WIDER)) for spread in _SPREADS.values()]
        usual += [model.usual.get(name) or _given(sites[name]["value"]) for name in further]
        centres, spreads = np.array(usual).T[..., None]
    supports = [
        sites[name]["fn"].support if name in model.usual else constraints.unit_interval
        for name in further
    ]
    to_values = [biject_to(support) for support in (constraints.real, *supports)]
    to_slope = ExpTransform() if shrink else IdentityTransform()
    return UsualItems((to_slope, *to_values), centres, spreads**-2)


def _given(share: Array) -> tuple[float, float]:
    """Return centre and (tiny) spread, unconstrained, of a proportion that is fixed."""
    return float(logit(share.mean())), _NARROW


def _first_sites(responses: Responses, known: UsualItems) -> Float[Array, "coefficient item"]:
    """Return initial items: typical ones, with intercepts from the proportions correct."""
    totals = responses.cells.totals(0)
    share = jnp.asarray((totals.successes + 1) / (totals.trials + 2))
    usual = known.centres + jnp.zeros_like(share)
    usual = usual.at[0].set(known.to_values[0].inv(jnp.ones_like(share)))
    return usual.at[1].set(jnp.log(share) - jnp.log1p(-share))


def em_step(
    model: ResponseModel,
    shrink: bool,
    n_nodes: int,
    layout: Layout,
    sites: Float[Array, "coefficient item"],
    near: Float[Array, " subject"],
    before_loss: Float[Array, ""],
    share: Float[Array, ""],
) -> _State:
    """Integrate abilities out given items, and take a step from there.

    The step is shortened if the last one increased the loss, and lengthened again if it did not.
    """
    known, n = usual_items(model, shrink=shrink), len(near)
    values, rates, bends = _values_and_rates(known, sites)
    before = PriorMoments(jnp.zeros_like(near), jnp.ones_like(near))
    posteriors, sums = integrate_abilities(
        layout, model.family, (*values,), before, near, n_nodes=n_nodes, dtype=near.dtype
    )
    precision = known.precisions
    pull, mean = _pull(known, sites)
    deviations = sites - mean
    score = (rates * sums.score - pull).T
    curvature = (rates[:, None] * rates * sums.information).transpose(2, 0, 1)
    # Second derivatives of a site's transform add curvature if score and prior are opposed.
    own_curvature = precision + jnp.maximum(-bends * sums.score, 0)
    curvature += jax.vmap(jnp.diag)(own_curvature.T)
    step = lapack.solve(curvature, score[..., None])[..., 0]
    loss = (pull * deviations).sum() / 2 + ((mean - known.centres) ** 2).sum() / (2 * _MEAN_SD**2)
    loss -= posteriors.log_likelihood.sum()
    share = jnp.where(loss > before_loss, share / 2, jnp.minimum(1.0, _LONGER * share))
    moved = sites + share * jnp.clip(step.T, -_FARTHEST, _FARTHEST)
    level = posteriors.mean.mean()
    spread = jnp.sqrt(((posteriors.mean - level) ** 2 + posteriors.variance).sum() / n)
    to_slope = known.to_values[0]
    slope = jnp.maximum(to_slope(moved[0]), 0)
    moved = moved.at[0].set(to_slope.inv(slope * spread**share)).at[1].add(share * slope * level)
    return _State(sites, moved, posteriors, lapack.inv(curvature), loss, share)


def _pull(known: UsualItems, sites: Array) -> tuple[Array, Array]:
    """Return the gradient of the prior's loss and the means to which sites shrink."""
    weighted_sum = (known.precisions * sites).sum(1, keepdims=True) + known.centres / _MEAN_SD**2
    mean = weighted_sum / (known.precisions * sites.shape[1] + _MEAN_SD**-2)
    return known.precisions * (sites - mean), mean


_STEP = jax.jit(em_step, static_argnums=(0, 1, 2))


def _values_and_rates(known: UsualItems, sites: Array) -> tuple[Array, Array, Array]:
    """Return coefficients, and their first and second derivatives with respect to their sites."""

    def derivative(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda u: jax.jvp(function, (u,), (jnp.ones_like(u),))[1]

    first = [derivative(to) for to in known.to_values]
    functions = known.to_values, first, [derivative(rate) for rate in first]
    values, rates, bends = (
        jnp.stack([function(u) for function, u in zip(row, sites, strict=True)])
        for row in functions
    )
    return values, rates, bends

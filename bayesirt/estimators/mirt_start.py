"""Initial values of the multidimensional 2PL."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.mirt_population import ItemPopulation, MirtPopulation, first_population
from bayesirt.estimators.normal_beliefs import (
    Abilities,
    Beliefs,
    Items,
    first_unknown,
    standard_normal,
    without_answers,
)
from bayesirt.estimators.symmetric_matrices import inverse, to_root
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.host_arrays import host
from bayesirt.point_estimate import PointEstimate

_LOGISTIC_TO_NORMAL = 1.7
_MOST_COMMON = 0.9
_LEAST_SHARE = 0.1
_SPARE_VECTORS, _SUBSPACE_STEPS = 8, 12


def start(layout: DenseLayout, n_abilities: int) -> tuple[MirtPopulation, Beliefs]:
    """Return items and abilities from the singular vectors of standardised residuals.

    Residuals are relative to each item's proportion correct. A correlation h of an item with an
    ability gives a slope of 1.7 h / √(1 - Σ h²), as in a factor analysis of normal propensities.
    """
    dtype = jnp.result_type(float)
    successes, trials = (np.asarray(x) for x in layout)
    n, y = trials.sum(0), successes.sum(0)
    p = (y + 0.5) / (n + 1)
    scale = np.sqrt(np.maximum(trials, 1) * p * (1 - p)).astype(np.float32)
    residuals = np.where(trials > 0, (successes - trials * p) / scale, 0).astype(np.float32)
    left, loading = _leading_vectors(residuals, n_abilities)
    common = (loading**2).sum(1, keepdims=True)
    loading *= np.sqrt(np.minimum(1, _MOST_COMMON / np.maximum(common, 1e-12)))
    common = np.minimum(common, _MOST_COMMON)
    a = _LOGISTIC_TO_NORMAL * loading / np.sqrt(1 - common)
    d = np.log(p / (1 - p)) * np.sqrt(1 + (a**2).sum(1) / _LOGISTIC_TO_NORMAL**2)
    n_subjects = layout.shape[0]
    mean = np.clip(left * np.sqrt(n_subjects), -2, 2)
    half = np.broadcast_to(np.eye(n_abilities) / 2, (n_subjects, n_abilities, n_abilities))
    items = Items(host(a, dtype), host(d, dtype))
    population = first_population(n_abilities, items.d)
    abilities = Abilities(host(mean, dtype), host(half, dtype))
    beliefs = Beliefs(abilities, first_unknown(items))
    return MirtPopulation(items, population), beliefs


def _leading_vectors(residuals: NDArray[np.float32], n: int) -> tuple[Any, Any]:
    """Return left singular vectors, and loadings from which the contribution of noise is removed.

    Uses subspace iteration from fixed columns.
    """
    n_rows, n_columns = residuals.shape
    width = min(n + _SPARE_VECTORS, n_rows, n_columns)
    columns = np.random.default_rng(0).standard_normal((n_columns, width), np.float32)
    for _ in range(_SUBSPACE_STEPS):
        columns = np.linalg.qr(residuals.T @ (residuals @ columns))[0]
    left, size, right = np.linalg.svd(residuals @ columns, full_matrices=False)
    scores, vectors, sizes = np.zeros((n_rows, n)), np.zeros((n_columns, n)), np.zeros(n)
    n_kept = min(n, width)
    scores[:, :n_kept], sizes[:n_kept] = left[:, :n_kept], size[:n_kept]
    vectors[:, :n_kept] = (columns @ right.T)[:, :n_kept]
    noise = np.sqrt(n_rows) + np.sqrt(n_columns)
    signal = np.sqrt(np.maximum(sizes**2 - noise**2, (_LEAST_SHARE * sizes) ** 2))
    return scores, vectors * signal / np.sqrt(n_rows)


def check_start(responses: Responses, n_abilities: int, init: PointEstimate | None) -> None:
    """Refuse too many abilities, and a start that is not a fit of these items by `fit_mirt`."""
    if not 1 <= n_abilities < responses.n_items:
        raise ResponseError(
            f"{n_abilities} abilities cannot be estimated from {responses.n_items} items; choose "
            f"at least one ability and fewer than there are items"
        )
    if init is None:
        return
    items = list(map(str, init.parameters["item"].values))
    if init["a"].shape != (responses.n_items, n_abilities) or items != list(responses.items):
        raise ResponseError(
            f"`init` has slopes of shape {init['a'].shape}, but the {responses.n_items} items need "
            f"{n_abilities} each in their order; start from a fit of the same items"
        )
    if "precision_a" not in init.parameters:
        raise ResponseError(
            f"`init` from {init.settings['estimator']} has no population of slopes; start from a "
            f"fit by fit_mirt"
        )


def start_from(
    init: PointEstimate, responses: Responses, n_abilities: int
) -> tuple[MirtPopulation, Beliefs]:
    """Return items as estimated by `init`, and abilities at their population."""
    dtype = jnp.result_type(float)
    items = Items(*(jnp.asarray(init[name], dtype) for name in ("a", "d")))
    population = ItemPopulation(
        jnp.asarray(init["mu_a"], dtype),
        to_root(inverse(jnp.asarray(init["precision_a"], dtype))),
        jnp.asarray(init["mu_d"], dtype),
        jnp.log(jnp.asarray(init["sigma_d"], dtype)),
    )
    abilities = without_answers(standard_normal(n_abilities, dtype), responses.n_subjects)
    unknown = jnp.asarray(init["item_covariance"], dtype)
    return MirtPopulation(items, population), Beliefs(abilities, unknown)

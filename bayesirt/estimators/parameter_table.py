"""Tables of named parameters for point estimates."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.estimators.normal_beliefs import Abilities, Items


def parameter_table(
    responses: Responses,
    values: Iterable[ArrayLike],
    errors: Iterable[ArrayLike],
    theta_centre: ArrayLike,
) -> xr.Dataset:
    """Return `PointEstimate.parameters` for a model of one ability."""
    columns: dict[str, tuple[Any, Any]] = {}
    for name, value, error in zip(("theta", "a", "d"), values, errors, strict=True):
        dim = "subject" if name == "theta" else "item"
        columns |= {name: (dim, np.asarray(value, np.float64)), f"{name}_se": (dim, error)}
    a, d = columns["a"][1], columns["d"][1]
    columns["b"] = ("item", np.where(a != 0, -d / np.where(a != 0, a, 1), np.nan))
    columns["theta_centre"] = ("item", theta_centre)
    coords = {"subject": list(responses.subjects), "item": list(responses.items)}
    return in_64_bits(columns, coords)


def standard_errors(covariance: Float[Array, "row k k"]) -> Float[Array, "row k"]:
    """Return the square roots of the variances."""
    return jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2))


def mirt_columns(
    items: Items, covariance: Float[Array, "item parameter parameter"], abilities: Abilities
) -> dict[str, tuple[Any, Any]]:
    """Return dims and values of item and subject parameters with several abilities."""
    errors = standard_errors(covariance)
    return {
        "theta": (("subject", "ability"), abilities.mean),
        "theta_se": (("subject", "ability"), standard_errors(abilities.covariance)),
        "a": (("item", "ability"), items.a),
        "a_se": (("item", "ability"), errors[:, :-1]),
        "d": ("item", items.d),
        "d_se": ("item", errors[:, -1]),
        "theta_covariance": (("subject", "ability", "ability_other"), abilities.covariance),
        "item_covariance": (("item", "parameter", "parameter_other"), covariance),
    }


def named_table(
    subjects: tuple[str, ...], items: tuple[str, ...], columns: dict[str, tuple[Any, Any]]
) -> xr.Dataset:
    """Return named parameters over subjects, items and numbered abilities."""
    abilities = [f"ability {k}" for k in range(1, columns["a"][1].shape[1] + 1)]
    parameters = [*abilities, "d"]
    coords = {
        "subject": list(subjects),
        "item": list(items),
        "ability": abilities,
        "ability_other": abilities,
        "parameter": parameters,
        "parameter_other": parameters,
    }
    return in_64_bits(columns, coords)


def in_64_bits(columns: dict[str, tuple[Any, Any]], coords: dict[str, Any]) -> xr.Dataset:
    """Return columns of (dims, values) as named arrays in 64 bits."""
    named = {name: (dims, np.asarray(x, np.float64)) for name, (dims, x) in columns.items()}
    return xr.Dataset(named, coords=coords)

"""Multidimensional 2PL: estimates as named arrays."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from bayesirt.estimators.normal_beliefs import Abilities, Items


def standard_errors(covariance: Float[Array, "row k k"]) -> Float[Array, "row k"]:
    """Return the square roots of the variances."""
    return jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2))


def mirt_columns(
    items: Items, covariance: Float[Array, "item parameter parameter"], abilities: Abilities
) -> dict[str, tuple[Any, Any]]:
    """Return dims and values of what items and subjects are."""
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
    """Return columns, of dims and values, as named arrays."""
    named = {name: (dims, np.asarray(x, np.float64)) for name, (dims, x) in columns.items()}
    return xr.Dataset(named, coords=coords)

"""The named parameters of a point estimate, from arrays."""

from collections.abc import Iterable

import numpy as np
import xarray as xr
from jax.typing import ArrayLike

from bayesirt.data.responses import Responses


def parameter_table(
    responses: Responses,
    values: Iterable[ArrayLike],
    errors: Iterable[ArrayLike],
    theta_centre: ArrayLike,
) -> xr.Dataset:
    """Return what `PointEstimate.parameters` holds, in 64 bits."""
    columns = {}
    for name, value, error in zip(("theta", "a", "d"), values, errors, strict=True):
        dim = "subject" if name == "theta" else "item"
        columns[name] = (dim, np.asarray(value, np.float64))
        columns[f"{name}_se"] = (dim, np.asarray(error, np.float64))
    a, d = columns["a"][1], columns["d"][1]
    columns["b"] = ("item", np.where(a != 0, -d / np.where(a != 0, a, 1), np.nan))
    columns["theta_centre"] = ("item", np.asarray(theta_centre, np.float64))
    coords = {"subject": list(responses.subjects), "item": list(responses.items)}
    return xr.Dataset(columns, coords=coords)

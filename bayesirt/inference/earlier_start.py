"""Starting points taken from an earlier posterior."""

from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

_ALIKE = 1e-6


def start_from(earlier: Posterior, point: PointEstimate) -> PointEstimate:
    """Replace the estimates of known subjects and items by their earlier posterior means.

    New ones are put on the earlier scale: the line θ → α + β θ that maps the known subjects'
    estimates to their posterior means maps a to a / β and d to d - α a / β.
    """
    parameters = point.parameters.copy(deep=True)
    before = earlier.dataset.mean(("chain", "draw"))
    known = _known(parameters, before, "subject")
    means = before["theta"].to_numpy()[known[known >= 0]]
    estimates = point["theta"][known >= 0]
    if len(means) < 2 or min(means.std(), estimates.std()) < _ALIKE:
        return point
    scale = means.std() / estimates.std()
    shift = means.mean() - scale * estimates.mean()
    parameters["theta"] = shift + scale * parameters["theta"]
    parameters["d"] = parameters["d"] - shift / scale * parameters["a"]
    parameters["a"] = parameters["a"] / scale
    for dim in ("subject", "item"):
        known = _known(parameters, before, dim)
        for name in parameters.data_vars:
            if parameters[name].dims == (dim,) and name in before:
                parameters[name].values[known >= 0] = before[name].to_numpy()[known[known >= 0]]
    return replace(point, parameters=parameters)


def _known(parameters: xr.Dataset, before: xr.Dataset, dim: str) -> NDArray[np.intp]:
    """Return the earlier index of each name, -1 for new ones."""
    names = (pd.Index(x[dim].values.astype(str), dtype=object) for x in (before, parameters))
    return next(names).get_indexer(next(names))

"""Which point estimator suits the data."""

from collections.abc import Callable
from typing import Literal

from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.mml import fit_mml
from bayesirt.estimators.spectral import fit_spectral
from bayesirt.models.coordinates import FEW_ITEMS
from bayesirt.point_estimate import PointEstimate
from bayesirt.responses import Responses

PointMethod = Literal["auto", "cbmm", "mml", "joint_map", "spectral"]

_FITS: dict[str, Callable[[Responses], PointEstimate]] = {
    "cbmm": fit_cbmm,
    "mml": fit_mml,
    "joint_map": fit_joint_map,
    "spectral": fit_spectral,
}


def fit_point(responses: Responses, method: PointMethod = "auto") -> PointEstimate:
    """Fit a point estimate.

    Parameters
    ----------
    responses : Responses
    method : {"auto", "cbmm", "mml", "joint_map", "spectral"}
        ``"auto"`` takes MML up to `FEW_ITEMS` items, where a joint estimate's slopes are far too
        steep, and cBMM beyond, where the two agree and cBMM is faster.

    Returns
    -------
    PointEstimate

    Raises
    ------
    ResponseError
        If the responses are too many for the chosen estimator.
    """
    if method == "auto":
        method = "mml" if responses.n_items <= FEW_ITEMS else "cbmm"
    return _FITS[method](responses)

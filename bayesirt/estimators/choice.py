"""Which point estimator suits the data."""

from typing import Literal

from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.mml import fit_mml
from bayesirt.models.coordinates import FEW_ITEMS
from bayesirt.point_estimate import PointEstimate
from bayesirt.responses import Responses

PointMethod = Literal["auto", "cbmm", "mml"]


def fit_point(responses: Responses, method: PointMethod = "auto") -> PointEstimate:
    """Fit a point estimate.

    Parameters
    ----------
    responses : Responses
    method : {"auto", "cbmm", "mml"}
        ``"auto"`` takes MML up to `FEW_ITEMS` items, where a joint estimate's slopes are far too
        steep, and cBMM beyond, where the two agree and cBMM is faster.

    Returns
    -------
    PointEstimate
    """
    if method == "auto":
        method = "mml" if responses.n_items <= FEW_ITEMS else "cbmm"
    return fit_mml(responses) if method == "mml" else fit_cbmm(responses)

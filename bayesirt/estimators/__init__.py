"""Fast point estimators, one file each: `fit_x(responses, *, ...) → PointEstimate`."""

from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.weak_prior import WeakPrior

__all__ = ["WeakPrior", "fit_cbmm"]

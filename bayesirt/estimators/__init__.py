"""Fast point estimators, one file each: `fit_x(responses, *, ...) → PointEstimate`."""

from bayesirt.estimators.cbmm import WeakPrior, fit_cbmm

__all__ = ["WeakPrior", "fit_cbmm"]

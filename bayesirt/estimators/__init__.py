"""Fast point estimators, one file each: `fit_x(responses, *, ...) → PointEstimate`."""

from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.choice import fit_point
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.mml import fit_mml
from bayesirt.estimators.spectral import fit_spectral
from bayesirt.estimators.weak_prior import WeakPrior

__all__ = [
    "WeakPrior",
    "fit_cbmm",
    "fit_joint_map",
    "fit_mml",
    "fit_point",
    "fit_spectral",
]

"""Studies of how far the package's own answers can be trusted."""

from bayesirt.studies.calibration import CalibrationStudy, calibration_study
from bayesirt.studies.sparse import QUICK, SparseDesign, SparseStudy, sparse_study

__all__ = [
    "QUICK",
    "CalibrationStudy",
    "SparseDesign",
    "SparseStudy",
    "calibration_study",
    "sparse_study",
]

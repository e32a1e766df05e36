"""Studies of how far the package's own answers can be trusted."""

from bayesirt.studies.calibration import CalibrationStudy, calibration_study
from bayesirt.studies.cbmm import CBMM_QUICK, CBMMDesign, CBMMStudy, cbmm_study
from bayesirt.studies.sparse import QUICK, SparseDesign, SparseStudy, sparse_study

__all__ = [
    "CBMM_QUICK",
    "QUICK",
    "CBMMDesign",
    "CBMMStudy",
    "CalibrationStudy",
    "SparseDesign",
    "SparseStudy",
    "calibration_study",
    "cbmm_study",
    "sparse_study",
]

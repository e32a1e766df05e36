"""Studies of how far the package's own answers can be trusted."""

from bayesirt.studies.abilities import (
    ABILITIES_QUICK,
    AbilitiesDesign,
    AbilitiesStudy,
    abilities_study,
)
from bayesirt.studies.calibration import CalibrationStudy, calibration_study
from bayesirt.studies.cat import CAT_QUICK, CATDesign, CATStudy, cat_study
from bayesirt.studies.cbmm import CBMM_QUICK, CBMMDesign, CBMMStudy, cbmm_study
from bayesirt.studies.fpc import FPCStudy, fpc_study
from bayesirt.studies.fpc_tasks import FPC_QUICK, FPCDesign
from bayesirt.studies.lart import LART_QUICK, LaRTDesign, LaRTStudy, lart_study
from bayesirt.studies.sparse import QUICK, SparseDesign, SparseStudy, sparse_study

__all__ = [
    "ABILITIES_QUICK",
    "CAT_QUICK",
    "CBMM_QUICK",
    "FPC_QUICK",
    "LART_QUICK",
    "QUICK",
    "AbilitiesDesign",
    "AbilitiesStudy",
    "CATDesign",
    "CATStudy",
    "CBMMDesign",
    "CBMMStudy",
    "CalibrationStudy",
    "FPCDesign",
    "FPCStudy",
    "LaRTDesign",
    "LaRTStudy",
    "SparseDesign",
    "SparseStudy",
    "abilities_study",
    "calibration_study",
    "cat_study",
    "cbmm_study",
    "fpc_study",
    "lart_study",
    "sparse_study",
]

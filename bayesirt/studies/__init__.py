"""Studies of how far the package's results can be trusted.

A study consists of a design (what is simulated), tasks (the work of one condition), tables, claims
and figures. `engine` runs tasks, stores and resumes their rows, and saves a study's results;
`tasks`, `measures`, `labels`, `claims` and `figures` are shared by all studies. Study x starts in
`x.py`, which also evaluates its rows, unless `x_tables.py` does; its other files hold what its
tasks do and which rows they log.
"""

from bayesirt.studies.abilities import ABILITIES_QUICK, AbilitiesDesign, abilities_study
from bayesirt.studies.calibration import CalibrationStudy, calibration_study
from bayesirt.studies.cat import CAT_QUICK, CATDesign, cat_study
from bayesirt.studies.cbmm import CBMM_QUICK, CBMMDesign, cbmm_study
from bayesirt.studies.engine import Study
from bayesirt.studies.fpc import fpc_study
from bayesirt.studies.fpc_tasks import FPC_QUICK, FPCDesign
from bayesirt.studies.lart import LART_QUICK, LaRTDesign, lart_study
from bayesirt.studies.sparse import QUICK, SparseDesign, sparse_study

__all__ = [
    "ABILITIES_QUICK",
    "CAT_QUICK",
    "CBMM_QUICK",
    "FPC_QUICK",
    "LART_QUICK",
    "QUICK",
    "AbilitiesDesign",
    "CATDesign",
    "CBMMDesign",
    "CalibrationStudy",
    "FPCDesign",
    "LaRTDesign",
    "SparseDesign",
    "Study",
    "abilities_study",
    "calibration_study",
    "cat_study",
    "cbmm_study",
    "fpc_study",
    "lart_study",
    "sparse_study",
]

"""Studies of how far the package's own answers can be trusted.

A study is a design (what is simulated), tasks (what one condition does), tables, claims, figures.
`engine` does tasks, keeps and resumes their rows, and saves what a study found; `tasks`,
`measures`, `labels`, `claims` and `figures` are what studies share. Study x begins in `x.py`, which
holds what its rows say, too, unless `x_tables.py` does; the other files are what its tasks do, and
which rows they log.
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

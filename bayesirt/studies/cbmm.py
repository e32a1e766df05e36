"""The cBMM study: Qu et al. (2026) done again, with our other estimators and a posterior beside it.

Simulated designs, stability over random starts, ranking against accuracy, difficulty against
human level, and redundant items with and without control of false ones.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Unpack

import jax
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.data.responses import Responses
from bayesirt.studies.cbmm_claims import cbmm_claims, cbmm_notes
from bayesirt.studies.cbmm_conditions import Condition, conditions_of
from bayesirt.studies.cbmm_figures import (
    plot_flow,
    plot_heterogeneity,
    plot_levels,
    plot_recovery,
    plot_redundancy,
    plot_stability,
)
from bayesirt.studies.cbmm_matrix import SIMULATED_SIZE, MatrixLook, look_at, simulated_matrix
from bayesirt.studies.cbmm_methods import POINT_METHODS, POSTERIORS, methods_for
from bayesirt.studies.cbmm_tables import (
    heterogeneity_table,
    paper_table,
    recovery_table,
    redundancy_table,
    stability_table,
)
from bayesirt.studies.cbmm_tasks import (
    FIT_COLUMNS,
    NIL_COLUMNS,
    REVIEW_COLUMNS,
    STABILITY_COLUMNS,
    StartTask,
    SuiteTask,
)
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Running, SavedStudy, do_tasks
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.study_rows import with_conditions
from bayesirt.studies.tasks import PortableKey

_PLACE = ("condition", "replication", "method")
_START_PLACE = ("method", "replication", "variance_one", "variance_two")
_STARTS = "stability"
_PARTS = {
    "suites": Part(_PLACE, (*FIT_COLUMNS, *NIL_COLUMNS, *REVIEW_COLUMNS)),
    _STARTS: Part(_START_PLACE, STABILITY_COLUMNS[len(_START_PLACE) :]),
}


@dataclass(frozen=True)
class CBMMDesign:
    """What the study simulates; by default what Qu et al. (2026) do (A.6 and A.7)."""

    replications: int = 50  # Suites of each condition.
    mml_replications: int = 5  # Of these, to how many MML is fitted.
    drawn_replications: int = 20  # Of those with redundant items, how many posteriors are drawn.
    size: tuple[int, int] = (1000, 1000)  # N and J of the base.
    sizes: tuple[int, ...] = (200, 500, 1000, 2000, 5000)  # N at the base's J, J at its N.
    temperatures: tuple[float, ...] = (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75)  # log10 σ.
    rates: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)  # Missing shares; the paper states the range.
    # Shares of items that lose their wrong answers. The paper states none.
    gated: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    sparsities: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # Shares of items with a = 0.
    spreads: tuple[float, ...] = (0.4, 0.8, 1.2, 1.6)  # CVs of a log-normal a. Not in the paper.
    posteriors: tuple[str, ...] = POSTERIORS
    starts: int = 50  # Random starts of each variance.
    variances: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)  # Of log a and d in these.
    matrix_size: tuple[int, int] = SIMULATED_SIZE  # Of the matrix, where none is given.

    @property
    def conditions(self) -> list[Condition]:
        """The base, and each factor's other values."""
        values = {
            "temperature": self.temperatures,
            "mcar": self.rates,
            "mar": self.rates,
            "mnar": self.gated,
            "sparsity": self.sparsities,
            "spread": self.spreads,
        }
        return list(conditions_of(self.size, self.sizes, values))


CBMM_QUICK = CBMMDesign(
    replications=3,
    mml_replications=3,
    drawn_replications=3,
    size=(200, 200),
    sizes=(200, 500),
    temperatures=(-0.75, 0.0, 0.75),
    rates=(0.4, 0.8),
    gated=(0.1, 0.3),
    sparsities=(0.05, 0.2, 0.5),
    spreads=(0.6, 1.4),
    posteriors=("laplace positive", "laplace free"),
    starts=3,
)
"""Smaller suites, fewer values and fewer replications."""


@dataclass(frozen=True, eq=False, repr=False)
class CBMMStudy(SavedStudy):
    """What came of every suite, start and matrix, and what it says."""

    replications: pd.DataFrame  # One row a suite and method.
    starts: pd.DataFrame  # One row a step, replication and pair of start variances.
    matrix: MatrixLook  # Of the given responses, or of a simulated matrix.
    design: CBMMDesign

    def __repr__(self) -> str:
        n, j = self.matrix.size
        kind = "simulated" if self.matrix.simulated else "given"
        return f"<CBMMStudy of {len(self.replications):,} fits and a {kind} {n} x {j} matrix>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """How well each method recovers each design; see `recovery_table`."""
        return recovery_table(self.replications)

    @cached_property
    def redundancy(self) -> pd.DataFrame:
        """How well redundant items are found; see `redundancy_table`."""
        return redundancy_table(self.replications)

    @cached_property
    def stability(self) -> pd.DataFrame:
        """How alike fits from random starts are; see `stability_table`."""
        return stability_table(self.starts)

    @cached_property
    def heterogeneity(self) -> pd.DataFrame:
        """ρ of ability and accuracy against the spread of a; see `heterogeneity_table`."""
        return heterogeneity_table(self.summary, self.matrix.agreement)

    @cached_property
    def paper(self) -> pd.DataFrame:
        """What the paper prints in its text, beside ours; see `paper_table`."""
        return paper_table(self.summary, self.redundancy)

    def _claims(self) -> Iterator[Claim]:
        return cbmm_claims(self)

    def _notes(self) -> Iterator[str]:
        return cbmm_notes(self.matrix)

    def _tables(self) -> dict[str, pd.DataFrame]:
        tables = {
            "recovery": self.summary,
            "paper": self.paper,
            "redundancy": self.redundancy,
            "stability": self.stability,
            "heterogeneity": self.heterogeneity,
            "agreement": self.matrix.agreement,
            "ranks": self.matrix.subjects,
        }
        if len(self.matrix.levels):
            tables |= {"levels": self.matrix.levels, "level_rho": self.matrix.level_rho}
        return tables

    def _figures(self) -> dict[str, Figure]:
        figures = {
            "size": plot_recovery(self.summary, ("items", "subjects"), self.design.size),
            "robustness": plot_recovery(
                self.summary, ("temperature", "mcar", "mar", "mnar", "sparsity"), self.design.size
            ),
            "redundancy": plot_redundancy(self.redundancy),
            "stability": plot_stability(self.starts),
            "heterogeneity": plot_heterogeneity(self.heterogeneity),
            "flow": plot_flow(self.matrix),
        }
        if len(self.matrix.levels):
            figures["levels"] = plot_levels(self.matrix)
        return figures


def cbmm_study(
    design: CBMMDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    **running: Unpack[Running],
) -> CBMMStudy:
    """Do Qu et al. (2026) again: recovery, stability, agreement with accuracy, redundancy.

    Parameters
    ----------
    design : CBMMDesign, optional
    key : jax.random.key
        The same key gives the same study, but for its times, on the same machine, however it
        is run.
    responses : Responses, optional
        The matrix for stability, ranking and level; by default one is simulated.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`.

    Returns
    -------
    CBMMStudy

    Raises
    ------
    ResponseError
        If the folder holds something else, or the scheduler cannot be reached.

    References
    ----------
    Qu et al. (2026), section 4, A.6 and A.7.
    """
    design = design or CBMMDesign()
    portable = PortableKey.of(key)
    simulated = responses is None
    if responses is None:
        responses = simulated_matrix(portable.rng("matrix"), design.matrix_size)
    settings = {**asdict(design), "key": portable, "responses": fingerprint(responses)}
    tasks: list[SuiteTask | StartTask] = [
        *_suite_tasks(design, portable),
        *_start_tasks(design, portable, responses),
    ]
    rows = do_tasks(tasks, _PARTS, settings, running)
    look = look_at(responses, key=jax.random.fold_in(key, len(tasks)), simulated=simulated)
    ordered = rows[_STARTS].sort_values(list(_START_PLACE), ignore_index=True)
    columns = {name: name for name in ("factor", "value", "n_subjects", "n_items")}
    methods = [*POINT_METHODS, *POSTERIORS]
    fits = with_conditions(rows["suites"], design.conditions, columns, methods)
    return CBMMStudy(fits, ordered, look, design)


def _suite_tasks(design: CBMMDesign, key: PortableKey) -> list[SuiteTask]:
    """Return all suites, one replication of every condition after the other."""
    tasks = []
    for replication in range(design.replications):
        mml, drawn = (replication < n for n in (design.mml_replications, design.drawn_replications))
        for number, condition in enumerate(design.conditions):
            methods = tuple(methods_for(condition.n_items, mml))
            posteriors = design.posteriors if drawn and condition.factor == "sparsity" else ()
            tasks.append(SuiteTask(number, condition, replication, methods, posteriors, key))
    return tasks


def _start_tasks(design: CBMMDesign, key: PortableKey, responses: Responses) -> list[StartTask]:
    return [StartTask(k, responses, design.variances, key) for k in range(design.starts)]

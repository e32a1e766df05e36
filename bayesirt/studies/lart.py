"""The LaRT study: Xu et al. (2026) done again, with exact EM, intervals, and a matrix of one's own.

Simulated designs, SAEM from two starts, coverage of intervals; and for given responses with
lengths ρ, prediction, validity, what few items or subjects do, and a criterion from outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice, product
from typing import Any, Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Placed, Running, SavedStudy, do_tasks
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.lart_claims import MATRIX_NOTES, NOTES, matrix_claims, simulation_claims
from bayesirt.studies.lart_figures import (
    plot_abilities_and_speeds,
    plot_coverage,
    plot_criterion,
    plot_efficiency,
    plot_prediction,
    plot_recovery,
    plot_saem,
)
from bayesirt.studies.lart_matrix import (
    RHO_COLUMNS,
    DrawTask,
    MatrixLook,
    criterion_table,
    look_at,
    with_criterion,
)
from bayesirt.studies.lart_matrix_tasks import (
    ITEM_COLUMNS,
    PREDICTION_COLUMNS,
    SUBJECT_COLUMNS,
    VALIDITY_COLUMNS,
    ItemTask,
    PredictionTask,
    SubjectTask,
    ValidityTask,
    applied_splits,
)
from bayesirt.studies.lart_splits import N_FOLDS, base_subjects
from bayesirt.studies.lart_suites import (
    DRAWN,
    EM_METHODS,
    FIT_COLUMNS,
    SAEM_METHODS,
    Condition,
    SuiteTask,
)
from bayesirt.studies.lart_tables import (
    PLACE,
    coverage_table,
    mean_table,
    prediction_table,
    recovery_table,
    saem_table,
    time_table,
)
from bayesirt.studies.study_rows import with_conditions
from bayesirt.studies.tasks import PortableKey

_PARTS = {
    "suites": Part(("condition", "replication", "method"), FIT_COLUMNS),
    "prediction": Part(("repetition", "split", "subject", "method"), PREDICTION_COLUMNS),
    "validity": Part(("repetition", "method"), VALIDITY_COLUMNS),
    "subject_efficiency": Part(("repetition", "n_subjects", "method"), SUBJECT_COLUMNS),
    "item_efficiency": Part(("n_items", "method"), ITEM_COLUMNS),
    "rho": Part(("method",), RHO_COLUMNS),
}


BATCH = 20
"""Suites that are simulated one after another, so that little is compiled."""


@dataclass(frozen=True)
class LaRTDesign:
    """What is simulated and repeated; by default as in Xu et al. (2026) (section 5, D)."""

    replications: int = 200  # Suites of each condition.
    saem_replications: int = 200  # To how many of them SAEM is fitted; of short tests to none.
    drawn_replications: int = 20  # For how many of them the posterior is drawn.
    sizes: tuple[int, ...] = (100, 200, 500)  # N.
    n_items: int = 50
    rho: float = -0.8
    # N, J and ρ of tests so short, and so much tied to speed, that speeds are far from known.
    short: tuple[tuple[int, int, float], ...] = ((200, 10, -0.95),)
    iterations: int = 200  # Of SAEM; the paper runs until it converges, whatever that means.
    drawn_sizes: tuple[int, ...] = (100, 200, 500)  # N for which the posterior is drawn.
    draws: int = 500  # Of the posterior of suites, by each of two chains.
    matrix_draws: int = 500  # Of that of a given matrix.
    repetitions: int = 5  # Of the divisions of a given matrix into folds and sets.

    @property
    def conditions(self) -> list[Condition]:
        """The paper's, and the short tests."""
        papers = [Condition(n, self.n_items, self.rho) for n in self.sizes]
        return papers + [Condition(*place) for place in self.short]

    def replications_of(self, method: str, number: int) -> int:
        """Return the number of suites of a condition that a method is run on."""
        if method in EM_METHODS:
            return self.replications
        if method in SAEM_METHODS:
            short = number >= len(self.sizes)
            return 0 if short else min(self.replications, self.saem_replications)
        drawn = self.conditions[number].n_subjects in self.drawn_sizes
        return min(self.replications, self.drawn_replications) if drawn else 0


LART_QUICK = LaRTDesign(
    replications=20,
    saem_replications=3,
    drawn_replications=3,
    drawn_sizes=(100,),
    draws=300,
    matrix_draws=0,
    repetitions=1,
)
"""Fewer replications and repetitions, and no draws of a given matrix."""


@dataclass(frozen=True, eq=False, repr=False)
class LaRTStudy(SavedStudy):
    """What came of every suite and of the matrix, and what it says."""

    replications: pd.DataFrame  # One row a suite and method.
    design: LaRTDesign
    matrix: MatrixLook | None = None  # Of the given responses; what follows is empty without.
    prediction: pd.DataFrame = field(default_factory=pd.DataFrame)
    validity: pd.DataFrame = field(default_factory=pd.DataFrame)
    subject_efficiency: pd.DataFrame = field(default_factory=pd.DataFrame)
    item_efficiency: pd.DataFrame = field(default_factory=pd.DataFrame)
    criterion: pd.DataFrame = field(default_factory=pd.DataFrame)
    outside: pd.DataFrame = field(default_factory=pd.DataFrame)  # Subjects that have a criterion.

    def __repr__(self) -> str:
        matrix = (
            "no matrix" if self.matrix is None else "a {} x {} matrix".format(*self.matrix.size)
        )
        return f"<LaRTStudy of {len(self.replications):,} fits and {matrix}>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """How far LaRT and IRT are from the truth; see `recovery_table`."""
        return recovery_table(self.replications)

    @cached_property
    def seconds(self) -> pd.DataFrame:
        """How long each method takes; see `time_table`."""
        return time_table(self.replications)

    @cached_property
    def saem(self) -> pd.DataFrame:
        """SAEM beside EM; see `saem_table`."""
        return saem_table(self.replications)

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """Coverage and width of the abilities' intervals; see `coverage_table`."""
        return coverage_table(self.replications)

    def _claims(self) -> Iterator[Claim]:
        yield from simulation_claims(self.summary, self.seconds, self.saem, self.coverage)
        if self.matrix is not None:
            yield from matrix_claims(self, self.matrix)

    def _notes(self) -> tuple[str, ...]:
        return NOTES if self.matrix is None else (*NOTES, *MATRIX_NOTES)

    def _tables(self) -> dict[str, pd.DataFrame]:
        tables = {
            "recovery": self.summary,
            "seconds": self.seconds,
            "saem": self.saem,
            "coverage": self.coverage,
        }
        return tables | ({} if self.matrix is None else self._matrix_tables(self.matrix))

    def _figures(self) -> dict[str, Figure]:
        figures = {
            "recovery": plot_recovery(self.replications),
            "saem": plot_saem(self.replications),
            "coverage": plot_coverage(self.coverage),
        }
        return figures | ({} if self.matrix is None else self._matrix_figures(self.matrix))

    def _matrix_tables(self, matrix: MatrixLook) -> dict[str, pd.DataFrame]:
        tables = {
            "matrix_fits": matrix.fits,
            "matrix_rho": matrix.rho,
            "matrix_subjects": matrix.subjects,
            "matrix_prediction": self.prediction,
            "matrix_validity": self.validity,
            "matrix_subject_efficiency": self.subject_efficiency,
            "matrix_item_efficiency": self.item_efficiency,
        }
        return tables | ({"matrix_criterion": self.criterion} if len(self.criterion) else {})

    def _matrix_figures(self, matrix: MatrixLook) -> dict[str, Figure]:
        figures = {
            "abilities_and_speeds": plot_abilities_and_speeds(matrix),
            "prediction": plot_prediction(self.prediction),
            "efficiency": plot_efficiency(self.item_efficiency, self.subject_efficiency),
        }
        if len(self.criterion):
            figures["criterion"] = plot_criterion(self.outside, self.criterion)
        return figures


def lart_study(
    design: LaRTDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    suffixes: Sequence[str] = (),
    criterion: Mapping[str, float] | None = None,
    **running: Unpack[Running],
) -> LaRTStudy:
    """Do Xu et al. (2026) again: simulation, SAEM, intervals; what lengths are worth on a matrix.

    Parameters
    ----------
    design : LaRTDesign, optional
    key : jax.random.key
        The same key gives the same study, but for its times, on the same machine, however it
        is run.
    responses : Responses, optional
        With lengths: the matrix for ρ, prediction, validity and efficiency.
    suffixes : sequence of str, optional
        Endings of subjects' names that say only how they were asked, such as ``_one_shot``: rows
        alike but for it are one base subject, which is not divided.
    criterion : mapping, optional
        A measure of ability from outside, by subject.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`.

    Returns
    -------
    LaRTStudy

    Raises
    ------
    ResponseError
        If the responses have no lengths or too few items, a criterion comes without responses or
        tells nothing, the folder holds something else, or the scheduler cannot be reached.

    References
    ----------
    Xu et al. (2026), sections 5 and 6.3, Tables 1 and 2, Appendix D.
    """
    design, portable = design or LaRTDesign(), PortableKey.of(key)
    _check_matrix(responses, criterion)
    groups = np.zeros(0, np.intp)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    tasks: list[Placed] = [*suite_tasks(design, portable)]
    if responses is not None:
        groups = base_subjects(responses.subjects, suffixes)
        settings |= {"responses": fingerprint(responses), "suffixes": list(suffixes)}
        tasks += _matrix_tasks(design, portable, responses, groups)
    rows = do_tasks(tasks, _PARTS, settings, running)
    columns, methods = {name: name for name in PLACE}, [*EM_METHODS, *SAEM_METHODS, DRAWN]
    suites = with_conditions(rows["suites"], design.conditions, columns, methods)
    if responses is None:
        return LaRTStudy(suites, design)
    return _with_matrix(suites, design, portable, responses, groups, criterion or {}, rows)


def _check_matrix(responses: Responses | None, criterion: Mapping[str, float] | None) -> None:
    if responses is None:
        if criterion:
            raise ResponseError("a criterion needs the responses of its subjects; give them, too")
        return
    if responses.latency is None or not np.isfinite(responses.latency).any():
        raise ResponseError(
            "the LaRT study needs the length or time of responses; name its column with --latency"
        )
    least = 2 * N_FOLDS
    if responses.n_items < least or responses.n_subjects < least:
        raise ResponseError(
            f"five folds need at least {least} subjects and {least} items, got "
            f"{responses.n_subjects} and {responses.n_items}"
        )
    if criterion is not None:
        with_criterion(pd.DataFrame({"subject": responses.subjects}), criterion)


def suite_tasks(design: LaRTDesign, key: PortableKey) -> list[SuiteTask]:
    """Return all suites in batches, the long work first."""
    tasks = []
    methods = (DRAWN, *SAEM_METHODS, *EM_METHODS)
    for method, (number, condition) in product(methods, reversed([*enumerate(design.conditions)])):
        replications = iter(range(design.replications_of(method, number)))
        while batch := tuple(islice(replications, BATCH)):
            settings = (method, design.iterations, design.draws, key)
            tasks.append(SuiteTask(number, condition, batch, *settings))
    return tasks


def _matrix_tasks(
    design: LaRTDesign, key: PortableKey, responses: Responses, groups: NDArray[np.intp]
) -> list[Placed]:
    tasks: list[Placed] = [ItemTask(responses)]
    if design.matrix_draws:
        tasks.append(DrawTask(responses, design.matrix_draws, key))
    for k in range(design.repetitions):
        splits = applied_splits(groups)
        tasks += [PredictionTask(k, split, responses, own, key) for split, own in splits]
        tasks += [ValidityTask(k, responses, key), SubjectTask(k, responses, groups, key)]
    return tasks


def _with_matrix(
    suites: pd.DataFrame,
    design: LaRTDesign,
    key: PortableKey,
    responses: Responses,
    groups: NDArray[np.intp],
    criterion: Mapping[str, float],
    rows: Mapping[str, pd.DataFrame],
) -> LaRTStudy:
    look = look_at(responses, groups, rows["rho"], key.rng("rho"))
    order = list(_PARTS["prediction"].place)
    predicted = rows["prediction"].sort_values(order, ignore_index=True)
    outside = with_criterion(look.subjects, criterion) if criterion else pd.DataFrame()
    return LaRTStudy(
        suites,
        design,
        look,
        prediction_table(predicted, groups, key.rng("prediction")),
        mean_table(rows["validity"], ["method"]),
        mean_table(rows["subject_efficiency"], ["n_subjects", "method"]),
        mean_table(rows["item_efficiency"], ["n_items", "method"]),
        criterion_table(outside, key.rng("criterion")) if criterion else pd.DataFrame(),
        outside,
    )

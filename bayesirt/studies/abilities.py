"""The abilities study: Zhang et al. (2026) done again, with the baselines that it leaves out.

Whether intervals hold, what abilities have to do with accuracy and with themselves on other items,
and how much of what they predict of unseen items is about subjects at all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Unpack

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.abilities_claims import ability_claims, ability_notes
from bayesirt.studies.abilities_consistency import (
    CONSISTENCY_COLUMNS,
    CRITERION_COLUMNS,
    ESTIMATES,
    CriterionTask,
    HalvesTask,
    PairTask,
)
from bayesirt.studies.abilities_coverage import BATCH, COVERAGE_COLUMNS, CoverageTask
from bayesirt.studies.abilities_figures import plot_consistency, plot_intervals, plot_prediction
from bayesirt.studies.abilities_matrix import AbilityMatrix, given_matrix, simulated_matrix
from bayesirt.studies.abilities_predictors import PREDICTORS
from bayesirt.studies.abilities_tables import (
    ability_table,
    across_table,
    consistency_table,
    coverage_table,
    criterion_table,
    prediction_table,
)
from bayesirt.studies.abilities_unseen import (
    AGREEMENT_COLUMNS,
    MOST_DRAWN,
    PREDICTION_COLUMNS,
    AgreementTask,
    SplitTask,
)
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Placed, Running, SavedStudy, do_tasks
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.tasks import PortableKey

_PARTS = {
    "coverage": Part(("size", "replication"), COVERAGE_COLUMNS),
    "criterion": Part(("ability", "method"), CRITERION_COLUMNS),
    "consistency": Part(("one", "other", "repetition", "ability", "method"), CONSISTENCY_COLUMNS),
    "prediction": Part(("split", "method"), PREDICTION_COLUMNS),
    "across": Part(("source", "target", "method"), PREDICTION_COLUMNS),
    "agreement": Part(("split",), AGREEMENT_COLUMNS),
}
_FIRST = "coverage"
_MATRIX_SEED = 41
Size = tuple[int, int, int]


@dataclass(frozen=True)
class AbilitiesDesign:
    """What is simulated, and how often items are divided; by default as in Zhang et al. (2026)."""

    # Subjects, items and abilities of the suites whose intervals are counted.
    coverage_sizes: tuple[Size, ...] = ((200, 40, 3), (200, 120, 12))
    replications: int = 20  # Suites of each size.
    draws: int = 500  # Of each of two chains, for each suite.
    size: Size = (41, 748, 35)  # Of the matrix that is simulated where none is given.
    splits: int = 10  # Into 90% of the items and 10%.
    halves: int = 5  # Splits into two halves.
    posterior_draws: int = 300  # Of each of two chains on the first split; 0 for none.
    # Responses that NeuralCD is shown: those of 20 epochs of the paper's 41 x 748.
    trained: int = 600_000


ABILITIES_QUICK = AbilitiesDesign(
    replications=3,
    draws=150,
    size=(41, 200, 12),
    splits=3,
    halves=1,
    posterior_draws=100,
    trained=300_000,
)
"""A smaller matrix, fewer suites and fewer splits."""


@dataclass(frozen=True, eq=False, repr=False)
class AbilitiesStudy(SavedStudy):
    """What came of every suite and every division of the matrix, and what it says."""

    replications: pd.DataFrame  # One row a simulated suite; empty where a matrix was given.
    matrix: AbilityMatrix  # That all else is about.
    design: AbilitiesDesign
    parts: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # The other rows of `_PARTS`.

    def __repr__(self) -> str:
        responses = self.matrix.responses
        kind = "given" if self.matrix.truth is None else "simulated"
        return (
            f"<AbilitiesStudy of {len(self.replications):,} suites and a {kind} "
            f"{responses.n_subjects} x {responses.n_items} matrix>"
        )

    @cached_property
    def summary(self) -> pd.DataFrame:
        """How well unseen items are predicted; see `prediction_table`."""
        return prediction_table(self.parts["prediction"])

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """Whether intervals hold; see `coverage_table`."""
        return coverage_table(self.replications)

    @cached_property
    def criterion(self) -> pd.DataFrame:
        """What abilities have to do with accuracy; see `criterion_table`."""
        return criterion_table(self.parts["criterion"], self.parts["consistency"])

    @cached_property
    def consistency(self) -> pd.DataFrame:
        """What abilities have to do with themselves; see `consistency_table`."""
        return consistency_table(self.parts["consistency"], self.matrix.groups)

    @cached_property
    def abilities(self) -> pd.DataFrame:
        """Each ability; see `ability_table`."""
        return ability_table(
            self.parts["criterion"], self.parts["consistency"], self.matrix.q.abilities
        )

    @cached_property
    def across(self) -> pd.DataFrame:
        """How well other benchmarks are predicted; see `across_table`."""
        return across_table(self.parts["across"], self.matrix)

    def _claims(self) -> Iterator[Claim]:
        return ability_claims(self)

    def _notes(self) -> Iterator[str]:
        return ability_notes(self)

    def _tables(self) -> dict[str, pd.DataFrame]:
        tables = {
            "unseen_items": self.summary,
            "criteria": self.criterion,
            "consistencies": self.consistency,
            "abilities": self.abilities,
        }
        others = {
            "intervals": self.coverage,
            "across_benchmarks": self.across,
            "full_posterior": self.parts["agreement"],
        }
        return tables | {name: table for name, table in others.items() if len(table)}

    def _figures(self) -> dict[str, Figure]:
        figures = {
            "unseen_items": plot_prediction(self.summary),
            "consistencies": plot_consistency(self.abilities),
        }
        if len(self.replications):
            figures["intervals"] = plot_intervals(self.coverage)
        return figures


def abilities_study(
    design: AbilitiesDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    q: QMatrix | None = None,
    groups: Mapping[str, str] | None = None,
    **running: Unpack[Running],
) -> AbilitiesStudy:
    """Do Zhang et al. (2026) again: criterion, consistency, unseen items, and honest baselines.

    Parameters
    ----------
    design : AbilitiesDesign, optional
    key : jax.random.key
        The same key gives the same study, but for its times, on the same machine, however it
        is run.
    responses : Responses, optional
        To be studied instead of a simulated matrix and suites.
    q : QMatrix, optional
        With a row for each of their items.
    groups : mapping, optional
        The benchmark of each of their items, to go from one to another.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`.

    Returns
    -------
    AbilitiesStudy

    Raises
    ------
    ResponseError
        If responses come without a Q-matrix or it without them, an item has no row or no
        benchmark, there are too few of them, the folder holds something else, or the scheduler
        cannot be reached.

    References
    ----------
    Zhang et al. (2026), sections 3.2 to 3.4, Figures 5 to 7, Tables 3 to 5.
    """
    design, portable = design or AbilitiesDesign(), PortableKey.of(key)
    matrix = _matrix(design, key, responses, q, groups)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    tasks: list[Placed] = []
    if responses is None:
        tasks += coverage_tasks(design, portable)
    else:
        settings |= {"responses": fingerprint(matrix.responses), "q": matrix.q.as_lists()}
        settings["groups"] = [matrix.groups, matrix.group.tolist()]
    tasks += matrix_tasks(design, matrix, portable)
    rows = do_tasks(tasks, _PARTS, settings, running)
    return AbilitiesStudy(_with_sizes(rows[_FIRST], design), matrix, design, _parts(rows))


def coverage_tasks(design: AbilitiesDesign, key: PortableKey) -> list[CoverageTask]:
    """Return the suites in batches, the largest first."""
    batches = [
        tuple(range(first, min(first + BATCH, design.replications)))
        for first in range(0, design.replications, BATCH)
    ]
    sizes = sorted(enumerate(design.coverage_sizes), key=lambda pair: -pair[1][1] * pair[1][2])
    return [
        CoverageTask(number, size, batch, design.draws, key)
        for number, size in sizes
        for batch in batches
    ]


def matrix_tasks(design: AbilitiesDesign, matrix: AbilityMatrix, key: PortableKey) -> list[Placed]:
    """Return what is done with one matrix."""
    tasks: list[Placed] = []
    if design.posterior_draws and matrix.responses.n_observed <= MOST_DRAWN:
        tasks.append(AgreementTask(0, matrix, design.posterior_draws, key))
    tasks.append(CriterionTask(matrix, design.trained, key))
    tasks += [HalvesTask(k, matrix, design.trained, key) for k in range(design.halves)]
    pairs = combinations(range(len(matrix.groups)), 2)
    tasks += [PairTask(one, other, matrix, design.trained, key) for one, other in pairs]
    tasks += [SplitTask(k, matrix, design.trained, key) for k in range(design.splits)]
    return tasks


def _matrix(
    design: AbilitiesDesign,
    key: Array,
    responses: Responses | None,
    q: QMatrix | None,
    groups: Mapping[str, str] | None,
) -> AbilityMatrix:
    """Return the matrix that is studied, or say what is missing."""
    if responses is not None and q is not None:
        return given_matrix(responses, q, groups)
    if responses is not None:
        raise ResponseError(
            "abilities need a Q-matrix that says which of them each item needs; give --q-matrix"
        )
    if q is not None:
        raise ResponseError("a Q-matrix needs the responses to its items; give --responses, too")
    if groups is not None:
        raise ResponseError(
            "groups of items need the responses and a Q-matrix; give --responses and --q-matrix"
        )
    return simulated_matrix(design.size, key=jax.random.fold_in(key, _MATRIX_SEED))


def _parts(rows: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the rows of each part in the order of their places."""
    orders = {name: k for k, name in enumerate([*PREDICTORS, *ESTIMATES])}
    parts = {}
    for part, table in rows.items():
        if part != _FIRST:
            by = [table[name] for name in _PARTS[part].place]
            by = [x.map(orders) if x.name == "method" else x for x in by]
            order = np.lexsort([x.to_numpy(float) for x in by[::-1]])
            parts[part] = table.iloc[order].reset_index(drop=True)
    return parts


def _with_sizes(suites: pd.DataFrame, design: AbilitiesDesign) -> pd.DataFrame:
    """Return the rows of suites in order, with their sizes."""
    ordered = suites.sort_values(["size", "replication"], ignore_index=True)
    sizes = np.array([design.coverage_sizes[int(k)] for k in ordered["size"]]).reshape(-1, 3)
    for place, name in enumerate(("n_subjects", "n_items", "n_abilities")):
        ordered.insert(place, name, sizes[:, place])
    return ordered.drop(columns="size")

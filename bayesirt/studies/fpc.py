"""The FPC study: Habba et al. (2026) done again, with intervals and unlike subjects.

Benchmarks join a suite one after another by fixed-parameter calibration; at each step subjects
that were held out are predicted from their answers to anchors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Unpack

import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Running, SavedStudy, do_tasks
from bayesirt.studies.fpc_claims import NOTES, fpc_claims
from bayesirt.studies.fpc_figures import plot_along, plot_coverage, plot_references, plot_rules
from bayesirt.studies.fpc_matrix import FPCMatrix, given_matrix, simulated_matrix
from bayesirt.studies.fpc_tables import (
    cost_table,
    mean_table,
    paired_table,
    paper_table,
    trend_table,
    usual_rows,
    varied_table,
)
from bayesirt.studies.fpc_tasks import (
    COLUMNS,
    FPC_SIMULATED,
    METHODS,
    FPCDesign,
    conditions_of,
    tasks_of,
)
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.study_rows import with_conditions
from bayesirt.studies.tasks import PortableKey

_PLACE = ("condition", "chain", "step", "method")
_MATRIX_SEED = 43


@dataclass(frozen=True, eq=False, repr=False)
class FPCStudy(SavedStudy):
    """What came of every chain, and what it says."""

    # One row a chain, step and method under a condition (`anchors`, `rule`, `n_reference`, 0 for
    # all, and `split`).
    replications: pd.DataFrame
    matrix: FPCMatrix
    design: FPCDesign

    def __repr__(self) -> str:
        n_chains = len(self.replications[["anchors", "rule", "n_reference", "split", "chain"]]
                       .drop_duplicates())  # fmt: skip
        return f"<FPCStudy of {n_chains} chains of {len(self.matrix.names)} benchmarks>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Errors by number of anchors and method; see `mean_table`."""
        return mean_table(self._usual, ["anchors", "method"])

    @cached_property
    def benchmarks(self) -> pd.DataFrame:
        """Errors by benchmark; see `mean_table`."""
        return mean_table(self._usual, ["anchors", "benchmark", "n_items", "method"])

    @cached_property
    def along(self) -> pd.DataFrame:
        """Errors by step; see `mean_table`."""
        return mean_table(self._usual, ["anchors", "step", "method"])

    @cached_property
    def trends(self) -> pd.DataFrame:
        """Whether errors grow along the chain; see `trend_table`."""
        return trend_table(self._usual)

    @cached_property
    def paired(self) -> pd.DataFrame:
        """FPC against each baseline; see `paired_table`."""
        return paired_table(self._usual)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """What each step costs; see `cost_table`."""
        return cost_table(self._usual)

    @cached_property
    def varied(self) -> dict[str, pd.DataFrame]:
        """Errors by rule, number of reference subjects and split; see `varied_table`."""
        names = {"rules": "rule", "references": "n_reference", "splits": "split"}
        return {name: varied_table(self.replications, column) for name, column in names.items()}

    @cached_property
    def paper(self) -> pd.DataFrame:
        """The paper's figures, of its data, beside ours; see `paper_table`."""
        return paper_table(self.summary)

    @property
    def _usual(self) -> pd.DataFrame:
        return usual_rows(self.replications)

    def _claims(self) -> Iterator[Claim]:
        return fpc_claims(self)

    def _notes(self) -> tuple[str, ...]:
        return NOTES

    def _tables(self) -> dict[str, pd.DataFrame]:
        return {
            "methods": self.summary,
            "benchmarks": self.benchmarks,
            "along_the_chain": self.along,
            "trends": self.trends,
            "baselines": self.paired,
            "costs": self.costs,
            "paper": self.paper,
            **self.varied,
        }

    def _figures(self) -> dict[str, Figure]:
        splits = pd.concat([self.summary.assign(split="random"), self.varied["splits"]])
        figures = {
            "along_the_chain": plot_along(self.along, self.trends),
            "coverage": plot_coverage(splits.drop_duplicates(["anchors", "split", "method"])),
        }
        for name, plot in (("rules", plot_rules), ("references", plot_references)):
            if len(self.varied[name]):
                figures[name] = plot(self.varied[name])
        return figures


def fpc_study(
    design: FPCDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    groups: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
    **running: Unpack[Running],
) -> FPCStudy:
    """Do Habba et al. (2026) again: let a suite grow, and predict held-out subjects from anchors.

    Parameters
    ----------
    design : FPCDesign, optional
        By default `FPCDesign()` for given responses and `FPC_SIMULATED` without them.
    key : jax.random.key
        The same key gives the same study, but for its times, on the same machine, however it
        is run.
    responses : Responses, optional
        To be studied instead of a simulated suite: all subjects' answers to all items.
    groups : mapping, optional
        The benchmark of each of their items.
    families : mapping, optional
        The family of each of their subjects, to hold whole families out.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`.

    Returns
    -------
    FPCStudy

    Raises
    ------
    ResponseError
        If responses come without groups, or groups or families without them; answers are missing,
        or there are too few; anchors or a benchmark's items are fewer than abilities; the folder
        holds something else; or the scheduler cannot be reached.

    References
    ----------
    Habba et al. (2026), section 4.
    """
    portable = PortableKey.of(key)
    matrix, design = _studied(design, portable, responses, groups, families)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    if not matrix.simulated:
        settings |= {"responses": fingerprint(matrix.responses)}
        settings |= {"benchmarks": matrix.benchmarks, "families": matrix.families}
    conditions = conditions_of(design, matrix)
    logged = do_tasks(
        tasks_of(design, matrix, conditions, portable),
        {"chains": Part(_PLACE, COLUMNS[len(_PLACE) :])},
        settings,
        running,
    )
    columns = {"anchors": "n_anchors", "rule": "how", "n_reference": "n_reference",
               "split": "split"}  # fmt: skip
    rows = with_conditions(
        logged["chains"], conditions, columns, list(METHODS), replication="chain"
    )
    rows["benchmark"] = [matrix.names[int(b)] for b in rows["benchmark"]]
    return FPCStudy(rows, matrix, design)


def _studied(
    design: FPCDesign | None,
    key: PortableKey,
    responses: Responses | None,
    groups: Mapping[str, str] | None,
    families: Mapping[str, str] | None,
) -> tuple[FPCMatrix, FPCDesign]:
    """Return the suite that is studied and how, or say what is missing."""
    if responses is None:
        for given, option in ((groups, "--groups"), (families, "--families")):
            if given is not None:
                raise ResponseError(f"{option} needs the responses, too; give --responses")
        design = design or FPC_SIMULATED
        return simulated_matrix(design.simulated, key.rng(_MATRIX_SEED)), design
    if groups is None:
        raise ResponseError("a chain needs the benchmark of each item; give --groups")
    return given_matrix(responses, groups, families), design or FPCDesign()

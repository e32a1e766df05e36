"""The calibration study: whether engines draw from the posterior and their intervals hold.

Simulation-based calibration of every engine on the same simulated data, and the coverage of its
intervals, by the size of the data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Unpack

import jax.numpy as jnp
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.studies.calibration_claims import calibration_claims, calibration_notes
from bayesirt.studies.calibration_figures import plot_coverage, plot_rank_ecdf
from bayesirt.studies.calibration_tables import CELL, coverage_table, rank_table, trust_table
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Done, Part, Running, SavedStudy, do_tasks
from bayesirt.studies.replication import Design, Engine, Task, row_columns
from bayesirt.studies.tasks import PortableKey

_PLACE = [*CELL, "replication"]


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationStudy(SavedStudy):
    """What came of every replication, and what it says.

    Attributes
    ----------
    replications : DataFrame
        One row an engine, size and replication: ranks, ties and ESS of each quantity, counts of
        each group, seconds, an engine's first warning and why it failed.
    design : Design
    """

    replications: pd.DataFrame
    design: Design

    def __repr__(self) -> str:
        engines = ", ".join(self.replications["engine"].unique())
        return f"<CalibrationStudy of {engines}: {len(self.replications)} runs>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Whether ranks are uniform, by engine, size and quantity; see `rank_table`."""
        return rank_table(self.replications, self.design.kept, self.design.false_alarm)

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """Coverage of 50% and 90% intervals, by engine, size and group; see `coverage_table`."""
        return coverage_table(self.replications, self.design.false_alarm)

    @cached_property
    def trust(self) -> pd.DataFrame:
        """From which size on 90% intervals may be trusted; see `trust_table`."""
        return trust_table(self.coverage)

    def _claims(self) -> Iterator[Claim]:
        return calibration_claims(self.replications, self.summary, self.coverage, self.trust)

    def _notes(self) -> Iterator[str]:
        return calibration_notes(self.design.false_alarm)

    def _tables(self) -> dict[str, pd.DataFrame]:
        return {"ranks": self.summary, "coverage": self.coverage, "trust": self.trust}

    def _figures(self) -> dict[str, Figure]:
        """Return the figures by name; none where every engine failed."""
        if not len(self.summary):
            return {}
        sizes = self.summary[CELL[1:]].drop_duplicates().itertuples(index=False)
        return {"coverage": plot_coverage(self.coverage)} | {
            f"ranks_{n}x{m}": plot_rank_ecdf(self.replications, self.summary, (n, m), self.design)
            for n, m in sizes
        }


def calibration_study(
    engines: Mapping[str, Engine],
    sizes: Sequence[tuple[int, int]],
    n_replications: int,
    *,
    key: Array,
    design: Design | None = None,
    **running: Unpack[Running],
) -> CalibrationStudy:
    """Simulate from the prior, run every engine on the same data, and see whether it is right.

    Parameters
    ----------
    engines : mapping of callables
        By name, (responses, key) → `Posterior`. They must assume the same priors.
    sizes : sequence of (int, int)
        Subjects and items.
    n_replications : int
        Of each size.
    key : jax.random.key
        The same key gives the same study on the same machine, however many processes run it.
    design : Design, optional
        The ``priors``, ``trials`` and share ``missing`` of the simulation, how many draws are
        ``kept``, and the probability of a ``false_alarm``.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`. Of a folder with
        a part of the same study, the engines' own settings are not compared. In other processes
        engines must be functions of a module, or `functools.partial` of them.

    Returns
    -------
    CalibrationStudy

    Raises
    ------
    ResponseError
        If the folder holds something else, or the scheduler cannot be reached.
    ValueError
        If nothing is to be studied, or an engine returns fewer draws than are kept.

    Notes
    -----
    An engine that raises `ResponseError` or returns a draw that is not finite has failed in that
    replication; this is counted. Any other exception ends the study.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
    algorithms with simulation-based calibration. Modrák et al. (2023), Simulation-based
    calibration checking for Bayesian computation, on quantities that depend on the data.
    Säilynoja, Bürkner and Vehtari (2022), on the envelope.
    """
    if not engines or not sizes or n_replications < 1:
        raise ValueError("a study needs an engine, a size and a replication")
    design = design or Design()
    portable = PortableKey.of(key)
    settings = {**asdict(design), "key": portable, "dtype": str(jnp.zeros(()).dtype)}
    del settings["false_alarm"]
    tasks = [
        Task(engines, size, replication, design, portable)
        for replication in range(n_replications)
        for size in sizes
    ]
    parts = {"runs": Part(_PLACE, row_columns(design.priors))}
    rows = do_tasks(
        tasks,
        parts,
        settings,
        running,
        left=_left_of,
    )
    return CalibrationStudy(_in_order(rows["runs"], list(engines), sizes, n_replications), design)


def _left_of(task: Task, done: Done) -> Task | None:
    """Return the task with the engines that have not run on it."""
    place = (*task.size, task.replication)
    left = {n: engine for n, engine in task.engines.items() if (n, *place) not in done["runs"]}
    return replace(task, engines=left) if left else None


def _in_order(
    table: pd.DataFrame,
    engines: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    n_replications: int,
) -> pd.DataFrame:
    """Return the rows that were asked for, ordered by size, engine and replication."""
    places = [
        (engine, *size, replication)
        for size in sizes
        for engine in engines
        for replication in range(n_replications)
    ]
    whole = table.astype(dict.fromkeys(_PLACE[1:], int))
    return whole.set_index(_PLACE).loc[places].reset_index()

"""The calibration study: whether engines draw from the posterior and their intervals hold.

Simulation-based calibration of every engine on the same simulated data, and the coverage of its
intervals, by the size of the data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Unpack

import jax.numpy as jnp
import pandas as pd
from jaxtyping import Array

from bayesirt.studies.calibration_tables import (
    CALIBRATED,
    CELL,
    calibration_claims,
    coverage_table,
    plot_coverage,
    plot_rank_ecdf,
    rank_table,
    trust_table,
)
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.measures import read_notes
from bayesirt.studies.replication import Design, Engine, replicate, row_columns
from bayesirt.studies.tasks import PortableKey, Task

_PLACE = [*CELL, "replication"]


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationStudy(Study):
    """What came of every replication, and what it says.

    Attributes
    ----------
    replications : DataFrame
        One row an engine, size and replication: ranks, ties and ESS of each quantity, counts of
        each group, seconds, an engine's first warning and why it failed.
    design : Design
    """

    design: Design

    @property
    def summary(self) -> pd.DataFrame:
        """Whether ranks are uniform, by engine, size and quantity."""
        return self.tables["ranks"]

    @property
    def coverage(self) -> pd.DataFrame:
        """Coverage of 50% and 90% intervals, by engine, size and group."""
        return self.tables["coverage"]

    @property
    def trust(self) -> pd.DataFrame:
        """From which size on 90% intervals may be trusted."""
        return self.tables["trust"]


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
    design, portable = design or Design(), PortableKey.of(key)
    settings = {**asdict(design), "key": portable, "dtype": str(jnp.zeros(()).dtype)}
    del settings["false_alarm"]
    tasks = [
        Task([("runs", (name, *size, k))], partial(replicate, name, engine, (*size, k), design,
                                                   portable))
        for k, size, (name, engine) in product(range(n_replications), sizes, engines.items())
    ]  # fmt: skip
    parts = {"runs": Part(_PLACE, row_columns(design.priors))}
    rows = do_tasks(tasks, parts, settings, running)["runs"]
    asked = [(name, *n, k) for n, name, k in product(sizes, engines, range(n_replications))]
    ordered = rows.astype(dict.fromkeys(_PLACE[1:], int)).set_index(_PLACE).loc[asked]
    return calibration_found(ordered.reset_index(), design)


def calibration_found(rows: pd.DataFrame, design: Design) -> CalibrationStudy:
    """Return what the rows of an engine, a size and a replication say."""
    ranks = rank_table(rows, design.kept, design.false_alarm)
    coverage = coverage_table(rows, design.false_alarm)
    trust = trust_table(coverage)
    figures = {"coverage": partial(plot_coverage, coverage)} if len(ranks) else {}
    sizes = ranks[CELL[1:]].drop_duplicates().itertuples(index=False) if len(ranks) else ()
    for n, m in sizes:
        figures[f"ranks_{n}x{m}"] = partial(plot_rank_ecdf, rows, ranks, (n, m), design)
    note = (
        f"'{CALIBRATED}' means that these replications show no departure; of studies of right "
        f"engines, {design.false_alarm:.2g} show one by ranks and as many by coverage."
    )
    return CalibrationStudy(
        f"calibration study of {', '.join(rows['engine'].unique())}: {len(rows)} runs",
        rows,
        {"ranks": ranks, "coverage": coverage, "trust": trust},
        calibration_claims(rows, ranks, coverage, trust),
        [note, *read_notes("calibration")],
        figures,
        design,
    )

"""The sparse study: when the simple average misleads, and whether the posterior warns (Kang, 2026).

Four domains and a grid of sparsities and difficulty gaps, as in the paper; and, beyond it, what
the posterior says of both rankings without knowing the truth.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import Unpack

import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.models import Priors
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Running, SavedStudy, do_tasks
from bayesirt.studies.sparse_claims import NOTES, sparse_claims
from bayesirt.studies.sparse_conditions import Condition, domain_conditions, grid_conditions
from bayesirt.studies.sparse_draws import BATCH
from bayesirt.studies.sparse_figures import plot_domains, plot_failure_surface, plot_warning
from bayesirt.studies.sparse_measures import DRAWS_COLUMNS, POINT_COLUMNS
from bayesirt.studies.sparse_tables import (
    domain_table,
    grid_table,
    law_table,
    surface_table,
    warning_table,
)
from bayesirt.studies.sparse_tasks import Batch, Drawn
from bayesirt.studies.study_rows import with_conditions
from bayesirt.studies.tasks import PortableKey

_PLACE = ("condition", "seed")


@dataclass(frozen=True)
class SparseDesign:
    """What the study simulates; by default what Kang (2026) does (4, 5.3).

    Attributes
    ----------
    domain_seeds, grid_seeds : int
        Suites of each domain, and of each cell of the grid under each mask.
    drawn_seeds : int
        Of the grid's suites, how many of each cell the posterior is drawn for; it is for all of
        the domains, unless this is 0.
    sparsities, gaps : tuple of float
        S and D of the grid.
    priors : Priors
        Of the posterior.
    """

    domain_seeds: int = 20
    grid_seeds: int = 15
    drawn_seeds: int = 3
    sparsities: tuple[float, ...] = tuple(k / 20 for k in range(15))
    gaps: tuple[float, ...] = tuple(k / 2 for k in range(1, 11))
    priors: Priors = field(default_factory=Priors)

    @property
    def conditions(self) -> list[Condition]:
        """The domains and the cells of the grid."""
        return [*domain_conditions(), *grid_conditions(self.sparsities, self.gaps)]


QUICK = SparseDesign(4, 4, 1, (0.0, 0.35, 0.7), (0.5, 2.0, 3.5, 5.0))
"""A coarser grid with fewer seeds."""


@dataclass(frozen=True, eq=False, repr=False)
class SparseStudy(SavedStudy):
    """What came of every suite, and what it says.

    Attributes
    ----------
    replications : DataFrame
        One row a suite: the condition's name, S and D, the seed, and the columns of
        `bayesirt.studies.sparse_measures`; those of the posterior are NaN where it was not drawn.
    design : SparseDesign
    """

    replications: pd.DataFrame
    design: SparseDesign

    def __repr__(self) -> str:
        drawn = self.replications["subjects"].notna().sum()
        return f"<SparseStudy of {len(self.replications):,} suites, {drawn:,} with a posterior>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The domains beside the paper; see `domain_table`."""
        return domain_table(self.replications)

    @cached_property
    def grid(self) -> pd.DataFrame:
        """Means of each cell of the grid; see `grid_table`."""
        return grid_table(self.replications)

    @cached_property
    def surface(self) -> pd.DataFrame:
        """The failure surface beside the paper's; see `surface_table`."""
        return surface_table(self.grid)

    @cached_property
    def laws(self) -> pd.DataFrame:
        """What `bayesirt.ranking.simple_averages` expects of the average; see `law_table`."""
        return law_table(self.grid)

    @cached_property
    def warning(self) -> pd.DataFrame:
        """Whether the posterior's intervals hold, and warn; see `warning_table`."""
        return warning_table(self.replications)

    def _claims(self) -> Iterator[Claim]:
        return sparse_claims(self.replications, self.summary, self.surface, self.warning)

    def _notes(self) -> tuple[str, ...]:
        return NOTES

    def _tables(self) -> dict[str, pd.DataFrame]:
        tables = {"domains": self.summary, "grid": self.grid, "surface": self.surface}
        return tables | {"laws": self.laws, "warning": self.warning}

    def _figures(self) -> dict[str, Figure]:
        figures = {
            "domains": plot_domains(self.summary),
            "failure_surface": plot_failure_surface(self.grid),
        }
        if len(self.warning):
            figures["warning"] = plot_warning(self.replications, self.warning)
        return figures


def sparse_study(
    design: SparseDesign | None = None,
    *,
    key: Array,
    **running: Unpack[Running],
) -> SparseStudy:
    """Simulate sparse suites, rank them by averages, IRT and posterior, and compare with the truth.

    Parameters
    ----------
    design : SparseDesign, optional
    key : jax.random.key
        The same key gives the same study on the same machine, however many processes run it.
    **running
        Folder, processes and progress; see `bayesirt.studies.engine.Running`.

    Returns
    -------
    SparseStudy

    Raises
    ------
    ResponseError
        If the folder holds something else, or the scheduler cannot be reached.

    References
    ----------
    Kang (2026), sections 4 and 5, Tables 1 to 3.
    """
    design = design or SparseDesign()
    portable = PortableKey.of(key)
    rows = do_tasks(
        _batches(design, portable),
        {"suites": Part(_PLACE, (*POINT_COLUMNS, *DRAWS_COLUMNS))},
        {**asdict(design), "key": portable},
        running,
        count_rows=True,
    )
    of_condition = {"name": "name", "S": "sparsity", "D": "gap"}
    suites = with_conditions(rows["suites"], design.conditions, of_condition, replication="seed")
    return SparseStudy(suites, design)


def _batches(design: SparseDesign, key: PortableKey) -> list[Batch]:
    """Return all suites in batches, those with a posterior first."""
    drawn: list[Drawn] = []
    others: list[Drawn] = []
    for number, condition in enumerate(design.conditions):
        n = design.domain_seeds if condition.is_domain else design.grid_seeds
        n_drawn = n if condition.is_domain and design.drawn_seeds else design.drawn_seeds
        for seed in range(n):
            (drawn if seed < n_drawn else others).append(Drawn(number, condition, seed))
    parts = [(part, True) for part in _in_parts(drawn)]
    parts += [(part, False) for part in _in_parts(others)]
    return [
        Batch(number, part, samples, design.priors, key)
        for number, (part, samples) in enumerate(parts)
    ]


def _in_parts(places: list[Drawn]) -> Iterator[tuple[Drawn, ...]]:
    rest = iter(places)
    while part := tuple(islice(rest, BATCH)):
        yield part

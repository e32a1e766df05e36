"""The sparse study: when the simple average misleads, and whether the posterior warns (Kang, 2026).

Four domains and a grid of sparsities and difficulty gaps, as in the paper; and, beyond it, what
the posterior says of both rankings without knowing the truth.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.models import Priors
from bayesirt.studies.claims import claim_table, in_words
from bayesirt.studies.engine import Part, SavedStudy, do_tasks, unless_done
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
from bayesirt.studies.sparse_tasks import Batch, Place
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

    @cached_property
    def claims(self) -> pd.DataFrame:
        """What the study finds, one row a figure; see `bayesirt.studies.claims`."""
        tables = (self.replications, self.summary, self.surface, self.warning)
        return claim_table(sparse_claims(*tables))

    def _sentences(self) -> list[str]:
        return in_words(self.claims, NOTES)

    def _tables(self) -> dict[str, pd.DataFrame]:
        tables = {"domains": self.summary, "grid": self.grid, "surface": self.surface}
        return tables | {"laws": self.laws, "warning": self.warning, "claims": self.claims}

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
    folder: Path | None = None,
    n_processes: int = 1,
    scheduler: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SparseStudy:
    """Simulate sparse suites, rank them by averages, IRT and posterior, and compare with the truth.

    Parameters
    ----------
    design : SparseDesign, optional
    key : jax.random.key
        The same key gives the same study on the same machine, however many processes run it.
    folder : Path, optional
        Where each batch of suites is written as it ends. A folder with a part of the same study
        is gone on with.
    n_processes : int
        Above 1, batches run side by side.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers then run the batches.
    progress : callable, optional
        Told (suites done, all), after each batch.

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
        unless_done(lambda batch: [("suites", (p.number, p.seed)) for p in batch.places]),
        {"suites": Part(_PLACE, (*POINT_COLUMNS, *DRAWS_COLUMNS))},
        {**asdict(design), "key": portable},
        size=lambda batch: len(batch.places),
        folder=folder,
        n_processes=n_processes,
        scheduler=scheduler,
        progress=progress,
    )
    of_condition = {"name": "name", "S": "sparsity", "D": "gap"}
    suites = with_conditions(rows["suites"], design.conditions, of_condition, replication="seed")
    return SparseStudy(suites, design)


def _batches(design: SparseDesign, key: PortableKey) -> list[Batch]:
    """Return all suites in batches, those with a posterior first."""
    drawn: list[Place] = []
    others: list[Place] = []
    for number, condition in enumerate(design.conditions):
        n = design.domain_seeds if condition.is_domain else design.grid_seeds
        n_drawn = n if condition.is_domain and design.drawn_seeds else design.drawn_seeds
        for seed in range(n):
            (drawn if seed < n_drawn else others).append(Place(number, condition, seed))
    parts = [(part, True) for part in _in_parts(drawn)]
    parts += [(part, False) for part in _in_parts(others)]
    return [
        Batch(number, part, samples, design.priors, key)
        for number, (part, samples) in enumerate(parts)
    ]


def _in_parts(places: list[Place]) -> Iterator[tuple[Place, ...]]:
    rest = iter(places)
    while part := tuple(islice(rest, BATCH)):
        yield part

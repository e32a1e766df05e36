"""The sparse study: when the simple average misleads, and whether the posterior warns (Kang, 2026).

Four domains and a grid of sparsities and difficulty gaps, as in the paper; and, beyond it, what
the posterior says of both rankings without knowing the truth.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple, Unpack

import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.models import Priors
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Places, Row, Running, SavedStudy, do_tasks
from bayesirt.studies.sparse_claims import NOTES, sparse_claims
from bayesirt.studies.sparse_conditions import (
    Condition,
    Suite,
    domain_conditions,
    draw_suite,
    grid_conditions,
)
from bayesirt.studies.sparse_draws import BATCH, draw_abilities
from bayesirt.studies.sparse_figures import plot_domains, plot_failure_surface, plot_warning
from bayesirt.studies.sparse_measures import (
    DRAWS_COLUMNS,
    POINT_COLUMNS,
    fit,
    measure_draws,
    measure_point,
)
from bayesirt.studies.sparse_tables import (
    domain_table,
    grid_table,
    law_table,
    surface_table,
    warning_table,
)
from bayesirt.studies.study_rows import with_conditions
from bayesirt.studies.tasks import PortableKey

_PLACE = ("condition", "seed")


@dataclass(frozen=True)
class SparseDesign:
    """What the study simulates; by default what Kang (2026) does (4, 5.3)."""

    domain_seeds: int = 20  # Suites of each domain.
    grid_seeds: int = 15  # Of each cell of the grid under each mask.
    # Of these, how many the posterior is drawn for; it is for all of the domains, unless 0.
    drawn_seeds: int = 3
    sparsities: tuple[float, ...] = tuple(k / 20 for k in range(15))  # S of the grid.
    gaps: tuple[float, ...] = tuple(k / 2 for k in range(1, 11))  # D of the grid.
    priors: Priors = field(default_factory=Priors)  # Of the posterior.

    @property
    def conditions(self) -> list[Condition]:
        """The domains and the cells of the grid."""
        return [*domain_conditions(), *grid_conditions(self.sparsities, self.gaps)]


QUICK = SparseDesign(4, 4, 1, (0.0, 0.35, 0.7), (0.5, 2.0, 3.5, 5.0))
"""A coarser grid with fewer seeds."""


class Drawn(NamedTuple):
    """A suite and where it stands in the study."""

    number: int  # Of the condition.
    condition: Condition
    seed: int


@dataclass(frozen=True)
class Batch:
    """Suites that are drawn, fitted and perhaps sampled together."""

    number: int  # Of the batch.
    suites: tuple[Drawn, ...]
    samples: bool  # Whether to draw from the posterior, too.
    priors: Priors  # Of the posterior.
    key: PortableKey  # The study's.

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [("suites", (suite.number, suite.seed)) for suite in self.suites]

    def run(self) -> list[Row]:
        """Return a row for each suite; it depends on the key and on what is in the batch."""
        suites = [self._suite(place) for place in self.suites]
        points = [fit(suite.responses) for suite in suites]
        rows: list[Row] = [
            {"condition": place.number, "seed": place.seed, **measure_point(suite, point)}
            for place, suite, point in zip(self.suites, suites, points, strict=True)
        ]
        if self.samples:
            draws = draw_abilities(
                [suite.responses for suite in suites],
                points,
                key=self.key.folded(self.number),
                priors=self.priors,
            )
            for row, suite, theta in zip(rows, suites, draws, strict=True):
                row |= measure_draws(suite, theta)
        return rows

    def _suite(self, place: Drawn) -> Suite:
        return draw_suite(place.condition, self.key.rng(place.number, place.seed))


@dataclass(frozen=True, eq=False, repr=False)
class SparseStudy(SavedStudy):
    """What came of every suite, and what it says."""

    replications: pd.DataFrame  # One row a suite; NaN where no posterior was drawn.
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
    design: SparseDesign | None = None, *, key: Array, **running: Unpack[Running]
) -> SparseStudy:
    """Simulate sparse suites, rank them by averages, IRT and posterior, and compare with the truth.

    Parameters
    ----------
    design : SparseDesign, optional
    key : jax.random.key
        The same key gives the same study on the same machine, however many processes run it.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`.

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

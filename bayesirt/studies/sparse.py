"""The sparse study: when the simple average misleads, and whether the posterior warns (Kang, 2026).

Four domains and a grid of sparsities and difficulty gaps, as in the paper; and, beyond it, what
the posterior says of both rankings without knowing the truth.
"""

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Unpack

import pandas as pd
from jaxtyping import Array

from bayesirt.models import Priors
from bayesirt.studies.engine import Running, Study, do_tasks
from bayesirt.studies.sparse_conditions import (
    BATCH,
    SUITES,
    Condition,
    domain_conditions,
    grid_conditions,
    suite_rows,
)
from bayesirt.studies.sparse_tables import sparse_found
from bayesirt.studies.tasks import PortableKey, Task


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


def sparse_study(
    design: SparseDesign | None = None, *, key: Array, **running: Unpack[Running]
) -> Study:
    """Do Kang (2026), sections 4 and 5, again, and see whether the posterior warns."""
    design, portable = design or SparseDesign(), PortableKey.of(key)
    conditions = pd.DataFrame(design.conditions).rename(columns={"sparsity": "S", "gap": "D"})
    parts = {"suites": SUITES._replace(conditions=conditions)}
    settings = {**asdict(design), "key": portable}
    return sparse_found(do_tasks(suite_tasks(design, portable), parts, settings, running)["suites"])


def suite_tasks(design: SparseDesign, key: PortableKey) -> list[Task]:
    """Return all suites in batches, those with a posterior first."""
    conditions = design.conditions
    suites: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for number, condition in enumerate(conditions):
        n = design.domain_seeds if condition.is_domain else design.grid_seeds
        n_drawn = n if condition.is_domain and design.drawn_seeds else design.drawn_seeds
        for seed in range(n):
            suites[seed < n_drawn].append((number, seed))
    batches = [
        (places[first : first + BATCH], drawn)
        for drawn, places in suites.items()
        for first in range(0, len(places), BATCH)
    ]
    return [
        Task(
            [("suites", place) for place in places],
            partial(suite_rows, conditions, places, key, design.priors, k if drawn else None),
        )
        for k, (places, drawn) in enumerate(batches)
    ]

"""The adaptive-testing study: what choosing items saves, and whether the intervals hold.

Banks are drawn and calibrated by the answers of a population, as a run of `rank` would; then new
subjects, whose ability is known, take tests whose items are chosen in several ways.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Unpack

import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.studies.cat_banks import BANKS
from bayesirt.studies.cat_claims import NOTES, cat_claims
from bayesirt.studies.cat_figures import plot_tests
from bayesirt.studies.cat_tables import length_table, stop_table
from bayesirt.studies.cat_tasks import BankTask, Sizes, measure_columns
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Running, SavedStudy, do_tasks
from bayesirt.studies.tasks import PortableKey


@dataclass(frozen=True)
class CATDesign:
    """What the study simulates."""

    replications: int = 4  # Banks of each model.
    sizes: Sizes = field(default_factory=Sizes)
    stops: tuple[float, ...] = (1.5, 1.2, 1.0)  # Widths of the 90% interval to stop at.


CAT_QUICK = CATDesign(1, Sizes(200, 60, 80, 16, 20))
"""One smaller bank of each model and shorter tests."""


@dataclass(frozen=True, eq=False, repr=False)
class CATStudy(SavedStudy):
    """What came of every test, and what it says."""

    replications: pd.DataFrame  # One row a bank, a method and a number of answers.
    design: CATDesign

    def __repr__(self) -> str:
        n_banks = len(self.replications[["model", "replication"]].drop_duplicates())
        return f"<CATStudy of {n_banks} banks>"

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Error, width and coverage by number of answers; see `length_table`."""
        return length_table(self.replications)

    @cached_property
    def stops(self) -> pd.DataFrame:
        """Answers until the interval is short enough; see `stop_table`."""
        return stop_table(self.replications, self.design.stops)

    def _claims(self) -> Iterator[Claim]:
        return cat_claims(self.summary, self.stops)

    def _notes(self) -> tuple[str, ...]:
        return NOTES

    def _tables(self) -> dict[str, pd.DataFrame]:
        return {"answers": self.summary, "stops": self.stops}

    def _figures(self) -> dict[str, Figure]:
        return {"tests": plot_tests(self.summary)}


def cat_study(
    design: CATDesign | None = None, *, key: Array, **running: Unpack[Running]
) -> CATStudy:
    """Let simulated subjects take adaptive and other tests, and compare with the truth.

    The same key gives the same study on the same machine, however it is run.
    """
    design = design or CATDesign()
    portable = PortableKey.of(key)
    place = ("condition", "replication", "method", "answers")
    parts = {"tests": Part(place, measure_columns(design.stops)[1:])}
    tasks = [
        BankTask(number, model, replication, design.sizes, design.stops, portable)
        for replication in range(design.replications)
        for number, model in enumerate(BANKS)
    ]
    rows = do_tasks(tasks, parts, {**asdict(design), "key": portable}, running)
    table = rows["tests"]
    order = [*place[:2], "answers"]
    models = table["condition"].map(dict(enumerate(BANKS)))
    named = table.assign(model=models).sort_values(order, kind="stable", ignore_index=True)
    return CATStudy(named.drop(columns="condition"), design)

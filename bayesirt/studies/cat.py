"""The adaptive-testing study: what choosing items saves, and whether the intervals hold.

Banks are drawn and calibrated by the answers of a population, as a run of `rank` would; then new
subjects, whose ability is known, take tests whose items are chosen in several ways.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.inference.ability_belief import ItemDraws
from bayesirt.studies.cat_banks import (
    BANKS,
    BankModel,
    Subjects,
    calibrate,
    draw_items,
    draw_subjects,
)
from bayesirt.studies.cat_claims import NOTES, cat_claims
from bayesirt.studies.cat_figures import plot_tests
from bayesirt.studies.cat_tables import length_table, stop_table
from bayesirt.studies.cat_tests import METHODS, Track, take_tests
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Places, Row, Running, SavedStudy, do_tasks
from bayesirt.studies.tasks import PortableKey


@dataclass(frozen=True)
class Sizes:
    """How large each bank and each test is."""

    calibrating: int = 400  # Subjects whose answers calibrate the items.
    items: int = 150
    subjects: int = 200  # New ones, who take the tests.
    answers: int = 30  # Length of the tests.
    item_draws: int = 60  # Over which a test averages.


@dataclass(frozen=True)
class CATDesign:
    """What the study simulates."""

    replications: int = 4  # Banks of each model.
    sizes: Sizes = field(default_factory=Sizes)
    stops: tuple[float, ...] = (1.5, 1.2, 1.0)  # Widths of the 90% interval to stop at.


CAT_QUICK = CATDesign(1, Sizes(200, 60, 80, 16, 20))
"""One smaller bank of each model and shorter tests."""


@dataclass(frozen=True)
class BankTask:
    """One bank."""

    number: int  # Of the model among the study's.
    model: BankModel
    replication: int
    sizes: Sizes
    stops: tuple[float, ...]  # Widths of the 90% interval to stop at.
    key: PortableKey  # The study's.

    @property
    def places(self) -> Places:
        """Part and place of its last row."""
        return [("tests", (self.number, self.replication, METHODS[-1], self.sizes.answers))]

    def run(self) -> list[Row]:
        """Return a row for each method and number of answers."""
        rng, sizes = self.key.rng(self.number, self.replication), self.sizes
        truth = draw_items(self.model, sizes.items, rng)
        calibrating = draw_subjects(self.model, truth, sizes.calibrating, rng)
        new = draw_subjects(self.model, truth, sizes.subjects, rng)
        key = self.key.folded(self.number, self.replication)
        posterior = calibrate(self.model, calibrating, key=key)
        items = ItemDraws.of(posterior, sizes.item_draws)
        place = {"condition": self.number, "replication": self.replication}
        return [
            {**place, "method": method, **row}
            for method in METHODS
            for row in measure_track(
                take_tests(method, items, posterior.link, new, sizes.answers, rng), new, self.stops
            )
        ]


def measure_columns(stops: tuple[float, ...]) -> list[str]:
    """Return the columns of `measure_track`."""
    ends = [f"{name}_{width:g}" for width in stops for name in ("stopped", "held")]
    return ["answers", "subjects", "squared_error", "squared_error_sd", "width", "covered", *ends]


def measure_track(track: Track, subjects: Subjects, stops: tuple[float, ...]) -> list[Row]:
    """Compare what is said of abilities with the truth, after each number of answers.

    Of all subjects `held` is the share that stopped while the interval held the truth.
    """
    wide = track.high - track.low
    error = (track.mean - subjects.theta) ** 2
    covered = (track.low <= subjects.theta) & (subjects.theta <= track.high)
    columns = {
        "squared_error": error.mean(1),
        "squared_error_sd": error.std(1, ddof=1),
        "width": wide.mean(1),
        "covered": covered.mean(1),
    }
    for width in stops:
        stopped = np.logical_or.accumulate(wide < width)
        held = np.take_along_axis(covered, stopped.argmax(0)[None], 0)
        columns[f"stopped_{width:g}"] = stopped.mean(1)
        columns[f"held_{width:g}"] = (stopped & held).mean(1)
    return [
        {"answers": n, "subjects": len(subjects.theta)}
        | {name: float(values[n]) for name, values in columns.items()}
        for n in range(len(wide))
    ]


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

    Parameters
    ----------
    design : CATDesign, optional
    key : jax.random.key
        The same key gives the same study on the same machine, however many processes run it.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`.

    Returns
    -------
    CATStudy

    Raises
    ------
    ResponseError
        If the folder holds something else, or the scheduler cannot be reached.
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

"""The work of the adaptive-testing study: one bank, and all methods on the same new subjects."""

from dataclasses import dataclass

import numpy as np

from bayesirt.inference.ability_belief import ItemDraws
from bayesirt.studies.cat_banks import BankModel, Subjects, calibrate, draw_items, draw_subjects
from bayesirt.studies.cat_tests import METHODS, Track, take_tests
from bayesirt.studies.engine import Places, Row
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

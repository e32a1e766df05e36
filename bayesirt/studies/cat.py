"""The adaptive-testing study: what choosing items saves, and whether the intervals hold.

Banks are drawn and calibrated by the answers of a population, as a run of `rank` would; then new
subjects, whose ability is known, take tests whose items are chosen in several ways.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from typing import Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure

from bayesirt.inference.ability_belief import ItemDraws
from bayesirt.posterior import LEVEL
from bayesirt.studies.cat_tests import (
    ADAPTIVE,
    BANKS,
    METHOD_NAMES,
    METHODS,
    BankModel,
    Subjects,
    Track,
    calibrate,
    draw_items,
    draw_subjects,
    take_tests,
)
from bayesirt.studies.claims import Claim
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.figures import draw_lines, legend_above, new_figure, study_style
from bayesirt.studies.measures import groups_of, read_notes
from bayesirt.studies.tasks import PortableKey, Row, Task


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

_PLACE = ("condition", "replication", "method", "answers")
_TYPICAL = 0.5  # Share of the subjects that have stopped at the typical number of answers.
_CLEAR = 3.0
_MEASURES = {
    "rmse": "RMSE of ability",
    "width": f"mean width of {LEVEL:.0%} intervals",
    "coverage": f"coverage of {LEVEL:.0%} intervals",
}


def cat_study(design: CATDesign | None = None, *, key: Array, **running: Unpack[Running]) -> Study:
    """Let simulated subjects take adaptive and other tests, and compare with the truth."""
    design, portable = design or CATDesign(), PortableKey.of(key)
    kinds, lengths = [*enumerate(BANKS)], range(design.sizes.answers + 1)
    tasks = []
    for replication, (number, model) in product(range(design.replications), kinds):
        place = number, replication
        rows = [("tests", (*place, method, n)) for method, n in product(METHODS, lengths)]
        tasks.append(Task(rows, partial(bank_rows, design, place, model, portable)))
    parts = {"tests": Part(_PLACE, measure_columns(design.stops)[1:])}
    table = do_tasks(tasks, parts, {**asdict(design), "key": portable}, running)["tests"]
    table = table.assign(model=table["condition"].map(dict(enumerate(BANKS))))
    order = ["condition", "replication", "answers"]
    rows = table.sort_values(order, kind="stable", ignore_index=True).drop(columns="condition")
    return cat_found(rows, design)


def cat_found(replications: pd.DataFrame, design: CATDesign) -> Study:
    """Return what the rows of a bank, a method and a number of answers say."""
    n_banks = len(replications[["model", "replication"]].drop_duplicates())
    lengths, stops = length_table(replications), stop_table(replications, design.stops)
    return Study(
        f"CAT study of {n_banks} banks",
        replications,
        {"answers": lengths, "stops": stops},
        cat_claims(lengths, stops),
        read_notes("cat"),
        {"tests": partial(plot_tests, lengths)},
    )


def bank_rows(
    design: CATDesign, place: tuple[int, int], model: BankModel, key: PortableKey
) -> list[Row]:
    """Return what tests of one bank say, by method and number of answers."""
    rng, sizes = key.rng(*place), design.sizes
    truth = draw_items(model, sizes.items, rng)
    calibrating = draw_subjects(model, truth, sizes.calibrating, rng)
    new = draw_subjects(model, truth, sizes.subjects, rng)
    posterior = calibrate(model, calibrating, key=key.folded(*place))
    items = ItemDraws.of(posterior, sizes.item_draws)
    rows: list[Row] = []
    for method in METHODS:
        track = take_tests(method, items, posterior.link, new, sizes.answers, rng)
        rows += measure_track(track, new, design.stops)
    return rows


def measure_columns(stops: tuple[float, ...]) -> list[str]:
    """Return the columns of `measure_track`."""
    ends = [f"{name}_{width:g}" for width in stops for name in ("stopped", "held")]
    return ["answers", "subjects", "squared_error", "squared_error_sd", "width", "covered", *ends]


def measure_track(track: Track, subjects: Subjects, stops: tuple[float, ...]) -> list[Row]:
    """Compare with the truth after each answer; `held`: stopped while the interval held it."""
    wide = track.high - track.low
    error = (track.mean - subjects.theta) ** 2
    covered = (track.low <= subjects.theta) & (subjects.theta <= track.high)
    columns = {
        "answers": np.arange(len(wide)),
        "subjects": np.full(len(wide), len(subjects.theta)),
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
    rows: list[Row] = pd.DataFrame(columns).to_dict("records")
    return rows


def length_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return error, width and coverage by number of answers, with errors over subjects alone."""
    rows = []
    for place, own in groups_of(_ordered(replications), ["model", "method", "answers"]):
        n = own["subjects"].sum()
        means = {
            name: np.average(own[name], weights=own["subjects"])
            for name in ("squared_error", "width", "covered")
        }
        spread = np.sqrt(np.average(own["squared_error_sd"] ** 2, weights=own["subjects"]) / n)
        rmse, coverage = np.sqrt(means["squared_error"]), means["covered"]
        rows.append({
            **place, "subjects": int(n), "rmse": rmse, "rmse_se": spread / (2 * rmse),
            "width": means["width"], "coverage": coverage,
            "coverage_se": np.sqrt(coverage * (1 - coverage) / n),
        })  # fmt: skip
    return pd.DataFrame(rows)


def stop_table(replications: pd.DataFrame, stops: tuple[float, ...]) -> pd.DataFrame:
    """Return how many answers it takes until the interval is short enough.

    `answers` is the median over all subjects, NaN where fewer than half stopped; `mean_answers`
    counts those who never stopped with the whole test.
    """
    rows = []
    groups = groups_of(_ordered(replications), ["model", "method"])
    for (place, own), width in product(groups, stops):
        by_answers = own.groupby("answers")
        stopped, held = (by_answers[f"{name}_{width:g}"].mean() for name in ("stopped", "held"))
        enough, share = stopped.index[stopped >= _TYPICAL], float(stopped.iloc[-1])
        rows.append({
            **place, "stop_width": width, "share": share,
            "answers": float(enough[0]) if len(enough) else np.nan,
            "mean_answers": float((1 - stopped.iloc[:-1]).sum()),
            "coverage": float(held.iloc[-1]) / share if share else np.nan,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _ordered(replications: pd.DataFrame) -> pd.DataFrame:
    place = replications["method"].map(list(METHODS).index)
    return replications.assign(place=place).sort_values(["model", "place"], kind="stable")


def cat_claims(lengths: pd.DataFrame, stops: pd.DataFrame) -> Iterator[Claim]:
    """Yield the error halfway, what other tests need for an adaptive one's width, and coverage."""
    for model, own in lengths.groupby("model"):
        title, n = BANKS[model], int(own["answers"].max()) // 2
        half = own[own["answers"] == n].set_index("method")
        for method, row in half.iterrows():
            text = f"{title}, RMSE of ability after {n} answers, {METHOD_NAMES[str(method)]}"
            yield Claim(text, row["rmse"], row["rmse_se"])
        width = half.loc[list(ADAPTIVE), "width"].min()
        for method in ("fixed", "random"):
            needed = own[(own["method"] == method) & (own["width"] <= width)]["answers"].min()
            text = f"{title}, answers to reach the adaptive tests' mean width of {width:.2f}"
            verdict = "not reached" if np.isnan(needed) else ""
            yield Claim(f"{text}, {METHOD_NAMES[method]}", needed, verdict=verdict)
        for row in stops[(stops["model"] == model) & (stops["share"] > 0)].itertuples():
            text = f"{title}, answers of the median subject until the interval is below"
            verdict = f"reached by {row.share:.0%}, of whose intervals {row.coverage:.0%} hold"
            text = f"{text} {row.stop_width:g}, {METHOD_NAMES[row.method]}"
            yield Claim(text, row.answers, verdict=verdict)
        begun = own[(own["answers"] > 0) & own["method"].isin(ADAPTIVE)]
        mean, error = begun["coverage"].mean(), begun["coverage_se"].mean()
        holds = "holds" if abs(mean - LEVEL) <= _CLEAR * error else "does not hold"
        text = f"{title}, mean coverage of {LEVEL:.0%} intervals in adaptive tests"
        yield Claim(text, mean, error, verdict=holds)


@study_style()
def plot_tests(lengths: pd.DataFrame) -> Figure:
    """Draw error, width and coverage by number of answers, a row of panels for each model."""
    models = list(lengths.groupby("model"))
    size = 8.4, 0.8 + 2.5 * len(models)
    fig, axes = new_figure(*size, len(models), len(_MEASURES), x="answers", sharex=True)
    for row, (model, own) in zip(axes, models, strict=True):
        for ax, (measure, title) in zip(row, _MEASURES.items(), strict=True):
            draw_lines(ax, own, "answers", measure, METHOD_NAMES)
            ax.set_title(f"{BANKS[model]}: {title}", fontsize=8, loc="left")
        band = 2 * (LEVEL * (1 - LEVEL) / own["subjects"].iloc[0]) ** 0.5
        row[-1].axhspan(LEVEL - band, LEVEL + band, color="#e4e4e4")
        row[-1].set_ylim(None, 1)
    legend_above(fig, axes[0, 0], 4)
    return fig

"""The CAT study: simulated, calibrated item banks, and tests of many subjects at once."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from typing import Literal, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from bayesirt.bank.adaptive import CRITERIA, intervals
from bayesirt.data.cells import CellList, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.inference.ability_belief import Answers, Belief, ItemDraws, believe
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import model_named
from bayesirt.posterior import LEVEL, Posterior
from bayesirt.ranking.item_information import expected_information, expected_variance
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.figures import draw_lines, legend_above, new_figure
from bayesirt.studies.measures import Floats, groups_of, read_notes
from bayesirt.studies.tasks import PortableKey, Row, Task

BankModel = Literal["2pl", "lart"]
BANKS: dict[BankModel, str] = {"2pl": "2PL", "lart": "LaRT"}
_DRAWS = 500  # Draws of each of two chains.
RHO = -0.6  # Correlation of ability and speed: abler subjects take longer.
METHODS = {  # Two adaptive methods; the items that are best before any answer; random items.
    "information": "most information",
    "variance": "least variance",
    "fixed": "the same items for all",
    "random": "random items",
}
_NODES = 25


class Items(NamedTuple):
    """True items, with the parameters of their model; the 2PL's lengths are unused noise."""

    a: Floats  # shape (item,)
    d: Floats  # shape (item,)
    phi: Floats  # shape (item,)
    omega: Floats  # shape (item,)
    lam: Floats  # shape (item,)


class Subjects(NamedTuple):
    """Subjects with known abilities, and their answers to each item."""

    theta: Floats  # shape (subject,)
    right: NDArray[np.int64]  # shape (subject, item)
    log_latency: Floats  # shape (subject, item)


def draw_items(model: BankModel, n_items: int, rng: np.random.Generator) -> Items:
    """Draw true items.

    log a ~ N(.1, .4) for the 2PL and N(-.4, .4) for LaRT, whose probit is 1.7 times as steep;
    difficulties ~ N(0, 1.2); lengths as in Xu et al. (2026), section 5.
    """
    a = np.exp((0.1 if model == "2pl" else -0.4) + 0.4 * rng.normal(size=n_items))
    return Items(
        a,
        -a * 1.2 * rng.normal(size=n_items),
        rng.uniform(0.5, 1.5, n_items),
        5 + rng.normal(size=n_items),
        rng.uniform(0.5, 2, n_items),
    )


def draw_subjects(
    model: BankModel, items: Items, n_subjects: int, rng: np.random.Generator
) -> Subjects:
    """Draw subjects from the population, and their answers to every item."""
    theta, other = rng.normal(size=(2, n_subjects))
    tau = RHO * theta + np.sqrt(1 - RHO**2) * other
    p = (expit if model == "2pl" else ndtr)(theta[:, None] * items.a + items.d)
    noise = rng.normal(size=p.shape) * np.sqrt(items.lam)
    lengths = items.omega - tau[:, None] * items.phi + noise
    return Subjects(theta, (rng.uniform(size=p.shape) < p).astype(np.int64), lengths)


def calibrate(model: BankModel, subjects: Subjects, *, key: Array) -> Posterior:
    """Draw from the posterior of the items, given all answers of some subjects."""
    n_subjects, n_items = subjects.right.shape
    names = [[f"{kind}{k}" for k in range(n)] for kind, n in (("s", n_subjects), ("q", n_items))]
    subject, item = (index.ravel() for index in np.indices(subjects.right.shape))
    right = subjects.right.ravel()
    cells = SparseCells(n_subjects, n_items, CellList(subject, item, right, np.ones_like(right)))
    latency = np.exp(subjects.log_latency.ravel()) if model == "lart" else None
    responses = Responses(tuple(names[0]), tuple(names[1]), cells, latency)
    options = RunOptions(num_chains=2, num_warmup=300, num_samples=_DRAWS, thinning=1)
    return sample_blocked(responses, key=key, model=model_named(model), options=options)


class Track(NamedTuple):
    """Estimates of each ability after each number of answers, from zero."""

    mean: Floats  # shape (answers, subject)
    low: Floats  # shape (answers, subject)
    high: Floats  # shape (answers, subject)


def take_tests(
    method: str,
    items: ItemDraws,
    link: str,
    subjects: Subjects,
    n_answers: int,
    rng: np.random.Generator,
) -> Track:
    """Let every subject take a test."""
    shape = subjects.right.shape
    priority = jnp.asarray(_priority(method, items, link, shape, rng))
    criterion = method if method in CRITERIA else ""
    rows = np.arange(shape[0])
    questions = np.zeros((shape[0], n_answers), np.int32)
    used = np.zeros(shape, bool)
    track = []
    for n in range(n_answers + 1):
        trials = np.broadcast_to(np.arange(n_answers) < n, questions.shape).astype(np.int32)
        answers = Answers(
            questions,
            np.take_along_axis(subjects.right, questions, 1) * trials,
            trials,
            np.where(trials, np.take_along_axis(subjects.log_latency, questions, 1), np.nan),
        )
        nodes, density, best = _step(items, answers, used, priority, link, criterion)
        nodes, density = np.asarray(nodes), np.asarray(density)
        ends = intervals(nodes, density)
        track.append(((nodes * density).sum(1), ends[:, 0], ends[:, 1]))
        if n < n_answers:
            questions[:, n] = best
            used[rows, questions[:, n]] = True
    return Track(*map(np.array, zip(*track, strict=True)))


def _priority(
    method: str, items: ItemDraws, link: str, shape: tuple[int, int], rng: np.random.Generator
) -> Floats:
    """Return the priority of items for methods that ignore answers: higher comes earlier."""
    if method == "random":
        return rng.uniform(size=shape)
    before = believe(items, Answers.none().padded(), link=link)
    _, variance = expected_variance(items, before, link=link)
    return np.broadcast_to(-np.asarray(variance), shape)


@partial(jax.jit, static_argnames=("link", "criterion"))
def _step(
    items: ItemDraws, answers: Answers, used: Array, priority: Array, link: str, criterion: str
) -> tuple[Array, Array, Array]:
    """Return each ability's grid and density, and the item that each subject is asked next."""

    def of_subject(own: Answers) -> tuple[Belief, Array]:
        belief = believe(items, own, link=link, n_nodes=_NODES)
        if criterion == "information":
            return belief, sum(expected_information(items, belief, link=link))
        if criterion == "variance":
            return belief, -expected_variance(items, belief, link=link)[1]
        return belief, jnp.zeros(items.a.shape[1])

    beliefs, scores = jax.vmap(of_subject)(answers)
    scores = scores if criterion else priority
    best = jnp.argmax(jnp.where(used, -jnp.inf, scores), axis=1)
    return beliefs.nodes, beliefs.weight.sum(1), best


@dataclass(frozen=True)
class Sizes:
    """Sizes of each bank and each test."""

    calibrating: int = 400  # Subjects whose answers calibrate the items.
    items: int = 150
    subjects: int = 200  # New ones, who take the tests.
    answers: int = 30  # Length of the tests.
    item_draws: int = 60  # Item draws that a test averages over.


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
_MEASURES = {
    "rmse": "RMSE of ability",
    "width": f"mean width of {LEVEL:.0%} intervals",
    "coverage": f"coverage of {LEVEL:.0%} intervals",
}


def cat_study(design: CATDesign | None = None, *, key: Array, **running: Unpack[Running]) -> Study:
    """Give simulated subjects adaptive and other tests, and compare with the truth."""
    design, portable = design or CATDesign(), PortableKey.of(key)
    kinds, lengths = [*enumerate(BANKS)], range(design.sizes.answers + 1)
    tasks = []
    for replication, (number, model) in product(range(design.replications), kinds):
        place = number, replication
        rows = [("tests", (*place, method, n)) for method, n in product(METHODS, lengths)]
        tasks.append(Task(rows, partial(bank_rows, design, place, model, portable)))
    models = pd.DataFrame({"model": [*BANKS]})
    parts = {"tests": Part(_PLACE, measure_columns(design.stops)[1:], [*METHODS], models)}
    settings = {**asdict(design), "key": portable}
    return cat_found(do_tasks(tasks, parts, settings, running)["tests"], design)


def cat_found(replications: pd.DataFrame, design: CATDesign) -> Study:
    """Evaluate the rows of all banks, methods and numbers of answers."""
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
    """Return the results of tests of one bank, by method and number of answers."""
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
    """Compare with the truth after each answer; `held`: stopped with the truth in the interval."""
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
    rows = replications.assign(variance=replications["squared_error_sd"] ** 2)
    groups = rows.groupby(["model", "method", "answers"], sort=False)
    n = groups["subjects"].sum()  # Equal over banks, so their means get equal weight.
    mean = groups[["squared_error", "variance", "width", "covered"]].mean()
    rmse, coverage = np.sqrt(mean["squared_error"]), mean["covered"]
    return pd.DataFrame({
        "subjects": n.astype(int), "rmse": rmse,
        "rmse_se": np.sqrt(mean["variance"] / n) / (2 * rmse),
        "width": mean["width"], "coverage": coverage,
        "coverage_se": np.sqrt(coverage * (1 - coverage) / n),
    }).reset_index()  # fmt: skip


def stop_table(replications: pd.DataFrame, stops: tuple[float, ...]) -> pd.DataFrame:
    """Return how many answers it takes until the interval is short enough.

    `answers` is the median over all subjects, NaN if fewer than half stopped; `mean_answers` counts
    subjects that never stopped with the whole test.
    """
    rows = []
    groups = groups_of(replications, ["model", "method"])
    for (labels, group), width in product(groups, stops):
        by_answers = group.groupby("answers")
        stopped, held = (by_answers[f"{name}_{width:g}"].mean() for name in ("stopped", "held"))
        enough, share = stopped.index[stopped >= _TYPICAL], float(stopped.iloc[-1])
        rows.append({
            **labels, "stop_width": width, "share": share,
            "answers": float(enough[0]) if len(enough) else np.nan,
            "mean_answers": float((1 - stopped.iloc[:-1]).sum()),
            "coverage": float(held.iloc[-1]) / share if share else np.nan,
        })  # fmt: skip
    return pd.DataFrame(rows)


def cat_claims(lengths: pd.DataFrame, stops: pd.DataFrame) -> Iterator[Claim]:
    """Yield the error halfway, the answers other tests need for the same width, and coverage."""
    adaptive = lengths["method"].isin(CRITERIA)
    half = lengths[lengths["answers"] == lengths["answers"].max() // 2]
    begun = lengths[adaptive & (lengths["answers"] > 0)].groupby("model")
    width = half[half["method"].isin(CRITERIA)].groupby("model")["width"].min()
    others = lengths[~adaptive].assign(aim=lengths["model"].map(width))
    reached = others["answers"].where(others["width"] <= others["aim"])
    needed = reached.groupby([others["model"], others["method"]]).agg(["min", "count"])
    needed = needed.rename(columns={"min": "answers", "count": "reached"}).reset_index()
    frames = {
        "halfway": half,
        "needed": needed.assign(width=needed["model"].map(width)),
        "stops": stops,
        "adaptive": begun[["coverage", "coverage_se"]].mean().reset_index(),
    }
    return claims_from("cat", frames, {"model": BANKS, "method": METHODS})


def plot_tests(lengths: pd.DataFrame) -> Figure:
    """Draw error, width and coverage by number of answers, a row of panels for each model."""
    models = list(lengths.groupby("model"))
    size = 8.4, 0.8 + 2.5 * len(models)
    fig, axes = new_figure(*size, len(models), len(_MEASURES), x="answers", sharex=True)
    for row, (model, rows) in zip(axes, models, strict=True):
        for ax, (measure, title) in zip(row, _MEASURES.items(), strict=True):
            draw_lines(ax, rows, "answers", measure, METHODS)
            ax.set_title(f"{BANKS[model]}: {title}", fontsize=8, loc="left")
        band = 2 * (LEVEL * (1 - LEVEL) / rows["subjects"].iloc[0]) ** 0.5
        row[-1].axhspan(LEVEL - band, LEVEL + band, color="#e4e4e4")
        row[-1].set_ylim(None, 1)
    legend_above(fig, axes[0, 0], 4)
    return fig

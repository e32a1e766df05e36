"""The calibration study: whether engines draw from the posterior and their intervals cover.

It runs simulation-based calibration of every engine on the same simulated data, and measures the
coverage of its intervals by the size of the data.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Unpack

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import norm, t

from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.report.plots import INK, SOFT
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.figures import draw_lines, legend_above, new_figure
from bayesirt.studies.measures import groups_of, ratio_se, read_notes
from bayesirt.studies.rank_ecdf import counts_below, simultaneous_envelope, uniformity_p_value
from bayesirt.studies.replication import (
    GROUPS,
    LEVELS,
    QUANTITIES,
    Design,
    Engine,
    replicate,
    row_columns,
)
from bayesirt.studies.tasks import PortableKey, Task

CELL = ["engine", "n_subjects", "n_items"]
_PLACE = [*CELL, "replication"]
CALIBRATED = "calibrated"
SLACK = 0.05  # Intervals whose coverage is below nominal by no more than this may be trusted.
_CLEAR = 3.0
_SIDES = ("below", "in", "above")
_PALE = "#dcdcdc"


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationStudy(Study):
    """The replications of a calibration study, and its results.

    Attributes
    ----------
    replications : DataFrame
        One row per engine, size and replication: ranks, ties and ESS of each quantity, counts of
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
        """The size from which 90% intervals may be trusted."""
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
    """Simulate from the prior, run every engine on the same data, and check its calibration.

    Parameters
    ----------
    engines : mapping of callables
        Functions (responses, key) → `Posterior`, by name. All must assume the same priors.
    sizes : sequence of (int, int)
        Subjects and items.
    n_replications : int
        Replications of each size.
    key : jax.random.key
        The same key gives the same study on the same machine, however many processes run it.
    design : Design, optional
        The ``priors``, ``trials`` and share ``missing`` of the simulation, how many draws are
        ``kept``, and the probability of a ``false_alarm``.
    **running
        ``folder``, ``n_processes``, ``scheduler`` and ``progress``: see `Running`. When a folder
        with part of the same study is resumed, the settings of engines are not compared. For use in
        other processes engines must be functions of a module, or `functools.partial` of them.

    Returns
    -------
    CalibrationStudy

    Raises
    ------
    ResponseError
        If the folder holds anything else, or the scheduler cannot be reached.
    ValueError
        If there is nothing to study, or an engine returns fewer draws than are kept.

    Notes
    -----
    An engine that raises `ResponseError` or returns a draw that is not finite counts as failed in
    that replication. Any other exception ends the study.

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
    order = [(name, *n, k) for n, name, k in product(sizes, engines, range(n_replications))]
    ordered = rows.astype(dict.fromkeys(_PLACE[1:], int)).set_index(_PLACE).loc[order]
    return calibration_found(ordered.reset_index(), design)


def calibration_found(rows: pd.DataFrame, design: Design) -> CalibrationStudy:
    """Evaluate the rows of all engines, sizes and replications."""
    ranks = rank_table(rows, design.kept, design.false_alarm)
    coverage = coverage_table(rows, design.false_alarm)
    trust = trust_table(coverage)
    figures = {"coverage": partial(plot_coverage, coverage)} if len(ranks) else {}
    sizes = ranks[CELL[1:]].drop_duplicates().itertuples(index=False) if len(ranks) else ()
    for n, m in sizes:
        figures[f"ranks_{n}x{m}"] = partial(plot_rank_ecdf, rows, ranks, (n, m), design)
    note = (
        f"'{CALIBRATED}' means that these replications show no departure. In studies of correct "
        f"engines, a share of {design.false_alarm:.2g} shows one by ranks, and as many by coverage."
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


def rank_table(replications: pd.DataFrame, kept: int, false_alarm: float) -> pd.DataFrame:
    """Return whether ranks are uniform, by engine, size and quantity.

    `dependent` replications have an ESS below the number of draws kept. `shift` and `spread` are z
    scores, positive if the truth lies above the draws, or in their tails.
    """
    rows = []
    for cell, runs in groups_of(replications, CELL):
        sound = runs[runs["failed"] == ""]
        for name in QUANTITIES if len(sound) else ():
            if f"rank_{name}" in sound:
                ranks = sound[f"rank_{name}"].to_numpy().astype(np.int64)
                shift, spread = _moments(ranks, kept)
                rows.append({
                    **cell, "quantity": name, "replications": len(ranks),
                    "failed": len(runs) - len(ranks),
                    "dependent": int((sound[f"ess_{name}"] < kept).sum()),
                    "ties": int(sound[f"ties_{name}"].sum()),
                    "p_value": uniformity_p_value(ranks, kept), "shift": shift, "spread": spread,
                })  # fmt: skip
    for row in rows:
        fails = row["p_value"] < false_alarm / len(rows)
        row["verdict"] = _direction(row["shift"], row["spread"]) if fails else CALIBRATED
    return pd.DataFrame(rows)


def coverage_table(replications: pd.DataFrame, false_alarm: float) -> pd.DataFrame:
    """Return how often intervals cover the truth, by engine, size, group and level.

    Members of one replication share their data, so the standard error is that of a ratio of sums
    over replications. It is at least that of independent members at the interval's level, which
    matters if they are few. `skew` is the z score of truths above minus those below.
    """
    rows = []
    for cell, runs in groups_of(replications[replications["failed"] == ""], CELL):
        for name, level in product(GROUPS, LEVELS):
            if runs.get(f"members_{name}", pd.Series([0])).sum():
                counts = [runs[f"{side}{level:.0%}_{name}"].to_numpy() for side in _SIDES]
                shares = _shares(counts, runs[f"members_{name}"].to_numpy(), level)
                rows.append({**cell, "group": name, "level": level, **shares})
    for row in rows:
        limit = t.isf(false_alarm / len(rows) / 2, row["replications"] - 1)
        row["verdict"] = _of_coverage(
            (row["coverage"] - row["level"]) / row["se"], limit, row["skew"]
        )
    return pd.DataFrame(rows)


def trust_table(coverage: pd.DataFrame) -> pd.DataFrame:
    """Return the size from which the 95% interval of 90% intervals' coverage is above 85%."""
    if not len(coverage):
        return pd.DataFrame(columns=["engine", "group", "n_subjects", "n_items"])
    rows = []
    for labels, group in groups_of(coverage[coverage["level"] == LEVEL], ["engine", "group"]):
        by_size = group.assign(cells=group["n_subjects"] * group["n_items"]).sort_values("cells")
        holds = (by_size["low"] >= LEVEL - SLACK).to_numpy()
        first = len(holds) - int(np.logical_and.accumulate(holds[::-1]).sum())
        size = by_size[["n_subjects", "n_items"]].astype(float).shift(-first).iloc[0]
        rows.append(labels | size.to_dict())
    return pd.DataFrame(rows)


def _moments(ranks: NDArray[np.int64], kept: int) -> tuple[float, float]:
    """Return z scores of the mean and of the mean square of the ranks' normal scores."""
    scores = norm.ppf((np.arange(kept + 1) + 0.5) / (kept + 1))
    observed, squares, root = scores[ranks], scores**2, np.sqrt(len(ranks))
    shift = observed.mean() / scores.std() * root
    centred = observed if abs(shift) < _CLEAR else observed - observed.mean()
    spread = ((centred**2).mean() - squares.mean()) / squares.std() * root
    return float(shift), float(spread)


def _direction(shift: float, spread: float) -> str:
    """Return how ranks depart from uniformity: all clear departures, else the clearest."""
    words = {
        "too narrow" if spread > 0 else "too wide": abs(spread),
        "biased low" if shift > 0 else "biased high": abs(shift),
    }
    clear = [word for word, size in words.items() if size >= _CLEAR]
    return " and ".join(clear) or max(words, key=lambda word: words[word])


def _of_coverage(z: float, limit: float, skew: float) -> str:
    """Return how coverage fails: one-sided misses are a bias, two-sided ones narrowness."""
    if z > limit:
        return "too wide"
    if z >= -limit:
        return CALIBRATED
    if abs(skew) < _CLEAR:
        return "too narrow"
    return "biased low" if skew > 0 else "biased high"


def _shares(
    counts: Sequence[NDArray[np.floating]], members: NDArray[np.floating], level: float
) -> dict[str, float]:
    below, inside, above = counts
    total, held = members.sum(), int((members > 0).sum())
    covered, surplus = inside.sum() / total, above - below
    se = float(np.fmax(ratio_se(inside, members), np.sqrt(level * (1 - level) / total)))
    margin = t.ppf(0.975, held - 1) * se if held > 1 else np.inf
    skew_se = np.fmax(ratio_se(surplus, members), np.sqrt((1 - level) / total))
    return {
        "replications": held, "members": int(total), "coverage": covered, "se": se,
        "low": max(0.0, covered - margin), "high": min(1.0, covered + margin),
        "below": below.sum() / total, "above": above.sum() / total,
        "skew": surplus.sum() / total / skew_se,
    }  # fmt: skip


def plot_rank_ecdf(
    replications: pd.DataFrame, ranks: pd.DataFrame, size: tuple[int, int], design: Design
) -> Figure:
    """Draw the deviation of the ranks' ECDF from uniform, by quantity and engine."""
    sizes = {"n_subjects": size[0], "n_items": size[1]}
    rows, sound = (t[(t[[*sizes]] == pd.Series(sizes)).all(axis=1)] for t in (ranks, replications))
    sound = sound[sound["failed"] == ""]
    engines, quantities = (list(rows[name].unique()) for name in ("engine", "quantity"))
    probability = 1 - design.false_alarm / len(ranks)
    n, m = len(quantities), len(engines)
    fig, axes = new_figure(1.4 + 2.6 * m, 1.5 + 1.25 * n, n, m, sharex=True, sharey=True)
    for row in rows.itertuples():
        ax = axes[quantities.index(row.quantity), engines.index(row.engine)]
        values = sound.loc[sound["engine"] == row.engine, f"rank_{row.quantity}"]
        _draw_difference(ax, values.to_numpy().astype(np.int64), design.kept, probability)
        _frame(ax, row.verdict)
    for ax, engine in zip(axes[0], engines, strict=True):
        ax.set_title(one_line(engine, 24), fontweight="bold")
    for ax, quantity in zip(axes[:, 0], quantities, strict=True):
        label = textwrap.fill(QUANTITIES[quantity], 16)
        ax.set_ylabel(label, rotation=0, ha="right", va="center")
    fig.supxlabel(f"{size[0]} x {size[1]}: share of ranks below a fraction of the draws, minus it")
    return fig


def plot_coverage(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of intervals, with 95% intervals, against the size of the data."""
    size = coverage["n_subjects"].astype(str) + " x " + coverage["n_items"].astype(str)
    cells = (coverage["n_subjects"] * coverage["n_items"]).to_numpy()
    labels = list(size.iloc[cells.argsort(kind="stable")].unique())
    names = {engine: one_line(str(engine), 24) for engine in coverage["engine"].unique()}
    shift = 0.16 * (coverage["engine"].map(list(names).index) - (len(names) - 1) / 2)
    table = coverage.assign(place=size.map(labels.index) + shift)
    groups = [name for name in GROUPS if (coverage["group"] == name).any()]
    n, m = len(LEVELS), len(groups)
    fig, axes = new_figure(1.2 + 2.2 * m, 5.4, n, m, sharex=True, sharey="row")
    for ax, (level, group) in zip(axes.flat, product(LEVELS, groups), strict=True):
        rows = table[(table["level"] == level) & (table["group"] == group)]
        ax.axhline(level, color=INK, lw=0.8)
        draw_lines(ax, rows, "place", "coverage", names, by="engine", ends=("low", "high"))
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlim(-0.5, len(labels) - 0.5)
        ax.grid(visible=False, axis="x")
    for ax, level in zip(axes[:, 0], LEVELS, strict=True):
        ax.set_ylabel(f"coverage of {level:.0%} intervals")
    for ax, group in zip(axes[0], groups, strict=True):
        ax.set_title(textwrap.fill(GROUPS[group], 18))
    legend_above(fig, axes[0, 0], len(names))
    return fig


def _draw_difference(ax: Axes, ranks: NDArray[np.int64], kept: int, probability: float) -> None:
    n = len(ranks)
    envelope = simultaneous_envelope(n, kept, probability)
    z = np.concatenate([[0], envelope.points, [1]])
    for bounds in (envelope.lower, envelope.upper):
        edge = np.concatenate([[0], bounds / n, [1]]) - z
        ax.plot(z, edge, color=SOFT, lw=0.8)
    low, high = (bounds / n - envelope.points for bounds in (envelope.lower, envelope.upper))
    ax.fill_between(envelope.points, low, high, color=_PALE, lw=0)
    ax.axhline(0, color=SOFT, lw=0.6)
    counts = np.concatenate([[0], counts_below(ranks, kept) / n, [1]])
    ax.plot(z, counts - z, color=INK, lw=1.2, drawstyle="steps-mid")
    ax.set_xticks([0, 0.5, 1])


def _frame(ax: Axes, verdict: str) -> None:
    """Write the verdict into a panel; frame the panel if it fails."""
    fails = verdict != CALIBRATED
    ax.text(
        0.03, 0.97, verdict, transform=ax.transAxes, va="top", fontsize=7,
        fontweight="bold" if fails else "normal",
        bbox={"color": "white", "alpha": 0.8, "pad": 0.5},
    )  # fmt: skip
    if fails:
        for spine in ax.spines.values():
            spine.set(visible=True, linewidth=2, color=INK)


def calibration_claims(
    replications: pd.DataFrame, ranks: pd.DataFrame, coverage: pd.DataFrame, trust: pd.DataFrame
) -> Iterator[Claim]:
    """Yield by engine and size which ranks and intervals are right, and from which size."""
    runs = replications.groupby(CELL, sort=False).agg(
        runs=("engine", "size"), failed=("failed", _n_texts), first_failed=("failed", _first_text),
        warned=("warned", _n_texts), first_warned=("warned", _first_text),
    )  # fmt: skip
    counts = ["quantities", "right", "dependent", "most_dependent"]
    if len(ranks):
        by_cell = ranks.assign(
            right=ranks["verdict"] == CALIBRATED, some=ranks["dependent"] > 0
        ).groupby(CELL)  # fmt: skip
        totals = by_cell.agg(
            quantities=("verdict", "size"), right=("right", "sum"), dependent=("some", "sum"),
            most_dependent=("dependent", "max"),
        )  # fmt: skip
        runs = runs.join(totals)
    frames = {
        "runs": runs.reindex(columns=runs.columns.union(counts)).fillna(0).reset_index(),
        "ranks": ranks,
        "coverage": coverage,
        "trust": trust.assign(least=f"{LEVEL - SLACK:.0%}"),
    }
    return claims_from("calibration", frames, {"group": GROUPS, "quantity": QUANTITIES})


def _n_texts(texts: "pd.Series[str]") -> int:
    return int((texts != "").sum())


def _first_text(texts: "pd.Series[str]") -> str:
    return next((text for text in texts if text), "")

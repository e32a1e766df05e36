"""What the replications of a calibration study say: tables with a verdict in words, and figures."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import norm, t

from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.report.plots import INK, SOFT
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.figures import draw_lines, legend_above, new_figure, study_style
from bayesirt.studies.measures import groups_of, ratio_se
from bayesirt.studies.rank_ecdf import counts_below, simultaneous_envelope, uniformity_p_value
from bayesirt.studies.replication import GROUPS, LEVELS, QUANTITIES, Design

CELL = ["engine", "n_subjects", "n_items"]
CALIBRATED = "calibrated"
SLACK = 0.05  # Intervals that cover less than they say by no more than this may be trusted.
_CLEAR = 3.0
_SIDES = ("below", "in", "above")
_PALE = "#dcdcdc"


def rank_table(replications: pd.DataFrame, kept: int, false_alarm: float) -> pd.DataFrame:
    """Return whether ranks are uniform, by engine, size and quantity.

    `dependent` replications have a smaller ESS than draws were kept; `shift` and `spread` are z
    scores, positive where the truth lies above the draws, and out in their tails.
    """
    names = [q for q in QUANTITIES if f"rank_{q}" in replications]
    rows = []
    for cell, runs in groups_of(replications, CELL):
        sound = runs[runs["failed"] == ""]
        for name in names if len(sound) else []:
            ranks = sound[f"rank_{name}"].to_numpy().astype(np.int64)
            shift, spread = _moments(ranks, kept)
            rows.append({
                **cell, "quantity": name, "replications": len(ranks),
                "failed": len(runs) - len(ranks),
                "dependent": int((sound[f"ess_{name}"] < kept).sum()),
                "ties": int(sound[f"ties_{name}"].sum()),
                "p_value": uniformity_p_value(ranks, kept), "shift": shift, "spread": spread,
            })  # fmt: skip
    table = pd.DataFrame(rows)
    if len(table):
        fails = table["p_value"] < false_alarm / len(table)
        table["verdict"] = [
            _direction(row.shift, row.spread) if fail else CALIBRATED
            for row, fail in zip(table.itertuples(), fails, strict=True)
        ]
    return table


def coverage_table(replications: pd.DataFrame, false_alarm: float) -> pd.DataFrame:
    """Return how often intervals cover the truth, by engine, size, group and level.

    Members of one replication share their data, so the standard error is that of a ratio of sums
    over replications; it is never below what independent members would have at the interval's
    level, which matters where few are. `skew` is the z score of truths above less those below.
    """
    rows = []
    for cell, runs in groups_of(replications, CELL):
        sound = runs[runs["failed"] == ""]
        for name in (g for g in GROUPS if f"members_{g}" in replications):
            members = sound[f"members_{name}"].to_numpy()
            if members.sum() == 0:
                continue
            for level in LEVELS:
                counts = [sound[f"{side}{level:.0%}_{name}"].to_numpy() for side in _SIDES]
                place = cell | {"group": name, "level": level}
                rows.append(place | _shares(counts, members, level))
    table = pd.DataFrame(rows)
    if len(table):
        limit = t.isf(false_alarm / len(table) / 2, table["replications"] - 1)
        z = (table["coverage"] - table["level"]) / table["se"]
        table["verdict"] = [_of_coverage(*row) for row in zip(z, limit, table["skew"], strict=True)]
    return table


def trust_table(coverage: pd.DataFrame) -> pd.DataFrame:
    """Return from which size on the 95% interval of the coverage of 90% intervals is above 85%."""
    if not len(coverage):
        return pd.DataFrame(columns=["engine", "group", "n_subjects", "n_items"])
    rows = []
    for place, own in groups_of(coverage[coverage["level"] == LEVEL], ["engine", "group"]):
        by_size = own.assign(cells=own["n_subjects"] * own["n_items"]).sort_values("cells")
        holds = (by_size["low"] >= LEVEL - SLACK).to_numpy()
        first = len(holds) - int(np.logical_and.accumulate(holds[::-1]).sum())
        size = by_size[["n_subjects", "n_items"]].astype(float).shift(-first).iloc[0]
        rows.append(place | size.to_dict())
    return pd.DataFrame(rows)


def _moments(ranks: NDArray[np.int64], kept: int) -> tuple[float, float]:
    """Return z scores of the mean and of the mean square of the ranks' normal scores."""
    scores = norm.ppf((np.arange(kept + 1) + 0.5) / (kept + 1))
    root = np.sqrt(len(ranks))
    squares = scores**2
    own = scores[ranks]
    shift = own.mean() / scores.std() * root
    centred = own**2 if abs(shift) < _CLEAR else (own - own.mean()) ** 2
    return float(shift), float((centred.mean() - squares.mean()) / squares.std() * root)


def _direction(shift: float, spread: float) -> str:
    """Say in which way ranks are not uniform; what is clear, or else what is clearer."""
    words = {
        "too narrow" if spread > 0 else "too wide": abs(spread),
        "biased low" if shift > 0 else "biased high": abs(shift),
    }
    clear = [word for word, size in words.items() if size >= _CLEAR]
    return " and ".join(clear) or max(words, key=lambda word: words[word])


def _of_coverage(z: float, limit: float, skew: float) -> str:
    """Say in which way intervals do not hold; misses on one side are a bias, on both narrowness."""
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


@study_style()
def plot_rank_ecdf(
    replications: pd.DataFrame, ranks: pd.DataFrame, size: tuple[int, int], design: Design
) -> Figure:
    """Draw how far the ECDF of the ranks strays from uniform, by quantity and engine."""
    place = {"n_subjects": size[0], "n_items": size[1]}
    rows, sound = (t[(t[[*place]] == pd.Series(place)).all(axis=1)] for t in (ranks, replications))
    sound = sound[sound["failed"] == ""]
    engines, quantities = (list(rows[name].unique()) for name in ("engine", "quantity"))
    probability = 1 - design.false_alarm / len(ranks)
    n, m = len(quantities), len(engines)
    fig, axes = new_figure(1.4 + 2.6 * m, 1.5 + 1.25 * n, n, m, sharex=True, sharey=True)
    for row in rows.itertuples():
        ax = axes[quantities.index(row.quantity), engines.index(row.engine)]
        own = sound.loc[sound["engine"] == row.engine, f"rank_{row.quantity}"]
        _draw_difference(ax, own.to_numpy().astype(np.int64), design.kept, probability)
        _frame(ax, row.verdict)
    for ax, engine in zip(axes[0], engines, strict=True):
        ax.set_title(one_line(engine, 24), fontweight="bold")
    for ax, quantity in zip(axes[:, 0], quantities, strict=True):
        label = textwrap.fill(QUANTITIES[quantity], 16)
        ax.set_ylabel(label, rotation=0, ha="right", va="center")
    fig.supxlabel(f"{size[0]} x {size[1]}: share of ranks below a fraction of the draws, less that")
    return fig


@study_style()
def plot_coverage(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of intervals, with 95% intervals of it, against the size of the data."""
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
        own = table[(table["level"] == level) & (table["group"] == group)]
        ax.axhline(level, color=INK, lw=0.8)
        draw_lines(ax, own, "place", "coverage", names, by="engine", ends=("low", "high"))
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
    """Write the verdict into a panel; one that fails is framed."""
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
    """Yield by engine and size which ranks and intervals are right, and from where on they are."""
    runs = replications.groupby(CELL, sort=False).agg(
        runs=("engine", "size"), failed=("failed", _n_said), first_failed=("failed", _first_said),
        warned=("warned", _n_said), first_warned=("warned", _first_said),
    )  # fmt: skip
    counts = ["quantities", "right", "dependent", "most_dependent"]
    if len(ranks):
        by_cell = ranks.assign(
            right=ranks["verdict"] == CALIBRATED, some=ranks["dependent"] > 0
        ).groupby(CELL)  # fmt: skip
        found = by_cell.agg(
            quantities=("verdict", "size"), right=("right", "sum"), dependent=("some", "sum"),
            most_dependent=("dependent", "max"),
        )  # fmt: skip
        runs = runs.join(found)
    frames = {
        "runs": runs.reindex(columns=runs.columns.union(counts)).fillna(0).reset_index(),
        "ranks": ranks,
        "coverage": coverage,
        "trust": trust.assign(least=f"{LEVEL - SLACK:.0%}"),
    }
    return claims_from("calibration", frames, {"group": GROUPS, "quantity": QUANTITIES})


def _n_said(texts: "pd.Series[str]") -> int:
    return int((texts != "").sum())


def _first_said(texts: "pd.Series[str]") -> str:
    return next((text for text in texts if text), "")

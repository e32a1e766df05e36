"""Figures of a calibration study, readable in black and white, that say what to conclude."""

import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesirt.names import one_line
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.calibration_tables import CALIBRATED, trust_table
from bayesirt.studies.calibration_text import ranks_in_words, trust_in_words
from bayesirt.studies.rank_ecdf import counts_below, simultaneous_envelope
from bayesirt.studies.replication import GROUPS, LEVELS, QUANTITIES
from bayesirt.studies.tasks import Design

_MARKS = ("o", "s", "^", "D", "v", "P")
_LINES = ("-", "--", ":", "-.")
_PALE = "#dcdcdc"


def plot_rank_ecdf(
    replications: pd.DataFrame, ranks: pd.DataFrame, size: tuple[int, int], design: Design
) -> Figure:
    """Draw how far the ECDF of the ranks strays from uniform, by quantity and engine."""
    at_size = ranks[(ranks["n_subjects"] == size[0]) & (ranks["n_items"] == size[1])]
    engines = list(at_size["engine"].unique())
    quantities = list(at_size["quantity"].unique())
    probability = 1 - design.false_alarm / len(ranks)
    with figure_style():
        fig = Figure(
            figsize=(1.4 + 2.6 * len(engines), 1.5 + 1.25 * len(quantities)), layout="constrained"
        )
        axes = fig.subplots(len(quantities), len(engines), sharex=True, sharey=True, squeeze=False)
        for row in at_size.itertuples():
            ax = axes[quantities.index(row.quantity), engines.index(row.engine)]
            own = replications[
                (replications["engine"] == row.engine)
                & (replications["n_subjects"] == size[0])
                & (replications["n_items"] == size[1])
                & (replications["failed"] == "")
            ]
            found = own[f"rank_{row.quantity}"].to_numpy().astype(np.int64)
            _draw_difference(ax, found, design.kept, probability)
            _frame(ax, row.verdict)
        for ax, engine in zip(axes[0], engines, strict=True):
            ax.set_title(one_line(engine, 24), fontweight="bold")
        for ax, quantity in zip(axes[:, 0], quantities, strict=True):
            ax.set_ylabel(
                textwrap.fill(QUANTITIES[quantity], 16), rotation=0, ha="right", va="center"
            )
        fig.supxlabel(_rank_caption(at_size, size), fontsize=8, x=0.01, ha="left")
    return fig


def plot_coverage(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of intervals against the size of the data."""
    engines = list(coverage["engine"].unique())
    groups = [name for name in GROUPS if (coverage["group"] == name).any()]
    by_cells = coverage.assign(cells=coverage["n_subjects"] * coverage["n_items"])
    sizes = by_cells.drop_duplicates(["n_subjects", "n_items"]).sort_values("cells")
    labels = [f"{row.n_subjects} x {row.n_items}" for row in sizes.itertuples()]
    with figure_style():
        fig = Figure(figsize=(1.2 + 2.2 * len(groups), 5.4), layout="constrained")
        axes = fig.subplots(len(LEVELS), len(groups), sharex=True, sharey="row", squeeze=False)
        for ax_row, level in zip(axes, LEVELS, strict=True):
            for ax, group in zip(ax_row, groups, strict=True):
                own = coverage[(coverage["level"] == level) & (coverage["group"] == group)]
                ax.axhline(level, color=INK, lw=0.8)
                for place, engine in enumerate(engines):
                    _draw_engine(ax, own[own["engine"] == engine], labels, place, len(engines))
                ax.set_xticks(range(len(labels)), labels)
                ax.set_xlim(-0.5, len(labels) - 0.5)
                ax.grid(axis="y", color="#e4e4e4", lw=0.6)
            ax_row[0].set_ylabel(f"coverage of {level:.0%} intervals")
        for ax, group in zip(axes[0], groups, strict=True):
            ax.set_title(textwrap.fill(GROUPS[group], 18), fontsize=9)
        handles, names = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, names, loc="outside upper center", ncols=len(engines), frameon=False)
        fig.supxlabel(_coverage_caption(coverage), fontsize=8, x=0.01, ha="left")
    return fig


def _draw_difference(ax: Axes, ranks: np.ndarray, kept: int, probability: float) -> None:
    n = len(ranks)
    envelope = simultaneous_envelope(n, kept, probability)
    z = np.concatenate([[0], envelope.points, [1]])
    for bounds in (envelope.lower, envelope.upper):
        edge = np.concatenate([[0], bounds / n, [1]]) - z
        ax.plot(z, edge, color=SOFT, lw=0.8)
    ax.fill_between(
        envelope.points,
        envelope.lower / n - envelope.points,
        envelope.upper / n - envelope.points,
        color=_PALE,
        lw=0,
    )
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


def _draw_engine(
    ax: Axes, rows: pd.DataFrame, labels: list[str], place: int, n_engines: int
) -> None:
    x = [labels.index(f"{row.n_subjects} x {row.n_items}") for row in rows.itertuples()]
    shift = 0.16 * (place - (n_engines - 1) / 2)
    ax.errorbar(
        np.asarray(x) + shift,
        rows["coverage"],
        yerr=[rows["coverage"] - rows["low"], rows["high"] - rows["coverage"]],
        marker=_MARKS[place % len(_MARKS)],
        linestyle=_LINES[place % len(_LINES)],
        color=ACCENT if place else INK,
        mfc="white" if place % 2 else None,
        ms=5,
        lw=1,
        elinewidth=1,
        label=one_line(str(rows["engine"].iloc[0]), 24) if len(rows) else None,
    )


def _rank_caption(rows: pd.DataFrame, size: tuple[int, int]) -> str:
    verdicts = [
        f"{one_line(str(engine), 24)}: {ranks_in_words(own)}."
        for engine, own in rows.groupby("engine", sort=False)
    ]
    how = (
        f"{size[0]} x {size[1]}. Share of ranks below a fraction of the draws, minus that "
        f"fraction. Inside the grey band nothing is seen to be wrong. Where the line leaves it "
        f"above, draws are too high (biased high); below, too low; first above, then below, too "
        f"narrow; first below, then above, too wide."
    )
    return "\n".join(textwrap.fill(text, 110) for text in (how, *verdicts))


def _coverage_caption(coverage: pd.DataFrame) -> str:
    how = (
        "Marks on the line: intervals hold as often as they say; below: too narrow. Bars are 95% "
        "intervals over replications."
    )
    trust = trust_in_words(trust_table(coverage))
    return "\n".join(textwrap.fill(text, 130) for text in (how, *trust))

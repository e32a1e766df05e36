"""Figures of the cBMM study's matrix, readable in black and white."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesirt.names import one_line
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.cbmm_matrix import MatrixLook

_MOST_SHOWN = 30
_FAR = 3
"""Places from which on a change of rank is drawn dark."""

_REACH = 4
"""Interquartile ranges from the quartiles to the edge of a panel; what lies beyond is cut off."""

_GRID: dict[str, Any] = {"color": "#e4e4e4", "lw": 0.6}
_KINDS = {
    "base": ("the base", "o", SOFT),
    "sparsity": ("some a = 0", "^", SOFT),
    "spread": ("wide spread of a", "s", SOFT),
    "matrix": ("the matrix", "*", ACCENT),
}


def plot_heterogeneity(heterogeneity: pd.DataFrame) -> Figure:
    """Draw ρ of ability and accuracy against the spread of a (Qu et al., 2026, Figure 4)."""
    rows = heterogeneity[heterogeneity["method"] == "newton"]
    with figure_style():
        fig = Figure(figsize=(8.4, 3.4), layout="constrained")
        left, middle, right = fig.subplots(1, 3)
        for ax, column, title in (
            (left, "rho_average_top", "top 20% by accuracy"), (middle, "rho_average", "all"),
        ):  # fmt: skip
            for kind, (label, mark, color) in _KINDS.items():
                own = rows[rows["factor"] == kind]
                ax.plot(own["cv_a"], own[column], mark, color=color, mec=INK, mew=0.6, label=label,
                        ms=10 if mark == "*" else 5)  # fmt: skip
            ax.set_title(title, fontsize=9)
        left.set_ylabel("Spearman of ability and accuracy")
        known = rows[rows["rho_theta"].notna()].sort_values("cv_a")
        right.plot(known["cv_a"], known["rho_theta"], "s-", color=INK, ms=4, lw=1, label="ability")
        right.plot(known["cv_a"], known["average_rho_theta"], "o--", color=SOFT, ms=4, lw=1,
                   label="accuracy")  # fmt: skip
        right.set_title("with the true θ (simulated)", fontsize=9)
        right.legend(frameon=False, fontsize=8)
        middle.legend(frameon=False, fontsize=8)
        for ax in (left, middle, right):
            ax.grid(**_GRID)
        fig.supxlabel("coefficient of variation of the estimated a", fontsize=9)
    return fig


def plot_flow(look: MatrixLook) -> Figure:
    """Draw how ranks change from accuracy to ability (Qu et al., 2026, Figure 5)."""
    table = look.subjects[look.subjects["method"] == "newton"]
    first = table[table[["rank_accuracy", "rank_theta"]].max(axis=1) <= _MOST_SHOWN]
    left = first.sort_values(["accuracy", "theta"], ascending=False)["subject"].tolist()
    right = first.sort_values("theta", ascending=False)["subject"].tolist()
    with figure_style():
        fig = Figure(figsize=(7.6, 0.9 + 0.21 * max(len(first), 3)), layout="constrained")
        ax = fig.subplots()
        for row in first.itertuples():
            ends = left.index(row.subject), right.index(row.subject)
            far = abs(row.rank_accuracy - row.rank_theta) >= _FAR
            ax.plot([0, 1], ends, color=ACCENT if far else SOFT, lw=1.6 if far else 0.9)
            for x, y, rank, value, side in (
                (0, ends[0], row.rank_accuracy, f"{row.accuracy:.1%}", "right"),
                (1, ends[1], row.rank_theta, f"{row.theta:.2f}", "left"),
            ):
                name = one_line(str(row.subject), 34)
                text = f"{name}  {value}  {rank:.0f}" if x == 0 else f"{rank:.0f}  {value}  {name}"
                ax.text(x + (0.02 if x else -0.02), y, text, ha=side, va="center", fontsize=7)
        ax.set_xlim(-1.0, 2.0)
        ax.set_ylim(len(first) - 0.4, -1.6)
        ax.text(0, -1.1, "by accuracy", ha="right", fontsize=9)
        ax.text(1, -1.1, "by ability θ", ha="left", fontsize=9)
        ax.axis("off")
    return fig


def plot_levels(look: MatrixLook) -> Figure:
    """Draw the difficulty of items by human level (Qu et al., 2026, Figure 3)."""
    items = look.items[look.items["method"] == "newton"]
    rho = look.level_rho[look.level_rho["method"] == "newton"].set_index("measure")
    titles = {"minus_d": "-d", "b": "b = -d/a", "wrong": "share wrong"}
    with figure_style():
        fig = Figure(figsize=(8.4, 3.4), layout="constrained")
        for ax, (measure, title) in zip(fig.subplots(1, 3), titles.items(), strict=True):
            own = items[items[measure].notna()]
            _draw_boxes(ax, own, measure)
            found = rho.loc[measure]
            ax.set_title(
                f"{title}: rho {found['rho']:.2f} ({found['low']:.2f} to {found['high']:.2f})",
                fontsize=9,
            )
        fig.supxlabel("human level", fontsize=9)
    return fig


def _draw_boxes(ax: Axes, items: pd.DataFrame, measure: str) -> None:
    levels = sorted(items["level"].unique())
    groups = [items.loc[items["level"] == level, measure].to_numpy() for level in levels]
    plain = {"color": INK, "lw": 0.9}
    ax.boxplot(groups, widths=0.6, medianprops={"color": ACCENT, "lw": 2}, boxprops=plain,
               whiskerprops=plain, capprops=plain,
               flierprops={"marker": ".", "ms": 3, "mec": SOFT})  # fmt: skip
    ax.set_xticks(range(1, len(levels) + 1), [f"{level:g}" for level in levels])
    values = np.concatenate(groups)
    low, high = np.quantile(values, [0.25, 0.75])
    reach = _REACH * (high - low)
    ax.set_ylim(max(low - reach, values.min() - 0.1 * reach),
                min(high + reach, values.max() + 0.1 * reach))  # fmt: skip
    ax.grid(axis="y", **_GRID)

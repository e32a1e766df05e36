"""Figures of the LaRT study's matrix, readable in black and white."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.lart_matrix import MatrixLook
from bayesirt.studies.lart_prediction import PREDICTIONS

_GRID: dict[str, Any] = {"color": "#e4e4e4", "lw": 0.6}
_LINES: dict[str, dict[str, Any]] = {
    "irt": {"color": SOFT, "ls": "--", "marker": "o", "label": "probit IRT"},
    "lart": {"color": ACCENT, "ls": "-", "marker": "s", "label": "LaRT"},
}
_MEASURES = {"absolute_error": "mean absolute error", "log_score": "log score (lower is better)"}


def plot_abilities_and_speeds(look: MatrixLook) -> Figure:
    """Draw speed against ability (Xu et al., 2026, Figure 3), and abilities by the two models."""
    rows, rho = look.subjects, look.rho.iloc[0]
    with figure_style():
        fig = Figure(figsize=(8.0, 3.7), layout="constrained")
        left, right = fig.subplots(1, 2)
        left.plot(rows["theta_lart"], rows["tau"], "o", ms=4, color=ACCENT, mec=INK, mew=0.4)
        left.set_xlabel("ability θ by LaRT")
        left.set_ylabel("speed τ (above: shorter answers)")
        interval = f"{rho['low']:.2f} to {rho['high']:.2f}"
        left.set_title(f"ρ = {rho['rho']:.2f} (90%: {interval})", fontsize=9)
        right.axline((0, 0), slope=1, color=SOFT, lw=0.8, ls="--")
        right.plot(rows["theta_irt"], rows["theta_lart"], "o", ms=4, color=ACCENT, mec=INK, mew=0.4)
        right.set_xlabel("ability θ by probit IRT")
        right.set_ylabel("ability θ by LaRT")
        for ax in (left, right):
            ax.grid(**_GRID)
    return fig


def plot_prediction(prediction: pd.DataFrame) -> Figure:
    """Draw how much less LaRT is off than IRT, on items left out."""
    shown = [name for name in PREDICTIONS if name != "irt"]
    splits = list(dict.fromkeys(prediction["split"]))
    with figure_style():
        fig = Figure(figsize=(8.6, 1.4 + 0.45 * len(shown) * len(splits)), layout="constrained")
        axes = fig.subplots(1, 2, sharey=True)
        for ax, (measure, label) in zip(axes, _MEASURES.items(), strict=True):
            own = prediction[prediction["measure"] == measure].set_index(["split", "method"])
            ticks = []
            for y, (split, name) in enumerate((s, m) for s in splits for m in shown):
                row, irt = own.loc[(split, name)], own.loc[(split, "irt"), "value"]
                ax.hlines(y, row["low"], row["high"], color=INK, lw=1.4)
                ax.plot(row["gain"], y, "s", color=ACCENT, mec=INK, ms=6)
                ticks.append(f"{PREDICTIONS[name]}\n({split})")
            ax.axvline(0, color=INK, lw=0.8, ls="--")
            ax.set_title(f"{label}; IRT about {irt:.2f}", fontsize=9)
            ax.set_xlabel("IRT less LaRT")
            ax.tick_params(axis="x", labelsize=7)
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.grid(axis="x", **_GRID)
        axes[0].set_yticks(range(len(ticks)), ticks, fontsize=8)
        axes[0].set_ylim(len(ticks) - 0.4, -0.6)
    return fig


def plot_efficiency(items: pd.DataFrame, subjects: pd.DataFrame) -> Figure:
    """Draw how few items and how few subjects will do (Xu et al., 2026, Figure 9 and Table 2)."""
    panels = (
        (items, "n_items", "distance", "θ: distance from all items"),
        (items, "n_items", "rho", "θ: 1 - Spearman with all items"),
        (subjects, "n_subjects", "distance_a", "a: distance from all subjects"),
        (subjects, "n_subjects", "distance_d", "d: distance from all subjects"),
    )
    with figure_style():
        fig = Figure(figsize=(9.6, 3.2), layout="constrained")
        axes = fig.subplots(1, 4)
        for ax, (table, x, y, title) in zip(axes, panels, strict=True):
            _draw_lines(ax, table, x, y)
            ax.set_title(title, fontsize=8)
            ax.set_xlabel("items" if x == "n_items" else "subjects", fontsize=8)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return fig


def _draw_lines(ax: Axes, table: pd.DataFrame, x: str, y: str) -> None:
    for name, style in _LINES.items():
        own = table[table["method"] == name]
        values = 1 - own[y] if y == "rho" else own[y]
        ax.plot(own[x], values, ms=4, lw=1.2, **style)
    if x == "n_items":
        ax.set_xscale("log")
        ticks = [n for n in (10, 20, 50, 100, 200, 400) if n <= table[x].max()]
        ax.set_xticks(ticks, [f"{n}" for n in ticks])
        ax.minorticks_off()
    ax.set_ylim(0, None)
    ax.tick_params(labelsize=7)
    ax.grid(**_GRID)


def plot_criterion(outside: pd.DataFrame, criterion: pd.DataFrame) -> Figure:
    """Draw the criterion against abilities by both models."""
    pearson = criterion[criterion["coefficient"] == "Pearson"].set_index("method")
    with figure_style():
        fig = Figure(figsize=(7.6, 3.6), layout="constrained")
        axes = fig.subplots(1, 2, sharey=True)
        for ax, name in zip(axes, ("irt", "lart"), strict=True):
            ax.plot(outside[f"theta_{name}"], outside["criterion"], "o", ms=3.5, color=ACCENT,
                    mec=INK, mew=0.4)  # fmt: skip
            row = pearson.loc[name]
            interval = f"{row['low']:.3f} to {row['high']:.3f}"
            ax.set_title(
                f"{_LINES[name]['label']}: r = {row['value']:.3f} ({interval})", fontsize=9
            )
            ax.set_xlabel("ability θ")
            ax.grid(**_GRID)
        axes[0].set_ylabel("criterion")
    return fig

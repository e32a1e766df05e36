"""Figures of the cBMM study's simulations, readable in black and white."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.cbmm_conditions import FACTORS, base_values
from bayesirt.studies.cbmm_methods import POINT_METHODS, POSTERIORS
from bayesirt.studies.cbmm_tables import MEASURES

_LABELS = {
    "rho_theta": "Spearman of θ",
    "rho_a": "Spearman of a",
    "rmse_d": "RMSE of d",
    "eta_error": "relative error of η",
    "hellinger": "Hellinger distance",
    "seconds": "seconds",
}
_STYLES: dict[str, dict[str, Any]] = {
    "mm": {"color": ACCENT, "marker": "o", "ls": "-"},
    "newton": {"color": INK, "marker": "s", "ls": "-", "mfc": "white"},
    "joint_map": {"color": SOFT, "marker": "^", "ls": "--"},
    "mml": {"color": INK, "marker": "x", "ls": ":"},
}
_ENGINES: dict[str, dict[str, Any]] = {
    name: {"color": color, "marker": mark, "mfc": fill}
    for name, (color, mark, fill) in zip(
        POSTERIORS,
        ((ACCENT, "o", ACCENT), (ACCENT, "o", "white"), (INK, "D", INK), (INK, "D", "white")),
        strict=True,
    )
}
_SHOWN_BOUND = 0.1
_SAME = 1e-9
_WIDE = 20.0
_APART = 0.004
"""Shift of one rule's points from the next one's, so that neither hides the other."""

_GRID: dict[str, Any] = {"color": "#e4e4e4", "lw": 0.6}


def plot_recovery(recovery: pd.DataFrame, factors: Sequence[str], size: tuple[int, int]) -> Figure:
    """Draw each measure over each factor (Qu et al., 2026, Figures A.1 to A.7)."""
    base = base_values(*size)
    with figure_style():
        fig = Figure(figsize=(1.4 + 1.9 * max(len(factors), 3), 9.6), layout="constrained")
        axes = fig.subplots(len(MEASURES), len(factors), sharex="col", sharey="row", squeeze=False)
        for column, factor in enumerate(factors):
            rows = recovery[recovery["factor"].isin([factor, "base"])].copy()
            rows.loc[rows["factor"] == "base", "value"] = base[factor]
            for ax, measure in zip(axes[:, column], MEASURES, strict=True):
                _draw_measure(ax, rows, measure)
            if factor in ("items", "subjects"):
                _log_sizes(axes[-1, column], sorted(rows["value"].unique()))
            axes[-1, column].set_xlabel(FACTORS[factor], fontsize=8)
        for ax, measure in zip(axes[:, 0], MEASURES, strict=True):
            ax.set_ylabel(_LABELS[measure], fontsize=8)
            if not measure.startswith("rho"):
                _log_values(ax)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=min(4, 2 * len(factors)),
                   frameon=False, fontsize=8)  # fmt: skip
    return fig


def _draw_measure(ax: Axes, rows: pd.DataFrame, measure: str) -> None:
    for name, style in _STYLES.items():
        own = rows[rows["method"] == name].sort_values("value")
        if len(own):
            ax.plot(own["value"], own[measure], label=POINT_METHODS[name], ms=4, lw=1, **style)
    ax.grid(**_GRID)
    ax.tick_params(labelsize=7)


def _log_values(ax: Axes) -> None:
    """Make a shared y axis logarithmic, with enough ticks where it spans little."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    steps = (1.0,) if high > _WIDE * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    ax.yaxis.set_major_locator(LogLocator(subs=steps))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(_plain))


def _plain(value: float, _place: int | None) -> str:
    return f"{value:g}"


def _log_sizes(ax: Axes, sizes: Sequence[float]) -> None:
    ax.set_xscale("log")
    ax.set_xticks(sizes)
    ax.xaxis.set_major_formatter(FuncFormatter(_plain))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", labelrotation=90)


def plot_redundancy(redundancy: pd.DataFrame) -> Figure:
    """Draw false share and recall of redundant items over the sparsity of a.

    Left: share of the declared items that do discriminate, with two standard errors, and the bound
    q = 10% of the posterior's lists. Right: share of the redundant items that are found.
    """
    with figure_style():
        fig = Figure(figsize=(7.6, 3.9), layout="constrained")
        left, right = fig.subplots(1, 2, sharex=True)
        shown = redundancy[[_rule_style(row) is not None for _, row in redundancy.iterrows()]]
        for place, (rule, own) in enumerate(shown.groupby("rule", sort=False)):
            style, x = _rule_style(own.iloc[0]) or {}, own["sparsity"] + _APART * place
            spread = 2 * own["false_share_se"].fillna(0)
            left.errorbar(x, own["false_share"], capsize=2, ms=5, lw=1, label=rule, **style,
                          yerr=[np.minimum(spread, own["false_share"]), spread])  # fmt: skip
            right.plot(x, own["recall"], ms=5, lw=1, **style)
        left.axhline(_SHOWN_BOUND, color=INK, ls="--", lw=1, label=f"bound q = {_SHOWN_BOUND:g}")
        left.set_ylabel("false share of the declared items")
        right.set_ylabel("share of the redundant items found")
        left.set_ylim(-0.03, None)
        right.set_ylim(-0.03, 1.03)
        for ax in (left, right):
            ax.set_xlabel("share of items with a = 0")
            ax.grid(**_GRID)
        fig.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=7)
    return fig


def _rule_style(row: pd.Series) -> dict[str, Any] | None:
    """Return how a rule is drawn; None for the rules that would only crowd the figure."""
    if row["method"] in _ENGINES:
        return {"ls": "-", **_ENGINES[row["method"]]} if row["q"] == _SHOWN_BOUND else None
    if row["method"] == "mm":
        return {"color": SOFT, "ls": ":", "marker": "x" if "= 0" in row["rule"] else "+"}
    return None


def plot_stability(starts: pd.DataFrame) -> Figure:
    """Draw how far apart fits from random starts are (Qu et al., 2026, Tables A.1 to A.3)."""
    with figure_style():
        fig = Figure(figsize=(7.6, 3.2), layout="constrained")
        axes = fig.subplots(1, 3, sharex=True, sharey=True)
        for ax, (name, label) in zip(axes, (("theta", "θ"), ("a", "a"), ("d", "d")), strict=True):
            for method, shift in (("mm", -0.15), ("newton", 0.15)):
                own = starts[starts["method"] == method]
                style = _STYLES[method] | {"ls": ""}
                apart = np.maximum(1 - own[f"rho_{name}"], _SAME)
                ax.plot(own["variance_two"] + shift, apart, ms=4, alpha=0.7, mew=0.6,
                        label=POINT_METHODS[method], **style)  # fmt: skip
            ax.set_yscale("log")
            ax.set_title(label, fontsize=9)
            ax.set_xticks(sorted(starts["variance_two"].unique()))
            ax.grid(**_GRID)
        axes[0].set_ylabel("1 - Spearman of two fits (floor 1e-9)")
        axes[1].set_xlabel("variance of the start (the larger of the two)")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return fig

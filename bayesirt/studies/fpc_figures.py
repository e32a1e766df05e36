"""Figures of the FPC study; their captions are read off the tables."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.figures import (
    draw_lines,
    legend_above,
    log_plain,
    new_figure,
    study_style,
)
from bayesirt.studies.fpc_claims import RULE_WORDS
from bayesirt.studies.fpc_tasks import METHODS

Styles = dict[str, dict[str, Any]]

_LINES: Styles = {
    "fixed": {"color": ACCENT, "ls": "-", "marker": "o"},
    "fixed_gp_irt": {"color": ACCENT, "ls": ":", "marker": "s"},
    "concurrent": {"color": INK, "ls": "--", "marker": "^"},
    "random": {"color": SOFT, "ls": "-", "marker": "v"},
}
_RULES = {
    "clusters": (ACCENT, "o"),
    "random": (SOFT, "v"),
    "discrimination": ("white", "s"),
    "design": (INK, "D"),
    "information": ("white", "^"),
}
_SPLITS: Styles = {
    "random": {"color": ACCENT, "ls": "-", "marker": "o"},
    "abler": {"color": INK, "ls": "--", "marker": "s"},
    "families": {"color": INK, "ls": ":", "marker": "^"},
}
_SPLIT_LABELS = {
    "random": "like the reference",
    "abler": "abler than the reference",
    "families": "of other families",
}
_CAPTION: dict[str, Any] = {"fontsize": 8, "loc": "left"}
_COLUMNS = 2


@study_style()
def plot_along(along: pd.DataFrame, trends: pd.DataFrame) -> Figure:
    """Draw the error at each step of the chain, a panel for each number of anchors."""
    numbers = list(along["anchors"].unique())
    slopes = trends[trends["method"] == "fixed"].set_index("anchors")
    n_columns = min(len(numbers), _COLUMNS)
    n_rows = -(-len(numbers) // n_columns)
    fig, axes = new_figure(3.9 * n_columns, 0.8 + 2.3 * n_rows, n_rows, n_columns, sharex=True)
    beside = 0.01 * (along["step"].max() - along["step"].min())
    shift = along["method"].map({method: k * beside for k, method in enumerate(_LINES)})
    shifted = along.assign(step=along["step"] + shift)
    for ax, anchors in zip(axes.flat, numbers, strict=False):
        own = shifted[shifted["anchors"] == anchors]
        draw_lines(ax, own, "step", "mae", _LINES, METHODS, se="mae_se")
        ax.grid(visible=False, axis="x")
        row = slopes.loc[anchors]
        change, error = (row["steps"] * row[name] for name in ("slope", "slope_se"))
        caption = f"{anchors} anchors: FPC {change:+.2f} ± {error:.2f} from first to last"
        ax.set_title(caption, **_CAPTION)
        ax.set_ylim(0, None)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.flat[len(numbers) :]:
        ax.set_axis_off()
    fig.supxlabel("step of the chain")
    fig.supylabel("MAE, points of accuracy")
    legend_above(fig, axes[0, 0], 4)
    return fig


@study_style()
def plot_rules(rules: pd.DataFrame) -> Figure:
    """Draw the error by the rule that chooses anchors, against their number."""
    own = rules[rules["method"] == "fixed"]
    numbers = list(own["anchors"].unique())
    fig, axes = new_figure(6.4, 1.2 + 1.1 * len(numbers), len(numbers))
    for ax, anchors in zip(axes.flat, numbers, strict=True):
        found = own[own["anchors"] == anchors].sort_values("mae", ascending=False)
        names = found["rule"].map(RULE_WORDS)
        error = 2 * found["mae_se"].fillna(0)
        ax.errorbar(found["mae"], names, xerr=error, fmt="none", ecolor=INK, lw=1)
        for row in found.itertuples():
            color, mark = _RULES[row.rule]
            ax.plot(row.mae, RULE_WORDS[row.rule], mark, color=color, mec=INK, ms=6)
        ax.set_title(f"{anchors} anchors: least off with {names.iloc[-1]}", **_CAPTION)
        ax.grid(visible=False, axis="y")
        ax.set_ylim(-0.6, len(found) - 0.4)
    fig.supxlabel("MAE of FPC, points of accuracy")
    return fig


@study_style()
def plot_references(references: pd.DataFrame) -> Figure:
    """Draw the error against the number of reference subjects."""
    ordered = references.sort_values("n_calibrating")
    own = ordered[ordered["method"] == "fixed"]
    fig, axes = new_figure(5.4, 3.2)
    ax, x = axes[0, 0], "n_calibrating"
    draw_lines(ax, ordered, x, "mae", _LINES, METHODS, se="mae_se")
    first, last = (f"{row['mae']:.2f} with {row[x]:.0f}" for _, row in own.iloc[[0, -1]].iterrows())
    ax.set_title(f"{own['anchors'].iloc[0]} anchors: FPC is off by {first} and {last}", **_CAPTION)
    log_plain(ax, own[x])
    ax.grid(visible=False, axis="x")
    ax.set_ylim(0, None)
    ax.set(xlabel="reference subjects", ylabel="MAE, points of accuracy")
    ax.legend()
    return fig


@study_style()
def plot_coverage(splits: pd.DataFrame) -> Figure:
    """Draw coverage and error by who is predicted, against the number of anchors."""
    fixed, random = (splits[splits["method"] == name] for name in ("fixed", "random"))
    faint = {name: style | {"color": SOFT} for name, style in _SPLITS.items()}
    fig, axes = new_figure(7.8, 3.4, 1, 2)
    left, right = axes[0]
    draw_lines(left, fixed, "anchors", "coverage", _SPLITS, _SPLIT_LABELS, by="split")
    draw_lines(right, fixed, "anchors", "mae", _SPLITS, by="split")
    draw_lines(right, random, "anchors", "mae", faint, by="split")
    left.axhline(LEVEL, color=SOFT, lw=1)
    lowest = fixed["coverage"].min()
    left.set_title(f"{LEVEL:.0%} intervals hold {lowest:.0%} at the least", **_CAPTION)
    left.set_ylim(min(0.6, lowest - 0.05), 1)
    right.set_title("MAE of FPC (dark) and random sampling (faint)", **_CAPTION)
    right.set_ylim(0, None)
    for ax in (left, right):
        log_plain(ax, fixed["anchors"])
        ax.grid(visible=False, axis="x")
    left.set_ylabel("share of the intervals")
    right.set_ylabel("points of accuracy")
    fig.supxlabel("anchors of each benchmark")
    legend_above(fig, left, 3, title="subjects", title_fontsize=8)
    return fig

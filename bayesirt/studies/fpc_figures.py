"""Figures of the FPC study, readable in black and white; their captions are read off the tables."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator, ScalarFormatter

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.fpc_tasks import METHODS
from bayesirt.studies.fpc_text import RULE_WORDS

_LINES = {
    "fixed": (ACCENT, "-", "o"),
    "fixed_gp_irt": (ACCENT, ":", "s"),
    "concurrent": (INK, "--", "^"),
    "random": (SOFT, "-", "v"),
}
_RULES = {
    "clusters": (ACCENT, "o"),
    "random": (SOFT, "v"),
    "discrimination": ("white", "s"),
    "design": (INK, "D"),
    "information": ("white", "^"),
}
_SPLITS = {"random": ("like the reference", ACCENT, "-", "o"),
           "abler": ("abler than the reference", INK, "--", "s"),
           "families": ("of other families", INK, ":", "^")}  # fmt: skip
_GRID = "#e4e4e4"
_COLUMNS = 2


def plot_along(along: pd.DataFrame, trends: pd.DataFrame) -> Figure:
    """Draw the error at each step of the chain, a panel for each number of anchors."""
    numbers = list(along["anchors"].unique())
    slopes = trends[trends["method"] == "fixed"].set_index("anchors")
    n_columns = min(len(numbers), _COLUMNS)
    n_rows = -(-len(numbers) // n_columns)
    with figure_style():
        fig = Figure(figsize=(3.9 * n_columns, 0.8 + 2.3 * n_rows), layout="constrained")
        axes = fig.subplots(n_rows, n_columns, sharex=True, squeeze=False).ravel()
        for ax, anchors in zip(axes, numbers, strict=False):
            own = along[along["anchors"] == anchors]
            beside = 0.01 * (along["step"].max() - along["step"].min())
            for k, (method, style) in enumerate(_LINES.items()):
                line = own[own["method"] == method]
                _draw(ax, line.assign(step=line["step"] + k * beside), "step", method, style)
            row = slopes.loc[anchors]
            change, error = (row["steps"] * row[name] for name in ("slope", "slope_se"))
            ax.set_title(
                f"{anchors} anchors: FPC {change:+.2f} ± {error:.2f} from first to last",
                fontsize=8,
                loc="left",
            )
            ax.set_ylim(0, None)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        for ax in axes[len(numbers) :]:
            ax.set_axis_off()
        fig.supxlabel("step of the chain", fontsize=9)
        fig.supylabel("MAE, points of accuracy", fontsize=9)
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4,
                   frameon=False, fontsize=8)  # fmt: skip
    return fig


def plot_rules(rules: pd.DataFrame) -> Figure:
    """Draw the error by the rule that chooses anchors, against their number."""
    own = rules[rules["method"] == "fixed"]
    numbers = list(own["anchors"].unique())
    with figure_style():
        fig = Figure(figsize=(6.4, 1.2 + 1.1 * len(numbers)), layout="constrained")
        axes = fig.subplots(len(numbers), 1, squeeze=False).ravel()
        for ax, anchors in zip(axes, numbers, strict=True):
            found = own[own["anchors"] == anchors].sort_values("mae", ascending=False)
            error = 2 * found["mae_se"].fillna(0)
            names = found["rule"].map(RULE_WORDS)
            ax.errorbar(found["mae"], names, xerr=error, fmt="none", ecolor=INK, lw=1)
            for row in found.itertuples():
                color, mark = _RULES[row.rule]
                ax.plot(row.mae, RULE_WORDS[row.rule], mark, color=color, mec=INK, ms=6)
            best = names.iloc[-1]
            ax.set_title(f"{anchors} anchors: least off with {best}", fontsize=8, loc="left")
            ax.grid(axis="x", color=_GRID, lw=0.6)
            ax.set_ylim(-0.6, len(found) - 0.4)
        fig.supxlabel("MAE of FPC, points of accuracy", fontsize=9)
    return fig


def plot_references(references: pd.DataFrame) -> Figure:
    """Draw the error against the number of reference subjects."""
    ordered = references.sort_values("n_calibrating")
    own = ordered[ordered["method"] == "fixed"]
    with figure_style():
        fig = Figure(figsize=(5.4, 3.2), layout="constrained")
        ax = fig.subplots()
        for method, style in _LINES.items():
            _draw(ax, ordered[ordered["method"] == method], "n_calibrating", method, style)
        ax.set_title(
            f"{own['anchors'].iloc[0]} anchors: FPC is off by {own['mae'].iloc[0]:.2f} with "
            f"{own['n_calibrating'].iloc[0]:.0f} and {own['mae'].iloc[-1]:.2f} with "
            f"{own['n_calibrating'].iloc[-1]:.0f}",
            fontsize=8,
            loc="left",
        )
        _log_axis(ax, own["n_calibrating"])
        ax.set_ylim(0, None)
        ax.set_xlabel("reference subjects")
        ax.set_ylabel("MAE, points of accuracy")
        ax.legend(frameon=False, fontsize=8)
    return fig


def plot_coverage(splits: pd.DataFrame) -> Figure:
    """Draw coverage and error by who is predicted, against the number of anchors."""
    fixed, random = (splits[splits["method"] == name] for name in ("fixed", "random"))
    with figure_style():
        fig = Figure(figsize=(7.8, 3.4), layout="constrained")
        left, right = fig.subplots(1, 2)
        for split, (label, color, line, mark) in _SPLITS.items():
            own, other = (x[x["split"] == split] for x in (fixed, random))
            if own.empty:
                continue
            style = {"ls": line, "marker": mark, "ms": 4, "lw": 1.2}
            left.plot(own["anchors"], own["coverage"], color=color, label=label, **style)
            right.plot(own["anchors"], own["mae"], color=color, **style)
            right.plot(other["anchors"], other["mae"], color=SOFT, **style)
        left.axhline(LEVEL, color=SOFT, lw=1)
        lowest = fixed.loc[fixed["coverage"].idxmin()]
        left.set_title(
            f"{LEVEL:.0%} intervals hold {lowest['coverage']:.0%} at the least", fontsize=8,
            loc="left",
        )  # fmt: skip
        left.set_ylim(min(0.6, lowest["coverage"] - 0.05), 1)
        right.set_title("MAE of FPC (dark) and random sampling (faint)", fontsize=8, loc="left")
        right.set_ylim(0, None)
        for ax in (left, right):
            _log_axis(ax, fixed["anchors"])
            ax.grid(axis="y", color=_GRID, lw=0.6)
        left.set_ylabel("share of the intervals")
        right.set_ylabel("points of accuracy")
        fig.supxlabel("anchors of each benchmark", fontsize=9)
        fig.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3,
                   frameon=False, fontsize=8, title="subjects", title_fontsize=8)  # fmt: skip
    return fig


def _draw(
    ax: Axes, own: pd.DataFrame, column: str, method: str, style: tuple[str, str, str]
) -> None:
    if own.empty:
        return
    color, line, mark = style
    error = 2 * own["mae_se"].fillna(0)
    ax.errorbar(own[column], own["mae"], yerr=error, color=color, ls=line, marker=mark, ms=4,
                lw=1.2, elinewidth=0.8, label=METHODS[method])  # fmt: skip
    ax.grid(axis="y", color=_GRID, lw=0.6)


def _log_axis(ax: Axes, values: pd.Series) -> None:
    ax.set_xscale("log")
    ax.set_xticks(sorted(values.unique()))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())

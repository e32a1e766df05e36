"""Figures of the sparse study."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.figures import legend_above, name_rows, new_figure, study_style
from bayesirt.studies.sparse_conditions import DOMAINS, MASKS
from bayesirt.studies.sparse_tables import ERROR_NAMES

_CONTOURS = (0.6, 0.8, 0.9, 0.95, 0.99)
_GAINS = (0.01, 0.05, 0.1, 0.2, 0.4)
_BARS = {"mec": INK, "ecolor": SOFT, "capsize": 2, "lw": 1}
_MARKS = {"domains": "D", "biased": "o", "random": "s"}


@study_style()
def plot_domains(domains: pd.DataFrame) -> Figure:
    """Draw ρ of the simple average and of IRT in each domain beside the paper's."""
    fig, axes = new_figure(7.2, 3.2)
    ax, rows = axes[0, 0], np.arange(len(domains))
    for column, label, mark, fill, shift in (
        ("rho_average", "simple average, here", "o", INK, -0.24),
        ("printed_rho_average", "simple average, paper", "o", "white", -0.08),
        ("rho_irt", "IRT, here", "s", INK, 0.08),
        ("printed_rho_irt", "IRT, paper", "s", "white", 0.24),
    ):
        ax.errorbar(
            domains[column], rows + shift, xerr=domains[f"{column}_sd"], fmt=mark, ms=6,
            mfc=fill, label=label, **_BARS,
        )  # fmt: skip
    names = zip(domains["domain"], domains["S"] * domains["D"], strict=True)
    name_rows(ax, [f"{DOMAINS[name]}\nS x D = {product:.2f}" for name, product in names])
    ax.set_xlabel("Spearman's rho with the true ranking, over seeds")
    legend_above(fig, ax, 4)
    return fig


@study_style()
def plot_failure_surface(grid: pd.DataFrame) -> Figure:
    """Draw ρ over sparsity and difficulty gap: the failure surface of Kang (2026), Figure 1."""
    biased, random = (grid[grid["mask"] == mask] for mask in MASKS)
    gain = biased.assign(gain=biased["rho_irt"] - biased["rho_average"])
    panels = (
        (f"A  Average: {MASKS['biased']}", biased, "rho_average", _CONTOURS),
        (f"B  IRT on these: {biased['rho_irt'].min():.3f} at least", biased, "rho_irt", _CONTOURS),
        (f"C  Average: {MASKS['random']}", random, "rho_average", _CONTOURS),
        ("D  What IRT gains over the average of A", gain, "gain", _GAINS),
    )
    fig, axes = new_figure(8.0, 6.2, 2, 2, sharex=True, sharey=True)
    for ax, (title, table, column, levels) in zip(axes.flat, panels, strict=True):
        _draw_surface(ax, table, column, levels)
        ax.set_title(title, fontsize=8, loc="left")
    fig.supxlabel("sparsity S")
    fig.supylabel("difficulty gap D")
    label = "1 - rho (A, B, C); gain in rho (D)"
    fig.colorbar(axes[0, 0].collections[0], ax=axes, label=label, shrink=0.6)
    return fig


@study_style()
def plot_warning(replications: pd.DataFrame, warning: pd.DataFrame) -> Figure:
    """Draw whether the posterior warns of the average's failure, and whether its ranks hold."""
    drawn = replications[replications["subjects"].notna()]
    design = drawn["name"].where(drawn["name"].isin(MASKS), "domains")
    middle = (drawn["average_low"] + drawn["average_high"]) / 2
    fig, axes = new_figure(7.6, 3.7, 1, 2)
    left, right = axes[0]
    for name, mark in _MARKS.items():
        own, style = design == name, {"ms": 3, "mfc": "none", "mec": INK, "mew": 0.5}
        left.plot(drawn["rho_average"][own], middle[own], mark, label=name, **style)
    lowest = min(0.0, float(drawn["rho_average"].min()))
    left.plot([lowest, 1], [lowest, 1], color=ACCENT, lw=1)
    left.set_xlabel("rho of the simple average with the truth")
    left.set_ylabel(f"middle of its {LEVEL:.0%} interval by the posterior")
    left.legend()
    _draw_coverage(right, warning)
    return fig


def _draw_surface(ax: Axes, table: pd.DataFrame, column: str, levels: tuple[float, ...]) -> None:
    """Draw a shade a cell, darker where ρ is lower, or the gain higher, and contours of both."""
    ax.grid(visible=False)
    square = table.pivot(index="D", columns="S", values=column)
    x, y, z = square.columns.to_numpy(), square.index.to_numpy(), square.to_numpy()
    shade = z if column == "gain" else 1 - z
    mesh = ax.pcolormesh(x, y, shade, cmap="Greys", norm=PowerNorm(0.5, 0, 1), shading="nearest")
    mesh.set_edgecolor("face")
    crossed = [level for level in levels if z.min() < level < z.max()]
    if crossed:
        lines = ax.contour(x, y, z, levels=crossed, colors=ACCENT, linewidths=1)
        ax.clabel(lines, fontsize=7, fmt="%g")


def _draw_coverage(ax: Axes, warning: pd.DataFrame) -> None:
    designs = [name for name in _MARKS if (warning["design"] == name).any()]
    for measure, fill in (("rank", INK), ("ability", "white")):
        for place, name in enumerate(designs):
            own = warning[warning["design"] == name]
            x = np.array([ERROR_NAMES.index(size) for size in own["average_error"]])
            shift = 0.2 * (place - (len(designs) - 1) / 2) + (0.06 if fill == "white" else 0)
            ax.errorbar(
                x + shift, own[f"{measure}_coverage"],
                yerr=2 * own[f"{measure}_coverage_se"].fillna(0), fmt=_MARKS[name], ms=5, mfc=fill,
                mec=INK, ecolor=SOFT, lw=1, label=f"{measure}, {name}",
            )  # fmt: skip
    ax.axhline(LEVEL, color=ACCENT, lw=1)
    ax.set_xticks(range(len(ERROR_NAMES)), ERROR_NAMES)
    ax.set_xlabel("ranking error of the simple average")
    ax.set_ylabel(f"coverage of {LEVEL:.0%} intervals")
    ax.set_ylim(None, 1.02)
    ax.legend(fontsize=7)

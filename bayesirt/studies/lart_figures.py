"""Figures of the LaRT study's simulations, readable in black and white."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.lart_measures import ANSWERS, LENGTHS
from bayesirt.studies.lart_tables import PLACE
from bayesirt.studies.lart_tasks import DRAWN, SAEM_METHODS

SYMBOLS = {
    "theta": "θ", "a": "a", "d": "d", "phi": "φ", "omega": "ω", "lam": "λ", "rho": "ρ",
}  # fmt: skip
INTERVAL_LABELS = {
    ("irt", "asymptotic"): "IRT, closed form",
    ("lart", "asymptotic"): "LaRT, equation 10",
    ("lart", "finite"): "LaRT, finite length",
    ("lart", "given_items"): "LaRT, posterior sd given items",
    (DRAWN, "posterior"): "LaRT, full posterior",
}

_GRID: dict[str, Any] = {"color": "#e4e4e4", "lw": 0.6}
_BOX_WIDTH = 0.3
_FILLS = {"irt": "white", "lart": ACCENT}
_SAEM_FILLS = dict(zip(("lart", *SAEM_METHODS), (INK, ACCENT, "white"), strict=True))
_SAEM_LABELS = {"lart": "EM", **SAEM_METHODS}
_LEAST_GAP = 1e-3


def plot_recovery(replications: pd.DataFrame) -> Figure:
    """Draw the errors of LaRT and IRT by the number of subjects (Xu et al., 2026, Figures 1, 2)."""
    rows = _papers(replications)
    with figure_style():
        fig = Figure(figsize=(8.6, 4.8), layout="constrained")
        axes = fig.subplots(2, 4)
        panels = [*axes[0, :3], *axes[1]]
        for ax, name in zip(panels, (*ANSWERS, *LENGTHS), strict=True):
            methods = ("irt", "lart") if name in ANSWERS else ("lart",)
            _draw_boxes(ax, rows, f"rmse_{name}", {m: _FILLS[m] for m in methods})
            kind = "absolute error" if name == "rho" else "RMSE"
            ax.set_title(f"{kind} of {SYMBOLS[name]}", fontsize=9)
            ax.set_ylim(0, None)
        axes[0, 3].axis("off")
        axes[0, 3].legend(handles=_patches({"probit IRT": "white", "LaRT": ACCENT}), loc="center",
                          frameon=False)  # fmt: skip
        fig.supxlabel("subjects", fontsize=9)
    return fig


def plot_saem(replications: pd.DataFrame) -> Figure:
    """Draw SAEM from two starts beside EM (Xu et al., 2026, Figure 10)."""
    rows = _papers(replications)
    keys = [*PLACE, "replication"]
    saem = rows[rows["method"].isin(list(SAEM_METHODS))]
    tried = pd.MultiIndex.from_frame(saem[keys])
    rows = rows[pd.MultiIndex.from_frame(rows[keys]).isin(tried)]
    em = rows[rows["method"] == "lart"].set_index(keys)["loss"]
    apart = rows["loss"].to_numpy() - em.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy()
    rows = rows.assign(gap=np.maximum(apart, _LEAST_GAP))
    with figure_style():
        fig = Figure(figsize=(9.2, 3.4), layout="constrained")
        axes = fig.subplots(1, 4)
        for ax, name in zip(axes, ANSWERS, strict=False):
            _draw_boxes(ax, rows, f"rmse_{name}", _SAEM_FILLS)
            ax.set_title(f"RMSE of {SYMBOLS[name]}", fontsize=9)
        own = {name: fill for name, fill in _SAEM_FILLS.items() if name != "lart"}
        _draw_boxes(axes[3], rows, "gap", own)
        axes[3].set_yscale("log")
        axes[3].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes[3].yaxis.set_major_formatter(FuncFormatter(_plain))
        axes[3].yaxis.set_minor_locator(NullLocator())
        axes[3].set_title("log likelihood below EM's", fontsize=9)
        _name_fills(fig, {_SAEM_LABELS[name]: fill for name, fill in _SAEM_FILLS.items()})
        fig.supxlabel("subjects", fontsize=9)
    return fig


def plot_coverage(coverage: pd.DataFrame) -> Figure:
    """Draw coverage and width of the abilities' 90% intervals."""
    conditions = list(coverage.groupby(PLACE, sort=False).groups)
    with figure_style():
        fig = Figure(figsize=(8.4, 0.9 + 1.15 * len(conditions)), layout="constrained")
        left, right = fig.subplots(1, 2, sharey=True)
        ticks: dict[float, str] = {}
        y = 0.0
        for place in conditions:
            own = coverage[(coverage[PLACE] == list(place)).all(axis=1)]
            left.text(0.0, y + 0.9, _condition_label(place), fontsize=8, weight="bold",
                      transform=left.get_yaxis_transform())  # fmt: skip
            y += 1.8
            for _, row in own.sort_values("method", key=_in_order).iterrows():
                _draw_interval(left, right, y, row, row["method"])
                ticks[y] = INTERVAL_LABELS[row["method"], row["interval"]]
                y += 1
        left.set_yticks(list(ticks), list(ticks.values()), fontsize=8)
        left.set_ylim(y - 0.3, 0.1)
        left.axvline(LEVEL, color=INK, ls="--", lw=1)
        left.set_xlabel("coverage of 90% intervals")
        right.set_xlabel("mean width")
        for ax in (left, right):
            ax.grid(axis="x", **_GRID)
    return fig


def _in_order(methods: pd.Series) -> pd.Series:
    order = list(dict.fromkeys(method for method, _ in INTERVAL_LABELS))
    return methods.map(order.index)


def _draw_interval(left: Axes, right: Axes, y: float, row: pd.Series, method: str) -> None:
    mark = {"irt": "s", "lart": "o"}.get(method, "D")
    color = SOFT if method == "irt" else ACCENT
    spread = 0.0 if np.isnan(row["coverage_se"]) else 2 * row["coverage_se"]
    left.errorbar(row["coverage"], y, xerr=spread, fmt=mark, ms=5, color=color, mec=INK, mew=0.6,
                  lw=1.2, capsize=2)  # fmt: skip
    right.plot(row["width"], y, mark, ms=5, color=color, mec=INK, mew=0.6)


def _plain(value: float, _place: int | None) -> str:
    return f"{value:g}"


def _condition_label(place: tuple[float, ...]) -> str:
    n, j, rho = place
    return f"{n:.0f} subjects, {j:.0f} items, ρ = {rho:g}"


def _papers(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the conditions of the most items: the short tests are another matter."""
    return replications[replications["n_items"] == replications["n_items"].max()]


def _draw_boxes(ax: Axes, rows: pd.DataFrame, column: str, fills: dict[str, str]) -> None:
    """Draw a box for each number of subjects and method."""
    sizes = sorted(rows["n_subjects"].unique())
    width = _BOX_WIDTH if len(fills) < 3 else 0.8 / len(fills)
    for place, (method, fill) in enumerate(fills.items()):
        shift = (place - (len(fills) - 1) / 2) * (width + 0.02)
        for k, n in enumerate(sizes):
            values = rows.loc[(rows["method"] == method) & (rows["n_subjects"] == n), column]
            line = {"color": INK, "lw": 0.8}
            ax.boxplot(values.dropna(), positions=[k + shift], widths=width, patch_artist=True,
                       boxprops={"facecolor": fill, "edgecolor": INK, "lw": 0.8},
                       medianprops={"color": "white" if fill in (INK, ACCENT) else INK, "lw": 1.4},
                       whiskerprops=line, capprops=line, manage_ticks=False,
                       flierprops={"marker": ".", "ms": 3, "mec": SOFT})  # fmt: skip
    ax.set_xticks(range(len(sizes)), [f"{n:g}" for n in sizes])
    ax.set_xlim(-0.6, len(sizes) - 0.4)
    ax.tick_params(labelsize=7)
    ax.grid(axis="y", **_GRID)


def _name_fills(fig: Figure, fills: dict[str, str]) -> None:
    fig.legend(handles=_patches(fills), loc="outside upper center", ncols=len(fills), frameon=False,
               fontsize=8)  # fmt: skip


def _patches(fills: dict[str, str]) -> list[Patch]:
    return [Patch(facecolor=fill, edgecolor=INK, label=name) for name, fill in fills.items()]

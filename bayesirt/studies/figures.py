"""Helpers for the figures of studies: panels, lines over a condition, dots, boxes.

Every figure is readable in black and white.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style

STYLES: tuple[dict[str, Any], ...] = (  # Line styles that can be told apart without colours.
    {"color": ACCENT, "ls": "-", "marker": "o"},
    {"color": INK, "ls": "--", "marker": "s", "mfc": "white"},
    {"color": SOFT, "ls": "-", "marker": "^"},
    {"color": INK, "ls": ":", "marker": "x"},
    {"color": ACCENT, "ls": "--", "marker": "D", "mfc": "white"},
    {"color": SOFT, "ls": ":", "marker": "v"},
)
POINT: dict[str, Any] = {"color": ACCENT, "mec": INK, "mew": 0.4}
_WIDE = 20.0  # Ratio of highest to lowest value from which powers of ten are enough ticks.


@contextmanager
def study_style() -> Iterator[None]:
    """Draw in the style of reports, with a grid and small text."""
    settings = {
        "axes.grid": True, "axes.axisbelow": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.6,
        "axes.titlesize": 9, "figure.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
        "legend.frameon": False, "legend.fontsize": 8,
    }  # fmt: skip
    with figure_style(), mpl.rc_context(settings):
        yield


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, *, x: str = "", **share: Any
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and its panels, shape (row, column), perhaps with a common x label."""
    fig = Figure(figsize=(width, height), layout="constrained")
    if x:
        fig.supxlabel(x)
    return fig, fig.subplots(rows, columns, squeeze=False, **share)


def draw_lines(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    names: Mapping[str, str],
    *,
    by: str = "method",
    se: str | None = None,
    ends: tuple[str, str] | None = None,
    **style: Any,
) -> None:
    """Draw a line for each name's rows, perhaps with bars of two standard errors or to `ends`."""
    for (name, label), own_style in zip(names.items(), cycle(STYLES), strict=False):
        rows = table[table[by] == name]
        if len(rows):
            bars: dict[str, Any] = {} if se is None else {"yerr": 2 * rows[se].fillna(0)}
            if ends is not None:
                bars["yerr"] = [rows[y] - rows[ends[0]], rows[ends[1]] - rows[y]]
            looks = {"ms": 4, "lw": 1.2, "elinewidth": 0.8, "label": label, **own_style}
            ax.errorbar(rows[x], rows[y], **{**looks, **bars, **style})


def draw_dots(
    ax: Axes,
    names: Sequence[str],
    values: Any,
    reach: Any = None,
    *,
    shift: float = 0.0,
    at: float | None = None,
    **style: Any,
) -> None:
    """Draw a named row for each value, the first on top, with bars and a line `at` a value."""
    looks = {"fmt": "o", "color": INK, "ms": 5, "lw": 1.2, "capsize": 2, **style}
    ax.errorbar(values, np.arange(len(names)) + shift, xerr=reach, **looks)
    ax.set_yticks(range(len(names)), list(names))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    if at is not None:
        ax.axvline(at, color=SOFT, lw=1, ls="--")


def draw_boxes(
    ax: Axes, table: pd.DataFrame, x: str, y: str, fills: Mapping[str, str], by: str = "method"
) -> None:
    """Draw a box for each value of x and each name, side by side in the fills of the names."""
    values = sorted(table[x].unique())
    width = min(0.3, 0.8 / len(fills))
    line = {"color": INK, "lw": 0.8}
    for position, (name, fill) in enumerate(fills.items()):
        groups = table[table[by] == name].groupby(x)[y]
        shift = (position - (len(fills) - 1) / 2) * (width + 0.02)
        ax.boxplot(
            [groups.get_group(value).dropna().to_numpy() for value in values],
            positions=np.arange(len(values)) + shift, widths=width, patch_artist=True,
            manage_ticks=False, whiskerprops=line, capprops=line,
            boxprops={"facecolor": fill, "edgecolor": INK, "lw": 0.8},
            medianprops={"color": INK if fill == "white" else "white", "lw": 1.4},
            flierprops={"marker": ".", "ms": 3, "mec": SOFT},
        )  # fmt: skip
    ax.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    ax.set_xlim(-0.6, len(values) - 0.4)
    ax.grid(visible=False, axis="x")


def legend_above(fig: Figure, ax: Axes, n_columns: int, **style: Any) -> None:
    """Put the legend of a panel above the figure."""
    handles = ax.get_legend_handles_labels()
    fig.legend(*handles, loc="outside upper center", ncols=n_columns, **style)


def patches(fills: Mapping[str, str]) -> list[Patch]:
    """Return legend handles for boxes."""
    return [Patch(facecolor=fill, edgecolor=INK, label=name) for name, fill in fills.items()]


def log_plain(ax: Axes, ticks: Sequence[float] | None = None) -> None:
    """Make the x axis logarithmic, with plain numbers, perhaps at these ticks only."""
    ax.set_xscale("log")
    if ticks is not None:
        ax.set_xticks(sorted(set(ticks)))
    _plain(ax.xaxis)


def log_values(ax: Axes) -> None:
    """Make the y axis logarithmic, with enough ticks for a short range."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    steps = (1.0,) if high > _WIDE * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    ax.yaxis.set_major_locator(LogLocator(subs=steps))
    _plain(ax.yaxis)


def _plain(axis: Axis) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())

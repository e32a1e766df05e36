"""Figures of an item bank: anchors among the items, and the history of scores.

Names are drawn literally, never parsed as mathematics.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator, PercentFormatter, ScalarFormatter
from numpy.typing import NDArray

from bayesirt.bank.item_bank import ItemBank
from bayesirt.names import one_line
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style

MOST_BENCHMARKS = 12
"""Most benchmarks that are drawn."""
MOST_SCORED = 40
"""Most subjects that are drawn: those scored last."""

_WIDTH, _COLUMNS = 7.2, 3
_FAINT = "#e4e4e4"
_LEAST_SLOPE = 0.05
"""Items with smaller slopes are drawn here, as the axis is logarithmic."""
_FARTHEST = 6.0
"""Difficulties beyond this, on the scale of abilities, are drawn at the edge."""
_SLOPE_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


def plot_bank_items(bank: ItemBank) -> Figure:
    """Draw each benchmark's items by difficulty and discrimination, with anchors marked.

    With several abilities these are the multidimensional discrimination |a| and difficulty
    -d / |a|. Difficulties beyond 6 are drawn at the edge.

    Reckase & McKinley 1991.
    """
    items, labels = bank.items, np.asarray(bank.benchmarks, object)
    slope = np.linalg.norm(items.a, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        difficulty = np.nan_to_num(-items.d / slope, posinf=_FARTHEST, neginf=-_FARTHEST)
    x = np.clip(difficulty, -_FARTHEST, _FARTHEST)
    y = np.maximum(slope, _LEAST_SLOPE)
    is_anchor = np.isin(np.asarray(items.names, object), bank.anchor_items)
    shown = bank.benchmark_names[:MOST_BENCHMARKS]
    with figure_style():
        fig, panels = _panels(shown, 2.1)
        for ax, name in zip(panels, shown, strict=True):
            in_benchmark = labels == name
            _draw_items(ax, x[in_benchmark], y[in_benchmark], is_anchor[in_benchmark])
        fig.supxlabel("difficulty, on the scale of abilities", fontsize=9)
        fig.supylabel("discrimination", fontsize=9)
        _explain(fig, {"anchor": _ANCHOR, "other item": _OTHER})
    return fig


def plot_score_history(bank: ItemBank) -> Figure:
    """Draw all scores in the order of scoring, with 90% intervals."""
    history = last_scores(bank)
    if history.empty:
        raise ValueError("no subject has been scored")
    order = list(dict.fromkeys(history["subject"]))[-MOST_SCORED:]
    shown = bank.benchmark_names[:MOST_BENCHMARKS]
    with figure_style():
        fig, panels = _panels(shown, 1.9, together=True)
        for b, (ax, name) in enumerate(zip(panels, shown, strict=True)):
            _draw_reference(ax, bank, b)
            rows = history[history["benchmark"] == name].set_index("subject").reindex(order)
            at = np.arange(1, len(order) + 1)
            ax.vlines(at, rows["low"], rows["high"], color=ACCENT, lw=1.4, zorder=3)
            ax.plot(at, rows["accuracy"], **_SCORED | {"ls": "", "zorder": 4})
            ax.set_xlim(0.3, len(order) + 0.7)
            ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            _name_subjects(ax, order)
        fig.supylabel("accuracy on the whole benchmark", fontsize=9)
        best, middle = "best reference subject", "middle half of them"
        _explain(fig, {"scored subject": _SCORED, best: _BEST, middle: _MIDDLE})
    return fig


def last_scores(bank: ItemBank) -> pd.DataFrame:
    """Return each subject's newest score on each benchmark.

    As `ItemBank.history`, in the order of the steps.
    """
    return bank.history.drop_duplicates(["subject", "benchmark"], keep="last")


_ANCHOR: dict[str, Any] = {
    "ls": "",
    "marker": "o",
    "color": ACCENT,
    "mec": "white",
    "mew": 0.4,
    "ms": 5,
}
_OTHER: dict[str, Any] = {
    "ls": "",
    "marker": "o",
    "color": SOFT,
    "alpha": 0.6,
    "mec": "none",
    "ms": 3.5,
}
_SCORED: dict[str, Any] = {
    "color": ACCENT,
    "lw": 1.4,
    "marker": "o",
    "mfc": INK,
    "mec": INK,
    "ms": 3,
}
_BEST: dict[str, Any] = {"color": INK, "lw": 0.9, "ls": "--"}
_MIDDLE: dict[str, Any] = {"color": _FAINT, "lw": 7}


def _panels(
    names: Sequence[str], height: float, *, together: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a titled panel for each name, all with the same axes."""
    columns = min(len(names), _COLUMNS)
    rows = -(-len(names) // columns)
    size = _WIDTH, 0.9 + height * rows * (1.6 if len(names) == 1 else 1)
    fig = Figure(figsize=size, layout="constrained")
    grid = fig.subplots(rows, columns, squeeze=False, sharex=not together, sharey=not together)
    panels = list(grid.ravel())
    for ax in panels[len(names) :]:
        ax.remove()
    for ax, name in zip(panels, names, strict=False):
        ax.set_title(one_line(name, 30), fontsize=9, loc="left")
        ax.set_axisbelow(True)
        ax.grid(color=_FAINT, lw=0.6)
        ax.xaxis.set_tick_params(labelbottom=True)
    return fig, panels[: len(names)]


def _draw_items(
    ax: Axes, x: NDArray[np.float64], y: NDArray[np.float64], is_anchor: NDArray[np.bool_]
) -> None:
    for mark, is_drawn in ((_OTHER, ~is_anchor), (_ANCHOR, is_anchor)):
        ax.plot(x[is_drawn], y[is_drawn], **mark)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_yticks([t for t in _SLOPE_TICKS if low <= t <= high])
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())


def _draw_reference(ax: Axes, bank: ItemBank, benchmark: int) -> None:
    """Draw the accuracies of the reference subjects that answered the whole benchmark."""
    subjects = bank.subjects
    accuracy = np.empty(0) if subjects is None else subjects.accuracy[:, benchmark]
    accuracy = accuracy[~np.isnan(accuracy)]
    if len(accuracy):
        low, high = np.quantile(accuracy, [0.25, 0.75])
        ax.axhspan(low, high, color=_FAINT, lw=0, zorder=0)
        ax.axhline(accuracy.max(), **_BEST)


def _name_subjects(ax: Axes, names: Sequence[str]) -> None:
    """Label subjects by name if they are few, else by number."""
    if len(names) > 12:
        ax.set_xlabel("in the order of scoring", fontsize=8)
        return
    labels = [one_line(name, 16) for name in names]
    ax.set_xticks(range(1, len(names) + 1), labels, rotation=90, fontsize=7)


def _explain(fig: Figure, marks: dict[str, dict[str, Any]]) -> None:
    fig.legend(
        [Line2D([], [], **mark) for mark in marks.values()],
        list(marks),
        loc="outside lower left",
        ncols=4,
        frameon=False,
        fontsize=8,
        handletextpad=0.5,
    )

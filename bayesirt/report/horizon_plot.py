"""The picture of time horizons: by rank, or against dates if they are known."""

import numpy as np
from matplotlib.axis import Axis
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from bayesirt.ranking.horizon import Horizons
from bayesirt.report.plots import ACCENT, INK, SOFT, name_points, one_below_the_other, one_panel

_MOST_SHOWN = 60
_TICKS = {
    1 / 60: "1 s", 1 / 6: "10 s", 1: "1 min", 10: "10 min", 60: "1 h", 480: "8 h",
    1440: "1 day", 10080: "1 week", 43800: "1 month", 525600: "1 year",
}  # fmt: skip


def plot_horizons(horizons: Horizons) -> Figure:
    """Draw each subject's horizon at 50% with its 90% interval."""
    table = horizons.summary
    dated = "date" in table and bool(table["date"].notna().any())
    return _by_date(horizons) if dated else _by_rank(horizons)


def _by_rank(horizons: Horizons) -> Figure:
    table = horizons.summary.head(_MOST_SHOWN)
    rows = np.arange(len(table))
    with one_panel(1.3 + 0.18 * len(table)) as (fig, ax):
        ax.hlines(rows, table["horizon_50_low"], table["horizon_50_high"], color=ACCENT, lw=2.4)
        ax.plot(table["horizon_50"], rows, "o", color=INK, ms=4, label="typical task, 50%")
        ax.plot(
            table["marginal_80"], rows, "o", color=SOFT, mfc="none", ms=4, label="all tasks, 80%"
        )
        one_below_the_other(ax, table["subject"])
        ax.set_xscale("log")
        ax.axvspan(horizons.shortest, horizons.longest, color=SOFT, alpha=0.1, lw=0)
        _label(ax.xaxis, ax.get_xlim())
        ax.set_xlabel("length of the task for a human (grey: lengths of these tasks)")
        fig.legend(loc="outside upper center", ncols=2, frameon=False)
    return fig


def _by_date(horizons: Horizons) -> Figure:
    table = horizons.summary[horizons.summary["date"].notna()]
    with one_panel(4.6) as (fig, ax):
        ax.vlines(
            table["date"], table["horizon_50_low"], table["horizon_50_high"], color=ACCENT, lw=1.6
        )
        ax.plot(table["date"], table["horizon_50"], "o", color=INK, ms=4)
        ax.set_yscale("log")
        _label(ax.yaxis, ax.get_ylim())
        at = table.assign(day=date2num(table["date"]))
        name_points(ax, at, "day", "horizon_50", "subject")
        ax.set_ylabel("length of a typical task solved half of the time")
    return fig


def _label(axis: Axis, bounds: tuple[float, float]) -> None:
    """Label a logarithmic axis with familiar times."""
    shown = {at: name for at, name in _TICKS.items() if bounds[0] <= at <= bounds[1]}
    axis.set_ticks([*shown], labels=[*shown.values()])
    axis.set_ticks([], minor=True)

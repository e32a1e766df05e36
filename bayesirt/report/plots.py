"""Figures of a ranking and its items, readable in black and white.

Names are drawn literally, never parsed as mathematics.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesirt.names import one_line
from bayesirt.ranking.subject_ranking import Ranking

_MOST_ROWS = 60
_MOST_NAMED = 12
_MOST_DRAWN = 2000
"""Points above which they are rasterised, to keep the file small."""
_NAME, _LETTER = 24, 4.5
"""Longest name of a point, and a letter's width in points, half its height."""
INK, SOFT, ACCENT = "#1a1a1a", "#9a9a9a", "#0b5394"
WIDTH = 7.2
"""Width in inches of pictures that fill a page."""


def plot_abilities(ranking: Ranking) -> Figure:
    """Draw each subject's ability with its 90% interval, best on top, with lines between tiers."""
    table = ranking.summary.head(_MOST_ROWS)
    with figure_style():
        fig, ax = draw_abilities(table, "subject", "o")
        rows, flagged = np.arange(len(table)), table["flag"] != ""
        ax.plot(table["ability"][flagged], rows[flagged], "o", color="white", mec=INK, ms=6)
        if not ranking.by_score:
            for border in np.flatnonzero(np.diff(table["tier"])) + 0.5:
                ax.axhline(border, color=SOFT, lw=0.8, ls="--")
    return fig


def draw_abilities(table: pd.DataFrame, name: str, marker: str) -> tuple[Figure, Axes]:
    """Draw abilities with their 90% intervals, one below the other."""
    fig = Figure(figsize=(7.2, 0.9 + 0.2 * len(table)), layout="constrained")
    ax = fig.subplots()
    rows = np.arange(len(table))
    ax.hlines(rows, table["ability_low"], table["ability_high"], color=ACCENT, lw=2)
    ax.plot(table["ability"], rows, marker, color=INK, ms=4)
    one_below_the_other(ax, table[name])
    ax.set_xlabel("ability (0: mean of the subjects ranked)")
    ax.grid(axis="x", color="#e4e4e4", lw=0.6)
    return fig, ax


def plot_rank_probabilities(ranking: Ranking) -> Figure:
    """Draw P(subject has rank r) as a heat map, best subject on top."""
    shown = ranking.rank_probabilities[:_MOST_ROWS, :_MOST_ROWS]
    names = [one_line(s, 36) for s in ranking.summary["subject"].head(_MOST_ROWS)]
    with one_panel(1.0 + 0.17 * len(names)) as (fig, ax):
        ranks, rows = np.arange(shown.shape[1] + 1) + 0.5, np.arange(len(names) + 1)
        image = ax.pcolormesh(ranks, rows, shown, cmap="Greys", norm=PowerNorm(0.5, 0, 1))
        ax.set_yticks(np.arange(len(names)) + 0.5, names)
        ax.invert_yaxis()
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("rank")
        fig.colorbar(image, ax=ax, label="probability", shrink=0.6)
    return fig


def plot_speeds(ranking: Ranking) -> Figure:
    """Draw ability against speed with both 90% intervals, and label the farthest subjects."""
    table = ranking.summary
    with one_panel(4.6) as (fig, ax):
        ax.hlines(table["ability"], table["speed_low"], table["speed_high"], color=SOFT, lw=0.8)
        ax.vlines(table["speed"], table["ability_low"], table["ability_high"], color=SOFT, lw=0.8)
        ax.plot(table["speed"], table["ability"], "o", color=ACCENT, ms=4)
        offsets = table[["speed", "ability"]] - table[["speed", "ability"]].mean()
        farthest = (offsets**2).sum(axis=1).nlargest(_MOST_NAMED).index
        name_points(ax, table.loc[farthest], "speed", "ability", "subject")
        ax.set_xlabel("speed (further right: shorter answers than others give)")
        ax.set_ylabel("ability")
        ax.grid(color="#e4e4e4", lw=0.6)
    return fig


def plot_items(items: pd.DataFrame) -> Figure:
    """Draw the item map: difficulty against discrimination, with flagged items labelled."""
    flagged = items[items["flag"] != ""]
    plain = items[items["flag"] == ""]
    with one_panel(4.6) as (fig, ax):
        many = {"rasterized": len(items) > _MOST_DRAWN}
        ax.plot(plain["b"], plain["a"], "o", color=ACCENT, alpha=0.45, ms=4, mec="none", **many)
        ax.plot(flagged["b"], flagged["a"], "x", color=INK, ms=6, **many)
        ax.set_yscale("log" if (items["a"] > 0).all() else "linear")
        name_points(ax, flagged, "b", "a", "item")
        ax.set_xlabel("difficulty b, on the scale of abilities")
        ax.set_ylabel("discrimination a")
        ax.grid(color="#e4e4e4", lw=0.6)
    return fig


@contextmanager
def one_panel(height: float, width: float = WIDTH) -> Iterator[tuple[Figure, Axes]]:
    """Open a figure with one panel in the common style."""
    with figure_style():
        fig = Figure(figsize=(width, height), layout="constrained")
        yield fig, fig.subplots()


def one_below_the_other(ax: Axes, names: Iterable[str]) -> None:
    """Label rows, the first on top."""
    shown = [one_line(str(name), 36) for name in names]
    ax.set_yticks(range(len(shown)), shown)
    ax.set_ylim(len(shown) - 0.4, -0.6)


def name_points(ax: Axes, points: pd.DataFrame, x: str, y: str, name: str) -> None:
    """Label at most a dozen points, skipping those whose label would overlap another."""
    ax.autoscale_view()
    places = ax.transData.transform(points[[x, y]].to_numpy(float))
    letter = _LETTER * ax.figure.dpi / 72
    widths = letter * points[name].astype(str).str.len().clip(upper=_NAME).to_numpy()
    remaining = np.arange(len(points))
    for _ in range(_MOST_NAMED):
        if not len(remaining):
            return
        chosen = remaining[0]
        row = points.iloc[chosen]
        ax.annotate(
            one_line(str(row[name]), _NAME),
            (row[x], row[y]),
            textcoords="offset points",
            xytext=(5, 3),
            fontsize=7,
        )
        right, up = (places[remaining] - places[chosen]).T
        clear = (right > widths[chosen]) | (-right > widths[remaining]) | (np.abs(up) > 2 * letter)
        remaining = remaining[clear]


@contextmanager
def figure_style() -> Iterator[None]:
    """Set a plain style, with names drawn literally and text in SVG kept as text."""
    settings = {
        "text.parse_math": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "bayesirt",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(settings):
        yield

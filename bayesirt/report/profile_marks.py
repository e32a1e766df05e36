"""Marks, labels and legends that the figures of ability profiles share."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bayesirt.names import one_line
from bayesirt.profiles.ability_profiles import BORROWED, MEASURED, PRIOR, AbilityProfiles
from bayesirt.report.plots import ACCENT, INK, SOFT, WIDTH

MOST_SUBJECTS = 40
"""Most subjects in a heat map."""
MOST_PANELS = 12
"""Most subjects whose profiles are drawn side by side."""
MOST_ABILITIES = 60
FEW = 12
"""Most abilities for which slanted names and numbers fit."""

NAME = 36
FAINT = "#e4e4e4"
GREY = "#6b6b6b"
HUES = "RdBu"
KEY_SDS = (0.1, 0.5, 0.7, 0.9)
KEY: dict[str, Any] = {
    "loc": "outside lower left",
    "ncols": 5,
    "frameon": False,
    "fontsize": 8,
    "handletextpad": 0.5,
    "columnspacing": 1.4,
}
MARKS: dict[str, dict[str, Any]] = {
    MEASURED: {"marker": "o", "color": ACCENT, "mfc": INK, "mec": INK, "ms": 4},
    BORROWED: {"marker": "D", "color": ACCENT, "mfc": "white", "mec": INK, "ms": 4},
    PRIOR: {"marker": "o", "color": SOFT, "mfc": "white", "mec": SOFT, "ms": 4},
}


def by_reliability(profiles: AbilityProfiles) -> pd.DataFrame:
    """Return the abilities, most reliable first and those that rest on the prior last."""
    table = profiles.abilities.sort_values("reliability", ascending=False, kind="stable")
    return table.head(MOST_ABILITIES)


def draw_intervals(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw a dot and an interval for each row, the first on top, and the population's mean."""
    ax.set_axisbelow(True)
    ax.grid(axis="x", color=FAINT, lw=0.6)
    ax.axvline(0, color=INK, lw=0.8, zorder=1)
    at = np.arange(len(rows))
    for standing, mark in MARKS.items():
        mask = rows["standing"].to_numpy() == standing
        ax.hlines(at[mask], rows["low"][mask], rows["high"][mask], color=mark["color"], lw=1.6)
        ax.plot(rows["level"][mask], at[mask], ls="", zorder=3, **mark)
    ax.set_ylim(len(rows) - 0.4, -0.6)


def name_rows(ax: Axes, rows: pd.DataFrame, named_by: str = "ability") -> None:
    """Label the rows of a picture, in grey where they rest on the prior."""
    ax.set_yticks(range(len(rows)), [one_line(s, NAME) for s in rows[named_by]], fontsize=8)
    for label, standing in zip(ax.get_yticklabels(), rows["standing"], strict=True):
        label.set_color(GREY if standing == PRIOR else INK)


def name_columns(ax: Axes, columns: NDArray[np.float64], abilities: pd.DataFrame) -> None:
    """Label the columns of a picture above it, in grey where they rest on the prior."""
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    steep = len(abilities) > FEW
    ax.set_xticks(
        columns,
        [one_line(s, NAME) for s in abilities["ability"]],
        rotation=90 if steep else 40,
        ha="center" if steep else "left",
        rotation_mode="default" if steep else "anchor",
        fontsize=8,
    )
    for label, standing in zip(ax.get_xticklabels(), abilities["standing"], strict=True):
        label.set_color(GREY if standing == PRIOR else INK)


def grid_figure(n_rows: int, abilities: pd.DataFrame, row_height: float) -> tuple[Figure, Axes]:
    """Return a figure for a grid, with room for names on the left and abilities above."""
    longest = max(len(one_line(name, NAME)) for name in abilities["ability"])
    steep = len(abilities) > FEW
    above = 0.07 * longest * (1 if steep else 0.64)
    width = max(WIDTH, 3.2 + 0.15 * len(abilities))
    height = 0.8 + above + max(row_height * n_rows, 0.8)
    fig = Figure(figsize=(width, height), layout="constrained")
    return fig, fig.subplots()


def is_dark(colours: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return for each colour, shape (..., 4), whether text on it should be white."""
    return colours[..., :3] @ np.array([0.299, 0.587, 0.114]) < 0.5


def explain_marks(fig: Figure, standing: "pd.Series[str]", loc: str = "outside lower left") -> None:
    """Add a legend for the marks that are drawn."""
    marks = [x for x in MARKS if (standing == x).any()]
    keys = [Line2D([], [], lw=1.6, **MARKS[x]) for x in marks]
    fig.legend(keys, marks, **{**KEY, "loc": loc})

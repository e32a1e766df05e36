"""Figures of ability profiles, readable in black and white.

Names are drawn literally, never parsed as mathematics. Marks that rest on the prior are grey and
hollow; marks that rest on other abilities are hollow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from bayesirt.names import one_line
from bayesirt.profiles.ability_profiles import LEAST_OWN, LEAST_RELIABILITY, PRIOR, AbilityProfiles
from bayesirt.report.plots import INK, SOFT, WIDTH, figure_style, one_panel
from bayesirt.report.profile_marks import (
    FAINT,
    FEW,
    GREY,
    HUES,
    KEY,
    KEY_SDS,
    MARKS,
    MOST_PANELS,
    MOST_SUBJECTS,
    NAME,
    by_reliability,
    draw_intervals,
    explain_marks,
    grid_figure,
    is_dark,
    name_columns,
    name_rows,
)


def subjects_by_level(profiles: AbilityProfiles) -> list[str]:
    """Return the subjects by their mean level, highest first."""
    ranked = profiles.abilities["ranked"].to_numpy(bool)
    levels = profiles.levels()
    shown = levels.loc[:, ranked] if ranked.any() else levels
    return [str(name) for name in shown.mean(axis=1).sort_values(ascending=False).index]


def plot_profile(profiles: AbilityProfiles, subject: str) -> Figure:
    """Draw one subject's level of each ability with 90% intervals, highest on top."""
    table = _drawn(profiles)
    rows = table[table["subject"] == subject].sort_values("level", ascending=False, kind="stable")
    if rows.empty:
        raise KeyError(subject)
    return _one_panel(rows, "ability", one_line(subject, 60))


def plot_ability(profiles: AbilityProfiles, ability: str) -> Figure:
    """Draw each subject's level of one ability with 90% intervals, highest on top."""
    rows = profiles.ranking(ability).head(MOST_SUBJECTS)
    standing = profiles.abilities.set_index("ability")["standing"][ability]
    return _one_panel(rows.assign(standing=standing), "subject", one_line(ability, 60))


def plot_profiles(profiles: AbilityProfiles, subjects: Sequence[str]) -> Figure:
    """Draw profiles side by side, with the most reliable abilities on top."""
    subjects = list(subjects)[:MOST_PANELS]
    table = _drawn(profiles).set_index("subject")
    n_abilities = len(table) // table.index.nunique()
    n_columns = min(len(subjects), 3 if n_abilities <= FEW else 4)
    n_rows = -(-len(subjects) // n_columns)
    height = 0.8 + n_rows * (0.45 + 0.16 * n_abilities)
    with figure_style():
        fig = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = fig.subplots(n_rows, n_columns, sharex=True, squeeze=False).ravel()
        for position, (ax, subject) in enumerate(zip(axes, subjects, strict=False)):
            rows = table.loc[[subject]]
            draw_intervals(ax, rows)
            if position % n_columns:
                ax.set_yticks(range(len(rows)), [""] * len(rows))
            else:
                name_rows(ax, rows)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.set_title(one_line(subject, 66 // n_columns), loc="left", fontsize=8)
        for ax in axes[len(subjects) :]:
            ax.remove()
        for ax in axes[max(len(subjects) - n_columns, 0) : len(subjects)]:
            ax.tick_params(labelbottom=True)
        fig.supxlabel("level, in standard deviations of the population (0 is its mean)", size=9)
        explain_marks(fig, table["standing"], "outside upper left")
    return fig


def plot_heat_map(profiles: AbilityProfiles, subjects: Sequence[str] = ()) -> Figure:
    """Draw all levels at once: larger cells are more certain, bluer cells are higher.

    Subjects are sorted by their mean level unless `subjects` gives an order.

    The area of a cell is 1 - sd² of a full one: the share of the population's variance that is
    not uncertainty about this level.
    """
    abilities = by_reliability(profiles)
    subjects = list(subjects or subjects_by_level(profiles))[:MOST_SUBJECTS]
    level, sd = (
        profiles.levels(c).loc[subjects, abilities["ability"]].to_numpy() for c in ("level", "sd")
    )
    on_prior = abilities["standing"].to_numpy() == PRIOR
    columns = np.arange(float(len(abilities))) + np.where(on_prior & ~on_prior.all(), 0.4, 0.0)
    with figure_style():
        fig, ax = grid_figure(len(subjects), abilities, 0.19)
        name_columns(ax, columns, abilities)
        ax.set_xlim(-0.6, columns[-1] + 0.6)
        ax.set_yticks(range(len(subjects)), [one_line(s, NAME) for s in subjects], fontsize=8)
        ax.set_ylim(len(subjects) - 0.4, -0.6)
        if on_prior.any():
            shade: dict[str, Any] = {
                "facecolor": "none",
                "edgecolor": FAINT,
                "hatch": "////",
                "lw": 0,
            }
            ax.axvspan(columns[on_prior][0] - 0.5, columns[-1] + 0.5, zorder=0, **shade)
        _draw_cells(fig, ax, columns, level, np.clip(1 - sd**2, 0.02, 1))
    return fig


def plot_correlations(profiles: AbilityProfiles) -> Figure:
    """Draw the correlations of abilities, with similar ones side by side."""
    if profiles.pairs.empty:
        raise ValueError("one ability has no correlations; draw profiles of two or more")
    correlation, apart = _pair_matrices(profiles)
    abilities = by_reliability(profiles)
    order = _similar_together(correlation, abilities.index.to_numpy())
    correlation, apart = correlation[np.ix_(order, order)], apart[np.ix_(order, order)]
    abilities = profiles.abilities.loc[order]
    n = len(order)
    with figure_style():
        fig, ax = grid_figure(n, abilities, 0.3 if n <= FEW else 0.19)
        edges = np.arange(n + 1) - 0.5
        shades = Normalize(-1, 1)
        image = ax.pcolormesh(edges, edges, correlation, cmap=HUES, norm=shades, lw=0.4, ec="w")
        name_columns(ax, np.arange(float(n)), abilities)
        name_rows(ax, abilities)
        ax.set_ylim(n - 0.5, -0.5)
        _mark_pairs(ax, correlation, apart, image)
        if not apart.all():
            cross = Line2D([], [], ls="", marker="x", mec=INK, ms=6)
            fig.legend([cross], ["not distinguishable within a subject"], **KEY)
        fig.colorbar(image, ax=ax, label="correlation", shrink=0.7, aspect=25)
    return fig


def plot_reliability(profiles: AbilityProfiles) -> Figure:
    """Draw each ability's reliability from all data and from its own items."""
    table = by_reliability(profiles)
    rows = np.arange(len(table))
    with one_panel(1.3 + 0.2 * len(table)) as (fig, ax):
        ax.hlines(rows, table["own"], table["reliability"], color=SOFT, lw=1.2)
        for row, standing, value in zip(rows, table["standing"], table["reliability"], strict=True):
            ax.plot(value, row, ls="", zorder=3, **MARKS[standing])
        ax.plot(table["own"], rows, "|", color=INK, ms=9, mew=2)
        ax.axvline(LEAST_RELIABILITY, color=INK, lw=0.9, ls="--")
        ax.axvline(LEAST_OWN, color=INK, lw=0.9, ls=":")
        name_rows(ax, table)
        ax.set_ylim(len(table) - 0.4, -0.6)
        ax.set_xlim(-0.02, 1.02)
        _count_items(ax, table["items"])
        ax.set_xlabel("reliability: share of the variance of levels that is known")
        ax.grid(axis="x", color=FAINT, lw=0.6)
        _explain_reliability(fig, table["standing"])
    return fig


def _drawn(profiles: AbilityProfiles) -> pd.DataFrame:
    """Return the rows of the summary with their standing, most reliable abilities first."""
    table = by_reliability(profiles)
    position = pd.Series(range(len(table)), index=table["ability"])
    rows = profiles.summary[profiles.summary["ability"].isin(position.index)]
    standing = table.set_index("ability")["standing"]
    rows = rows.assign(standing=rows["ability"].map(standing), place=rows["ability"].map(position))
    return rows.sort_values("place", kind="stable")


def _one_panel(rows: pd.DataFrame, named_by: str, title: str) -> Figure:
    with one_panel(1.2 + 0.2 * len(rows)) as (fig, ax):
        draw_intervals(ax, rows)
        name_rows(ax, rows, named_by)
        ax.set_title(title, loc="left", fontsize=9)
        ax.set_xlabel("level, in standard deviations of the population (0 is its mean)")
        explain_marks(fig, rows["standing"])
    return fig


def _draw_cells(
    fig: Figure,
    ax: Axes,
    columns: NDArray[np.float64],
    level: NDArray[np.float64],
    certainty: NDArray[np.float64],
) -> None:
    """Draw a cell for each level, with a minus in those below the population's mean."""
    most = max(1.0, float(np.quantile(np.abs(level), 0.98)))
    hues = ScalarMappable(Normalize(-most, most), HUES)
    x, y = np.meshgrid(columns, np.arange(len(level), dtype=float))
    centres = np.stack([x, y], -1).reshape(-1, 1, 2)
    half = 0.46 * np.sqrt(certainty).reshape(-1, 1, 1)
    colours = hues.to_rgba(level).reshape(-1, 4)
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    cells = PolyCollection(centres + half * corners, facecolors=colours, edgecolors=SOFT, lw=0.4)
    ax.add_collection(cells)
    low = level.ravel() < 0
    ink = np.where(is_dark(colours[low]), "white", INK)
    minus = (centres + half * np.array([(-0.45, 0), (0.45, 0)]))[low]
    ax.add_collection(LineCollection(list(minus), colors=list(ink), lw=1))
    bar = fig.colorbar(hues, ax=ax, shrink=0.7, aspect=25, extend="both")
    bar.set_label("level (sd)")
    _explain_cells(fig)


def _explain_cells(fig: Figure) -> None:
    keys = [
        Line2D([], [], ls="", marker="s", mfc=FAINT, mec=SOFT, ms=9 * np.sqrt(1 - sd**2))
        for sd in KEY_SDS
    ]
    minus = Line2D([], [], ls="", marker="_", mec=INK, mew=1.2, ms=6)
    labels = [*(f"sd {sd}" for sd in KEY_SDS), "below the mean"]
    fig.legend([*keys, minus], labels, **KEY)


def _pair_matrices(
    profiles: AbilityProfiles,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return correlations and whether pairs are distinguishable, shape (ability, ability) each."""
    n = len(profiles.abilities)
    above = np.triu_indices(n, 1)
    correlation, apart = np.eye(n), np.ones((n, n), bool)
    correlation[above], apart[above] = profiles.pairs["correlation"], profiles.pairs["told_apart"]
    return np.triu(correlation) + np.triu(correlation, 1).T, apart & apart.T


def _similar_together(
    correlation: NDArray[np.float64], which: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return abilities in the leaf order of a hierarchical clustering by correlation."""
    which = np.sort(which)
    if len(which) < 3:
        return which
    distance = 1 - correlation[np.ix_(which, which)][np.triu_indices(len(which), 1)]
    tree = linkage(np.clip(distance, 0, None), "average", optimal_ordering=True)
    return which[leaves_list(tree)]


def _mark_pairs(
    ax: Axes, correlation: NDArray[np.float64], apart: NDArray[np.bool_], image: ScalarMappable
) -> None:
    """Cross out pairs that are not distinguishable, and write numbers where there is room."""
    few = len(apart) <= FEW
    ink = np.where(is_dark(image.to_rgba(correlation)), "white", INK)
    row, column = np.nonzero(np.triu(~apart, 1))
    size = float(np.clip(300 / len(apart), 3, 8))
    ax.scatter(column, row, size**2, list(ink[row, column]), marker="x", linewidths=1)
    for i, j in zip(*np.tril_indices(len(apart), -1), strict=True):
        if few or correlation[i, j] < 0:
            text = f"{correlation[i, j]:.2f}" if few else "-"
            ax.text(float(j), float(i), text, color=ink[i, j], ha="center", va="center", size=8)


def _count_items(ax: Axes, items: "pd.Series[int]") -> None:
    """Write the number of items on the right of each row."""
    at: dict[str, Any] = {
        "transform": ax.get_yaxis_transform(),
        "ha": "right",
        "fontsize": 8,
        "color": GREY,
    }
    for row, n in enumerate(items):
        ax.text(1.09, row, f"{n:,}", va="center", **at)
    ax.text(1.09, -0.8, "items", va="bottom", **at)


def _explain_reliability(fig: Figure, standing: "pd.Series[str]") -> None:
    marks = [x for x in MARKS if (standing == x).any()]
    keys = [Line2D([], [], **{**MARKS[x], "ls": ""}) for x in marks]
    keys += [
        Line2D([], [], ls="", marker="|", color=INK, ms=9, mew=2),
        Line2D([], [], color=INK, lw=0.9, ls="--"),
        Line2D([], [], color=INK, lw=0.9, ls=":"),
    ]
    labels = [
        *(f"all data: {x}" for x in marks),
        "own items alone",
        "needed to be ranked",
        "needed of own items",
    ]
    fig.legend(keys, labels, **{**KEY, "ncols": 3})

"""Figures of the abilities study."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.abilities_consistency import ESTIMATES, MORE_THAN, STRENGTHS
from bayesirt.studies.figures import log_plain, name_rows, new_figure, study_style
from bayesirt.studies.study_rows import read_printed

_POINTS = {"ms": 5, "mec": INK, "mew": 0.6}
_KINDS = {"q-mirt": ("o", ACCENT), "neural": ("s", "white"), "shares": ("^", SOFT)}


@study_style()
def plot_prediction(prediction: pd.DataFrame) -> Figure:
    """Draw the AUC within subjects at unseen items by predictor."""
    fig, axes = new_figure(7.6, 1.2 + 0.27 * len(prediction))
    ax, rows = axes[0, 0], range(len(prediction))
    _paper_band(ax)
    for reach, color, width in (
        (prediction["auc_sd"], SOFT, 1),
        (2 * prediction["auc_se"].fillna(0), INK, 2.4),
    ):
        ax.errorbar(prediction["auc"], rows, xerr=reach, fmt="none", ecolor=color, lw=width)
    ax.plot(prediction["auc"], rows, "o", ms=5, color=INK)
    ax.axvline(0.5, color=SOFT, lw=0.8, ls="--")
    name_rows(ax, prediction["predictor"])
    ax.set_xlabel("AUC within a subject at unseen items")
    ax.legend(loc="upper right")
    return fig


@study_style()
def plot_consistency(abilities: pd.DataFrame) -> Figure:
    """Draw how consistent each ability is against the number of its items."""
    fig, axes = new_figure(8.2, 3.5, 1, 2, sharex=True, sharey=True)
    left, right = axes[0]
    for name, (mark, fill) in _KINDS.items():
        own = abilities[abilities["method"] == name]
        left.plot(own["items"], own["rho_halves"], mark, mfc=fill, label=ESTIMATES[name], **_POINTS)
    own = abilities[abilities["method"] == "q-mirt"]
    right.vlines(own["items"], own["rho_others"], own["rho_halves"], color=SOFT, lw=0.8)
    for column, fill, label in (
        ("rho_halves", ACCENT, "with itself"),
        ("rho_others", "white", "with other abilities, mean"),
    ):
        right.plot(own["items"], own[column], "o", mfc=fill, label=label, **_POINTS)
    for ax in (left, right):
        ax.axhline(STRENGTHS["moderate"], color=SOFT, lw=0.8, ls="--")
        ax.axvline(2 * MORE_THAN, color=SOFT, lw=0.8, ls=":")
        log_plain(ax)
        ax.legend(loc="lower right")
    fig.supxlabel("items that need the ability, both halves together")
    left.set_ylabel("Spearman's rho between halves")
    return fig


@study_style()
def plot_intervals(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of 90% intervals by size and quantity."""
    fig, axes = new_figure(6.4, 0.9 + 0.27 * len(coverage))
    ax, rows = axes[0, 0], range(len(coverage))
    ax.hlines(rows, coverage["low"], coverage["high"], color=INK, lw=1.6)
    ax.plot(coverage["coverage"], rows, "o", ms=5, color=INK)
    ax.axvline(LEVEL, color=ACCENT, lw=1)
    name = "{quantity}, {n_subjects:.0f} x {n_items:.0f} x {n_abilities:.0f}"
    name_rows(ax, [name.format(**row) for row in coverage.to_dict("records")])
    ax.set_xlabel("share of true values in 90% intervals, 95% bounds between suites")
    return fig


def _paper_band(ax: Axes) -> None:
    printed = read_printed("abilities_printed")
    means = printed[(printed["table"] == "within") & (printed["quantity"] == "mean AUC")]
    benchmarks = means[means["source"].str.contains("Table 4")]["value"]
    ax.axvspan(benchmarks.min(), benchmarks.max(), color="#dce6f2", lw=0, label="paper, its data")

"""Figures of the abilities study, readable in black and white."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style
from bayesirt.studies.abilities_consistency import ESTIMATES, MORE_THAN
from bayesirt.studies.abilities_measures import STRENGTHS
from bayesirt.studies.study_rows import read_printed

_FILLS = {"q-mirt": ACCENT, "neural": "white", "shares": SOFT}
_MARKS = {"q-mirt": "o", "neural": "s", "shares": "^"}


def plot_prediction(prediction: pd.DataFrame) -> Figure:
    """Draw the AUC within subjects at unseen items by predictor."""
    with figure_style():
        fig = Figure(figsize=(7.6, 1.2 + 0.27 * len(prediction)), layout="constrained")
        ax = fig.subplots()
        rows = np.arange(len(prediction))
        _paper_band(ax)
        ax.errorbar(prediction["auc"], rows, xerr=prediction["auc_sd"], fmt="none", ecolor=SOFT,
                    lw=1)  # fmt: skip
        ax.errorbar(prediction["auc"], rows, xerr=2 * prediction["auc_se"].fillna(0), fmt="none",
                    ecolor=INK, lw=2.4)  # fmt: skip
        ax.plot(prediction["auc"], rows, "o", ms=5, color=INK)
        ax.axvline(0.5, color=SOFT, lw=0.8, ls="--")
        ax.set_yticks(rows, prediction["predictor"])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlabel("AUC within a subject at unseen items")
        ax.grid(axis="x", color="#e4e4e4", lw=0.6)
        ax.legend(frameon=False, fontsize=8, loc="upper right")
    return fig


def plot_consistency(abilities: pd.DataFrame) -> Figure:
    """Draw how consistent each ability is against the number of its items."""
    with figure_style():
        fig = Figure(figsize=(8.2, 3.5), layout="constrained")
        left, right = fig.subplots(1, 2, sharex=True, sharey=True)
        for name, mark in _MARKS.items():
            own = abilities[abilities["method"] == name]
            left.plot(own["items"], own["rho_halves"], mark, ms=5, mfc=_FILLS[name], mec=INK,
                      mew=0.6, label=ESTIMATES[name])  # fmt: skip
        own = abilities[abilities["method"] == "q-mirt"]
        right.vlines(own["items"], own["rho_others"], own["rho_halves"], color=SOFT, lw=0.8)
        right.plot(own["items"], own["rho_halves"], "o", ms=5, mfc=ACCENT, mec=INK, mew=0.6,
                   label="with itself")  # fmt: skip
        right.plot(own["items"], own["rho_others"], "o", ms=5, mfc="white", mec=INK, mew=0.6,
                   label="with other abilities, mean")  # fmt: skip
        for ax in (left, right):
            ax.axhline(STRENGTHS["moderate"], color=SOFT, lw=0.8, ls="--")
            ax.axvline(2 * MORE_THAN, color=SOFT, lw=0.8, ls=":")
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(ScalarFormatter())
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.legend(frameon=False, fontsize=8, loc="lower right")
        fig.supxlabel("items that need the ability, both halves together", fontsize=9)
        left.set_ylabel("Spearman's rho between halves")
    return fig


def plot_intervals(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of 90% intervals by size and quantity."""
    with figure_style():
        fig = Figure(figsize=(6.4, 0.9 + 0.27 * len(coverage)), layout="constrained")
        ax = fig.subplots()
        rows = np.arange(len(coverage))
        ax.hlines(rows, coverage["low"], coverage["high"], color=INK, lw=1.6)
        ax.plot(coverage["coverage"], rows, "o", ms=5, color=INK)
        ax.axvline(0.9, color=ACCENT, lw=1)
        names = [
            f"{row.quantity}, {row.n_subjects:.0f} x {row.n_items:.0f} x {row.n_abilities:.0f}"
            for row in coverage.itertuples()
        ]
        ax.set_yticks(rows, names)
        ax.invert_yaxis()
        ax.set_xlabel("share of true values in 90% intervals, 95% bounds between suites")
    return fig


def _paper_band(ax: Axes) -> None:
    printed = read_printed("abilities_printed")
    means = printed[(printed["table"] == "within") & (printed["quantity"] == "mean AUC")]
    benchmarks = means[means["source"].str.contains("Table 4")]["value"]
    ax.axvspan(benchmarks.min(), benchmarks.max(), color="#dce6f2", lw=0, label="paper, its data")

"""Figures of a check of fit: what was observed, and what the model would have."""

import numpy as np
from matplotlib.figure import Figure

from bayesirt.checks.fit import FitCheck
from bayesirt.report.plots import ACCENT, INK, SOFT, figure_style


def plot_calibration(fit: FitCheck) -> Figure:
    """Draw held-out answers: the proportion correct against the chance that was predicted."""
    table = fit.calibration.summary
    with figure_style():
        fig = Figure(figsize=(7.2, 4.4), layout="constrained")
        ax = fig.subplots()
        ax.plot([0, 1], [0, 1], color=SOFT, lw=0.8)
        ax.fill_between(
            table["predicted"], table["low"], table["high"], color=ACCENT, alpha=0.2, lw=0
        )
        ax.plot(table["predicted"], table["calibrated"], color=ACCENT)
        ax.plot(table["predicted"], table["observed"], "o", color=INK, ms=3)
        ax.set_xlabel("predicted chance of a right answer")
        ax.set_ylabel("proportion correct")
    return fig


def plot_totals(fit: FitCheck) -> Figure:
    """Draw how many subjects, and how many items, have which proportion correct."""
    table = fit.totals.summary
    with figure_style():
        fig = Figure(figsize=(7.2, 3.0), layout="constrained")
        for ax, of in zip(fig.subplots(1, 2), ("subjects", "items"), strict=True):
            own = table[table["of"] == of]
            middle = (own["from"] + own["to"]) / 2
            ax.bar(
                middle, own["high"] - own["low"], 0.8 * (own["to"] - own["from"]), own["low"],
                color=ACCENT, alpha=0.25, lw=0,
            )  # fmt: skip
            ax.plot(middle, own["observed"], "o", color=INK, ms=4)
            ax.set_xlabel(f"proportion correct of {of}")
            ax.set_ylabel("how many")
            ax.set_ylim(0, 1.05 * max(np.max(own["high"]), np.max(own["observed"])))
    return fig

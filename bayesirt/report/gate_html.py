"""The report of a gate."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from bayesirt.names import one_line
from bayesirt.ranking.gate_result import Gate
from bayesirt.report.page import render_page, svg
from bayesirt.report.plots import WIDTH

_MOST_FLIPS = 200
_MOST_PARTS = 30


def render_gate_report(gates: Sequence[Gate]) -> str:
    """Render the report of candidates against one baseline as a complete HTML document."""
    return render_page("gate.html.j2", baseline=gates[0].baseline, gates=[*map(_part, gates)])


def _part(gate: Gate) -> dict[str, Any]:
    first, *rest = gate.to_text().splitlines()
    flips = gate.flipped
    return {
        "candidate": gate.candidate,
        "verdict": gate.verdict,
        "passes": gate.passes,
        "sentence": first,
        "rest": rest,
        "picture": svg(
            plot_difference(gate), f"Difference in {gate.unit.name}s with its 90% interval"
        ),
        "flips": [
            (row.item, gate.shown(row.baseline), gate.shown(row.candidate))
            for row in flips.head(_MOST_FLIPS).itertuples()
        ],
        "of_scale": gate.scale is not None,
        "n_flips": len(flips),
    }


def plot_difference(gate: Gate) -> Figure:
    """Draw the difference overall, through the history and by part, with the margin."""
    difference, history, span = gate.difference, gate.calibrated, gate.unit.span
    rows = [("these questions", difference.mean, difference.low, difference.high)]
    if history is not None:
        rows.append(("history", history.mean, history.quantile(0.05), history.quantile(0.95)))
    rows += [
        (one_line(row.part, 30), row.difference, row.low, row.high)
        for row in gate.parts.head(_MOST_PARTS).itertuples()
    ]
    figure = Figure(figsize=(WIDTH, 1.0 + 0.3 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for y, (_, mean, low, high) in enumerate(rows):
        color = "C0" if y == 0 else "0.45"
        axes.plot([span * low, span * high], [y, y], color=color, lw=3 if y == 0 else 1.5)
        axes.plot(span * mean, y, "o", color=color)
    axes.axvline(0, color="0.2", lw=1)
    if gate.margin:
        axes.axvline(-span * gate.margin, color="C3", lw=1, ls="--")
        axes.annotate(
            "margin", (-span * gate.margin, -0.6), ha="center", va="bottom", color="C3", size=8
        )
    axes.set(
        yticks=range(len(rows)),
        yticklabels=[name for name, *_ in rows],
        ylim=(len(rows) - 0.4, -0.7),
        xlabel=f"candidate minus baseline, in {gate.unit.name}s",
    )
    axes.spines[["top", "right"]].set_visible(False)
    return figure

"""Figures of the cBMM study, and its claims compared with those of Qu et al. (2026)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.names import one_line
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.cbmm_tables import (
    LEVEL_MEASURES,
    MEASURES,
    heterogeneity_table,
    paper_table,
    recovery_table,
    redundancy_table,
    stability_table,
)
from bayesirt.studies.cbmm_tasks import FACTORS, POINT_METHODS, POSTERIORS, STEPS, base_values
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Study
from bayesirt.studies.figures import (
    STYLES,
    draw_boxes,
    draw_lines,
    legend_above,
    log_plain,
    log_values,
    new_figure,
)
from bayesirt.studies.measures import read_notes, spearman

_ROBUSTNESS = ("temperature", "mcar", "mar", "mnar", "sparsity")

_RULES = (*(f"{name}: a = 0" for name in ("mm", "newton", "mml")),
          f"newton: a < {HARDLY_DISCRIMINATES}")  # fmt: skip
_RANGED = ["recall", "false_share", "paper_recall", "paper_precision"]
_NAMES = {"method": POINT_METHODS, "factor": FACTORS, "measure": LEVEL_MEASURES}
_KINDS = {
    "base": "the base",
    "sparsity": "some a = 0",
    "spread": "wide spread of a",
    "matrix": "the matrix",
}
_SHOWN_BOUND = 0.1
_SAME = 1e-9
_APART = 0.004  # Shift between the points of different rules, so that none is hidden.
_MOST_SHOWN = 30
_FAR = 3  # Change of rank from which a line is drawn dark.
_REACH = 4
"""Interquartile ranges from the quartiles to the edge of a panel; the rest is cut off."""


def plot_recovery(recovery: pd.DataFrame, factors: Sequence[str], size: tuple[int, int]) -> Figure:
    """Draw each measure over each factor (Qu et al., 2026, Figures A.1 to A.7)."""
    base, n = base_values(*size), len(factors)
    fig, axes = new_figure(1.4 + 1.9 * max(n, 3), 9.6, len(MEASURES), n, sharex="col", sharey="row")
    for column, factor in enumerate(factors):
        rows = recovery[recovery["factor"].isin([factor, "base"])].copy()
        rows.loc[rows["factor"] == "base", "value"] = base[factor]
        rows, last = rows.sort_values("value"), axes[-1, column]
        for ax, measure in zip(axes[:, column], MEASURES, strict=True):
            draw_lines(ax, rows, "value", measure, POINT_METHODS)
        if factor in ("items", "subjects"):
            log_plain(last, rows["value"])
            last.tick_params(axis="x", labelrotation=90)
        last.set_xlabel(FACTORS[factor], fontsize=8)
    for ax, (measure, label) in zip(axes[:, 0], MEASURES.items(), strict=True):
        ax.set_ylabel(label, fontsize=8)
        if not measure.startswith("rho"):
            log_values(ax)
    legend_above(fig, axes[0, 0], min(4, 2 * n))
    return fig


def plot_redundancy(redundancy: pd.DataFrame) -> Figure:
    """Draw false share (± 2 standard errors) and recall of redundant items over the sparsity."""
    by_posterior = redundancy["method"].isin(POSTERIORS) & (redundancy["q"] == _SHOWN_BOUND)
    shown = redundancy[by_posterior | (redundancy["method"] == "mm")]
    names = {rule: rule for rule in shown["rule"].unique()}
    shown = shown.assign(
        place=shown["sparsity"] + _APART * shown["rule"].map([*names].index),
        low=(shown["false_share"] - 2 * shown["false_share_se"].fillna(0)).clip(lower=0),
        high=shown["false_share"] + 2 * shown["false_share_se"].fillna(0),
    )
    fig, axes = new_figure(7.6, 3.9, 1, 2, x="share of items with a = 0", sharex=True)
    left, right = axes[0]
    draw_lines(left, shown, "place", "false_share", names, by="rule", ends=("low", "high"))
    draw_lines(right, shown, "place", "recall", names, by="rule")
    left.axhline(_SHOWN_BOUND, color=INK, ls="--", lw=1, label=f"bound q = {_SHOWN_BOUND:g}")
    left.set(ylabel="false share of the declared items", ylim=(-0.03, None))
    right.set(ylabel="share of the redundant items found", ylim=(-0.03, 1.03))
    legend_above(fig, left, 3, fontsize=7)
    return fig


def plot_stability(starts: pd.DataFrame) -> Figure:
    """Draw the disagreement of fits from random starts (Qu et al., 2026, Tables A.1 to A.3)."""
    title = "variance of the start (the larger of the two)"
    fig, axes = new_figure(7.6, 3.2, 1, 3, x=title, sharex=True, sharey=True)
    position = starts["variance_two"] + starts["method"].map({"mm": -0.15, "newton": 0.15})
    names = {str(step): POINT_METHODS[step] for step in STEPS}
    for ax, (name, label) in zip(axes[0], {"theta": "θ", "a": "a", "d": "d"}.items(), strict=True):
        disagreement = np.maximum(1 - starts[f"rho_{name}"], _SAME)
        table = starts.assign(place=position, apart=disagreement)
        draw_lines(ax, table, "place", "apart", names, ls="", alpha=0.7)
        ax.set(yscale="log", title=label, xticks=sorted(starts["variance_two"].unique()))
    axes[0, 0].set_ylabel("1 - Spearman of two fits (floor 1e-9)")
    legend_above(fig, axes[0, 0], 2)
    return fig


def plot_heterogeneity(heterogeneity: pd.DataFrame) -> Figure:
    """Draw ρ of ability and accuracy against the spread of a (Qu et al., 2026, Figure 4)."""
    rows = heterogeneity[heterogeneity["method"] == "newton"]
    fig, axes = new_figure(8.4, 3.4, 1, 3, x="coefficient of variation of the estimated a")
    left, middle, right = axes[0]
    draw_lines(left, rows, "cv_a", "rho_average_top", _KINDS, by="factor", ls="")
    draw_lines(middle, rows, "cv_a", "rho_average", _KINDS, by="factor", ls="")
    simulated = rows[rows["rho_theta"].notna()].sort_values("cv_a")
    lines = {"rho_theta": "ability", "average_rho_theta": "accuracy"}
    for (column, label), style in zip(lines.items(), STYLES, strict=False):
        right.plot(simulated["cv_a"], simulated[column], label=label, ms=4, lw=1, **style)
    left.set(title="top 20% by accuracy", ylabel="Spearman of ability and accuracy")
    middle.set_title("all")
    right.set_title("with the true θ (simulated)")
    for ax in (middle, right):
        ax.legend()
    return fig


def plot_flow(ranks: pd.DataFrame) -> Figure:
    """Draw how ranks change from accuracy to ability (Qu et al., 2026, Figure 5)."""
    table = ranks[ranks["method"] == "newton"]
    first = table[table[["rank_accuracy", "rank_theta"]].max(axis=1) <= _MOST_SHOWN]
    left = first.sort_values(["accuracy", "theta"], ascending=False)["subject"].tolist()
    right = first.sort_values("theta", ascending=False)["subject"].tolist()
    fig, axes = new_figure(7.6, 0.9 + 0.21 * max(len(first), 3))
    ax, style = axes[0, 0], {"va": "center", "fontsize": 7}
    for row in first.itertuples():
        y, z, name = left.index(row.subject), right.index(row.subject), one_line(row.subject, 34)
        far = abs(row.rank_accuracy - row.rank_theta) >= _FAR
        ax.plot([0, 1], [y, z], color=ACCENT if far else SOFT, lw=1.6 if far else 0.9)
        text = f"{name}  {row.accuracy:.1%}  {row.rank_accuracy:.0f}"
        ax.text(-0.02, y, text, ha="right", **style)
        ax.text(1.02, z, f"{row.rank_theta:.0f}  {row.theta:.2f}  {name}", ha="left", **style)
    ax.set(xlim=(-1.0, 2.0), ylim=(len(first) - 0.4, -1.6))
    ax.text(0, -1.1, "by accuracy", ha="right")
    ax.text(1, -1.1, "by ability θ", ha="left")
    ax.axis("off")
    return fig


def plot_levels(items: pd.DataFrame) -> Figure:
    """Draw the difficulty of items by human level (Qu et al., 2026, Figure 3)."""
    items = items[items["method"] == "newton"]
    titles = {"minus_d": "-d", "b": "b = -d/a", "wrong": "share wrong"}
    fig, axes = new_figure(8.4, 3.4, 1, 3, x="human level")
    for ax, (measure, title) in zip(axes[0], titles.items(), strict=True):
        rows = items[items[measure].notna()]
        draw_boxes(ax, rows, "level", measure, {"newton": "white"})
        low, high = rows[measure].quantile([0.25, 0.75])
        reach, (least, most) = _REACH * (high - low), rows[measure].agg(["min", "max"])
        ends = max(low - reach, least - 0.1 * reach), min(high + reach, most + 0.1 * reach)
        ax.set(ylim=ends, title=title)
    return fig


def cbmm_claims(
    tables: Mapping[str, pd.DataFrame], size: tuple[int, int], simulated: bool
) -> Iterator[Claim]:
    """Yield claims on recovery, times, redundant items, stability, and one matrix."""
    recovery, paper, stability = tables["recovery"], tables["paper"], tables["stability"]
    facts = {
        "kind": "drawn from the base, as none is given" if simulated else "given",
        "subjects": size[0],
        "items": size[1],
        "converged": (recovery["converged"] == 1).mean(),
        **_moved(tables["ranks"]),
    }
    starts = stability.groupby("method")["mean"].min()
    frames = {
        **tables,
        "farthest": _farthest(recovery),
        "facts": pd.DataFrame([facts]),
        "starts": pd.DataFrame([starts]).assign(lowest=starts.min()),
        "paper": paper.assign(
            printed=paper["printed_low"].where(paper["printed_low"] == paper["printed_high"])
        ),
        "declared": _declared(tables["redundancy"]),
        "stability": _over_variances(stability),
        "heterogeneity": _agreement_by_spread(tables["heterogeneity"]),
        "steps": _level_steps(tables["levels"]),
    }
    return claims_from("cbmm", frames, _NAMES)


def _farthest(recovery: pd.DataFrame) -> pd.DataFrame:
    """Return each factor's rows where MM and Newton differ most."""
    varied = recovery[~recovery["factor"].isin(["base", "items", "subjects"])]
    keys = ["factor", "value"]
    errors = varied.pivot(index=keys, columns="method", values="eta_error")
    if not len(errors):
        return errors
    ratios = errors[["mm", "newton"]].assign(ratio=errors["mm"] / errors["newton"])
    ratios["mm_behind"] = varied[varied["method"] == "mm"].set_index(keys)["behind"]
    farthest = np.abs(np.log(ratios["ratio"])).groupby("factor", sort=False).idxmax()
    rows = varied.merge(ratios.loc[farthest].reset_index(), on=keys)
    return rows.assign(is_last=~rows["factor"].duplicated(keep="last"))


def _declared(redundancy: pd.DataFrame) -> pd.DataFrame:
    """Return the range over sparsities of what rules without a bound find."""
    if not len(redundancy):
        return redundancy
    groups = redundancy[redundancy["rule"].isin(_RULES)].groupby("rule")[_RANGED]
    ranges = groups.min().join(groups.max().add_suffix("_most"))
    return ranges.reindex([rule for rule in _RULES if rule in ranges.index]).reset_index()


def _over_variances(stability: pd.DataFrame) -> pd.DataFrame:
    """Return the agreement of fits over all variances, by method and parameter."""
    table = stability.groupby(["method", "parameter"], sort=False).agg(**{
        "from": ("variance_one", "min"), "to": ("variance_two", "max"), "runs": ("runs", "first"),
        "mean": ("mean", "min"), "lowest": ("lowest", "min"), "printed": ("printed_lowest", "min"),
        "least_iterations": ("iterations", "min"), "most_iterations": ("iterations", "max"),
        "converged": ("converged", "mean"), "reversed": ("reversed", "sum"),
        "pairs": ("runs", "sum"),
    })  # fmt: skip
    return table.round({"least_iterations": 0, "most_iterations": 0}).reset_index()


def _moved(ranks: pd.DataFrame) -> dict[str, Any]:
    """Return how far subjects move from their rank by accuracy to that by ability."""
    newton = ranks[ranks["method"] == "newton"]
    moved = (newton["rank_accuracy"] - newton["rank_theta"]).abs()
    farthest = newton.loc[moved.idxmax()].to_dict()
    return farthest | {"moved_median": moved.median(), "moved_most": moved.max()}


def _agreement_by_spread(heterogeneity: pd.DataFrame) -> pd.DataFrame:
    """Return whether ability and accuracy agree less as slopes vary more."""
    rows = heterogeneity[heterogeneity["method"] == "newton"]
    if len(rows) <= 2:
        return pd.DataFrame()
    simulated = rows[rows["rho_theta"].notna()]
    ahead = (simulated["rho_theta"] - simulated["average_rho_theta"]).to_numpy()
    rho = {name: float(spearman(rows["cv_a"].to_numpy(), rows[name].to_numpy()))
           for name in ("rho_average", "rho_average_top")}  # fmt: skip
    most = simulated.iloc[int(ahead.argmax())].to_dict()
    counts = {"suites": len(rows), "known": len(simulated), "ahead": (ahead > 0).sum()}
    return pd.DataFrame([most | rho | counts])


def _level_steps(levels: pd.DataFrame) -> pd.DataFrame:
    """Return whether difficulty rises, and spreads, with every level."""
    if not len(levels):
        return levels
    newton = levels[levels["method"] == "newton"]
    width = newton["minus_d_high"] - newton["minus_d_low"]
    smallest = np.diff(newton["minus_d"]).min()
    return pd.DataFrame([{"smallest": smallest, "first": width.iloc[0], "last": width.iloc[-1]}])


def cbmm_found(
    rows: Mapping[str, pd.DataFrame],
    look: dict[str, pd.DataFrame],
    base: tuple[int, int],
    size: tuple[int, int],
    simulated: bool,
) -> Study:
    """Evaluate the rows of suites and starts, and the results on a matrix."""
    fits, starts = rows["suites"], rows["stability"]
    recovery, redundancy = recovery_table(fits), redundancy_table(fits)
    tables = {
        "recovery": recovery,
        "paper": paper_table(recovery, redundancy),
        "redundancy": redundancy,
        "stability": stability_table(starts),
        "heterogeneity": heterogeneity_table(recovery, look["agreement"]),
        **{name: look[name] for name in ("agreement", "ranks")},
    }
    figures = {
        "size": partial(plot_recovery, recovery, ("items", "subjects"), base),
        "robustness": partial(plot_recovery, recovery, _ROBUSTNESS, base),
        "stability": partial(plot_stability, starts),
        "heterogeneity": partial(plot_heterogeneity, tables["heterogeneity"]),
        "flow": partial(plot_flow, look["ranks"]),
    }
    if len(redundancy):
        figures["redundancy"] = partial(plot_redundancy, redundancy)
    notes = read_notes("cbmm")
    if len(look["levels"]):
        tables |= {name: look[name] for name in ("levels", "level_rho")}
        figures["levels"] = partial(plot_levels, look["items"])
    else:
        notes.append("The items have no numeric level, so difficulty is not compared with it.")
    kind = "simulated" if simulated else "given"
    return Study(
        f"cBMM study of {len(fits):,} fits and a {kind} {size[0]} x {size[1]} matrix",
        fits,
        tables,
        cbmm_claims(tables | look, size, simulated),
        notes,
        figures,
    )

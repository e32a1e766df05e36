"""The FPC study: a replication of Habba et al. (2026), with intervals and dissimilar subjects.

Benchmarks join a suite one after another by fixed-parameter calibration; at each step held-out
subjects are predicted from their answers to anchors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.report.plots import SOFT
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Running, Study, do_tasks
from bayesirt.studies.figures import draw_dots, draw_lines, legend_above, log_plain, new_figure
from bayesirt.studies.fpc_chain import MEASURES
from bayesirt.studies.fpc_tasks import (
    CHAINS,
    FPC_SIMULATED,
    METHODS,
    RULE_WORDS,
    USUAL_RULE,
    FPCDesign,
    FPCMatrix,
    conditions_of,
    given_matrix,
    simulated_matrix,
    tasks_of,
)
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.measures import groups_of, read_notes, read_printed
from bayesirt.studies.tasks import PortableKey

_MATRIX_SEED = 43
_VARIED = {"n_anchors": "anchors", "how": "rule", "n_reference": "n_reference", "split": "split"}
_USUAL = {"rule": USUAL_RULE, "n_reference": 0, "split": "random"}
_BASELINES = ("concurrent", "concurrent_gp_irt", "anchor_mean", "random")
_SHOWN = ("fixed", "fixed_gp_irt", "anchor_mean", "random")
_AIM, _AIM_ANCHORS = 2.5, 100
_FEW_ANCHORS = 25
_WITHIN = 8  # Rows beyond one per benchmark that are needed for a trend within benchmarks.
_LINES = {name: METHODS[name] for name in ("fixed", "concurrent", "random", "fixed_gp_irt")}
_SPLITS = {
    "random": "like the reference",
    "abler": "abler than the reference",
    "families": "of other families",
}
_ERROR = "MAE, points of accuracy"
_COLUMNS = 2


def fpc_study(
    design: FPCDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    groups: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
    **running: Unpack[Running],
) -> Study:
    """Replicate Habba et al. (2026), section 4: predict held-out subjects as a suite grows.

    The suite is simulated, or given by complete responses, the benchmark of each item (`groups`)
    and perhaps the family of each subject, to hold out whole families.
    """
    portable = PortableKey.of(key)
    if responses is None:
        for given, option in ((groups, "--groups"), (families, "--families")):
            if given is not None:
                raise ResponseError(f"{option} needs the responses too; give --responses")
        design = design or FPC_SIMULATED
        matrix = simulated_matrix(design.simulated, portable.rng(_MATRIX_SEED))
    elif groups is None:
        raise ResponseError("a chain needs the benchmark of each item; give --groups")
    else:
        design, matrix = design or FPCDesign(), given_matrix(responses, groups, families)
        matrix = replace(matrix, n_abilities=design.n_abilities)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    if not matrix.simulated:
        settings |= {"responses": fingerprint(matrix.responses)}
        settings |= {"benchmarks": matrix.benchmarks, "families": matrix.families}
    conditions = conditions_of(design, matrix)
    tasks = tasks_of(design, matrix, conditions, portable)
    varied = pd.DataFrame(conditions)[[*_VARIED]].rename(columns=_VARIED)
    parts = {"chains": CHAINS._replace(conditions=varied)}
    rows = do_tasks(tasks, parts, settings, running)["chains"]
    rows["benchmark"] = [matrix.names[int(b)] for b in rows["benchmark"]]
    return fpc_found(rows, matrix)


def fpc_found(rows: pd.DataFrame, matrix: FPCMatrix) -> Study:
    """Evaluate the rows of all conditions, chains, steps and methods."""
    usual = _as_usual(rows, _USUAL)
    tables = {
        "methods": mean_table(usual, ["anchors", "method"]),
        "benchmarks": mean_table(usual, ["anchors", "benchmark", "n_items", "method"]),
        "along_the_chain": mean_table(usual, ["anchors", "step", "method"]),
        "trends": trend_table(usual),
        "baselines": paired_table(usual),
        "costs": cost_table(usual),
        "rules": varied_table(rows, "rule"),
        "references": varied_table(rows, "n_reference"),
        "splits": varied_table(rows, "split"),
    }
    tables["paper"] = paper_table(tables["methods"])
    splits = pd.concat([tables["methods"].assign(split="random"), tables["splits"]])
    splits = splits.drop_duplicates(["anchors", "split", "method"])
    figures = {
        "along_the_chain": partial(plot_along, tables["along_the_chain"]),
        "coverage": partial(plot_coverage, splits),
    }
    for name, plot in (("rules", plot_rules), ("references", plot_references)):
        if len(tables[name]):
            figures[name] = partial(plot, tables[name])
    n_chains = len(rows[[*_VARIED.values(), "chain"]].drop_duplicates())
    return Study(
        f"FPC study of {n_chains} chains of {len(matrix.names)} benchmarks",
        rows,
        tables,
        fpc_claims(tables, matrix),
        read_notes("fpc"),
        figures,
    )


def fpc_claims(tables: Mapping[str, pd.DataFrame], matrix: FPCMatrix) -> Iterator[Claim]:
    """Yield the errors of predictions, against baselines and along the chain, and their cost."""
    responses, trends, references = matrix.responses, tables["trends"], tables["references"]
    facts = {
        "kind": "Simulated" if matrix.simulated else "Given", "subjects": responses.n_subjects,
        "items": responses.n_items, "benchmarks": len(matrix.names),
    }  # fmt: skip
    costs = tables["costs"][tables["costs"]["anchors"] == tables["costs"]["anchors"].max()]
    fixed = costs[costs["method"] == "fixed"]
    share = fixed["compiling"].sum() / max(fixed["seconds"].sum(), 1e-9)
    free = references[references["method"] == "random"][["mae"]]
    frames = {
        **tables,
        "matrix": pd.DataFrame([facts]),
        "few anchors": _above_with_few(tables["baselines"]),
        "benchmarks": _beside_the_aim(tables["benchmarks"], matrix.simulated),
        "trends": trends.assign(
            other=np.where(trends["within"], "", ", over different benchmarks")
        ),
        "last costs": costs[costs["method"] != "random"].groupby("method", sort=False).tail(1),
        "calibrations": pd.DataFrame([{"seconds": fixed["seconds"].mean(), "share": share}]),
        "rules": tables["rules"].sort_values(["anchors", "mae"]),
        "references": references.sort_values("n_calibrating"),
        "random": free.mean().to_frame().T if len(references) else free,
    }
    return claims_from("fpc", frames, {"method": METHODS, "rule": RULE_WORDS, "split": _SPLITS})


def _above_with_few(baselines: pd.DataFrame) -> pd.DataFrame:
    """Count the small numbers of anchors at which FPC has a larger error than a baseline."""
    few = baselines[baselines["anchors"] <= _FEW_ANCHORS]
    gaps = few.groupby("method", sort=False)["difference"]
    table = gaps.agg(numbers="size", above=lambda gap: (gap > 0).sum()).reset_index()
    return table.assign(few=_FEW_ANCHORS)


def _beside_the_aim(benchmarks: pd.DataFrame, simulated: bool) -> pd.DataFrame:
    """Return benchmarks, and which the paper's aim applies to: large ones with real answers."""
    aimed_at = (benchmarks["anchors"] == _AIM_ANCHORS) & (benchmarks["method"] == "fixed")
    return benchmarks.assign(
        aimed_at=aimed_at & (benchmarks["n_items"] > _AIM_ANCHORS) & (not simulated),
        name=benchmarks["benchmark"].map(one_line), aim=_AIM,
    ).sort_values(["n_items", "benchmark"])  # fmt: skip


def _as_usual(rows: pd.DataFrame, usual: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with the usual values of these columns."""
    return rows[(rows[list(usual)] == pd.Series(usual)).all(axis=1)]


def mean_table(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return means over the predictions of each group, with `mae_se` over chains."""
    groups = rows.groupby([*by], sort=False)
    chains = rows.groupby([*by, "chain"], sort=False)["mae"].mean().groupby([*by], sort=False)
    table = groups[[*MEASURES]].mean()
    table.insert(1, "mae_se", chains.sem())
    table.insert(0, "predictions", groups.size())
    table.insert(0, "chains", chains.size())
    return table.reset_index()


def paired_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the error of FPC minus that of each baseline, on the same predictions."""
    mae = rows.pivot(index=["anchors", "chain", "step"], columns="method", values="mae")
    others = [name for name in _BASELINES if name in mae]
    gap = (-mae[others].sub(mae["fixed"], axis=0)).stack(future_stack=True).dropna()
    groups = gap.groupby(["anchors", "method"])
    chains = gap.groupby(["anchors", "method", "chain"]).mean().groupby(["anchors", "method"])
    table = pd.DataFrame({
        "predictions": groups.size(), "difference": groups.mean(), "difference_se": chains.sem(),
        "lower": (gap <= 0).groupby(["anchors", "method"]).mean(),
    })  # fmt: skip
    return table.reindex(others, level="method").reset_index()


def trend_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the slope of the MAE in points per step, as the chain grows.

    `within` is true if benchmarks were measured often enough to be compared with themselves at
    other steps; `steps` is the number of steps from the first measured to the last.
    """
    lines = []
    for labels, group in groups_of(rows, ("anchors", "method")):
        within = len(group) - group["benchmark"].nunique() >= _WITHIN
        alike = group["benchmark"] if within else pd.Series(0, group.index)
        step, mae = (group[x] - group[x].groupby(alike).transform("mean") for x in ("step", "mae"))
        spread, freedom = (step**2).sum(), len(group) - alike.nunique() - 1
        slope = (step * mae).sum() / spread if spread else np.nan
        residual = ((mae - slope * step) ** 2).sum()
        error = np.sqrt(residual / freedom / spread) if freedom > 0 else np.nan
        steps = int(group["step"].max() - group["step"].min())
        lines.append(labels | {"slope": slope, "slope_se": error, "steps": steps, "within": within})
    return pd.DataFrame(lines)


def varied_table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the errors when one factor is varied, on the same chains."""
    usual = _as_usual(rows, {name: value for name, value in _USUAL.items() if name != column})
    varied = usual[usual[column] != _USUAL[column]]
    same = usual["anchors"].isin(varied["anchors"]) & usual["chain"].isin(varied["chain"])
    shown = usual[same & usual["method"].isin(_SHOWN)]
    return mean_table(shown, ["anchors", column, "n_calibrating", "method"])


def cost_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of each step, averaged over chains, counted as in Habba et al. (2026)."""
    steps = rows[rows["method"].isin(("fixed", "concurrent", "random"))]
    columns = ["asked_subject", "asked_reference", "n_earlier", "seconds", "compiling"]
    costs: pd.DataFrame = steps.groupby(["anchors", "method", "step"], sort=False)[columns].mean()
    return costs.reset_index()


def paper_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return figures that Habba et al. (2026) print, with `ours`, NaN where we have none."""
    printed = read_printed("fpc_printed")
    measured = summary.melt(["anchors", "method"], ["mae", "spearman"], "measure", "ours")
    named = printed.assign(measure=printed["quantity"].str.replace("_low|_high", "", regex=True))
    return named.merge(measured, "left", ["anchors", "method", "measure"]).drop(columns="measure")


def plot_along(along: pd.DataFrame) -> Figure:
    """Draw the error at each step of the chain, with a panel per number of anchors."""
    numbers = list(along["anchors"].unique())
    n_columns = min(len(numbers), _COLUMNS)
    n_rows = -(-len(numbers) // n_columns)
    fig, axes = new_figure(
        3.9 * n_columns, 0.8 + 2.3 * n_rows, n_rows, n_columns, x="step of the chain", sharex=True
    )
    offset = 0.01 * (along["step"].max() - along["step"].min())
    shift = along["method"].map({method: k * offset for k, method in enumerate(_LINES)})
    for ax, (anchors, rows) in zip(axes.flat, along.groupby("anchors", sort=False), strict=False):
        draw_lines(ax, rows.assign(step=rows["step"] + shift), "step", "mae", _LINES, se="mae_se")
        ax.set(title=f"{anchors:.0f} anchors", ylim=(0, None))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.flat[len(numbers) :]:
        ax.set_axis_off()
    fig.supylabel(_ERROR)
    legend_above(fig, axes[0, 0], 4)
    return fig


def plot_rules(rules: pd.DataFrame) -> Figure:
    """Draw the error by the rule that chooses anchors, with a panel per number of anchors."""
    fixed = rules[rules["method"] == "fixed"]
    numbers = list(fixed["anchors"].unique())
    fig, axes = new_figure(6.4, 1.2 + 1.1 * len(numbers), len(numbers), x=f"{_ERROR}, of FPC")
    for ax, anchors in zip(axes.flat, numbers, strict=True):
        rows = fixed[fixed["anchors"] == anchors].sort_values("mae")
        names, error = rows["rule"].map(RULE_WORDS), 2 * rows["mae_se"].fillna(0)
        draw_dots(ax, names, rows["mae"], error)
        ax.set_title(f"{anchors:.0f} anchors")
    return fig


def plot_references(references: pd.DataFrame) -> Figure:
    """Draw the error against the number of reference subjects."""
    ordered = references.sort_values("n_calibrating")
    fig, axes = new_figure(5.4, 3.2, x="reference subjects")
    ax = axes[0, 0]
    draw_lines(ax, ordered, "n_calibrating", "mae", _LINES, se="mae_se")
    log_plain(ax, ordered["n_calibrating"])
    ax.set(title=f"{ordered['anchors'].iloc[0]:.0f} anchors", ylim=(0, None), ylabel=_ERROR)
    ax.legend()
    return fig


def plot_coverage(splits: pd.DataFrame) -> Figure:
    """Draw coverage and error by who is predicted, against the number of anchors."""
    fixed, random = (splits[splits["method"] == name] for name in ("fixed", "random"))
    fig, axes = new_figure(7.8, 3.4, 1, 2, x="anchors of each benchmark")
    left, right = axes[0]
    draw_lines(left, fixed, "anchors", "coverage", _SPLITS, by="split")
    draw_lines(right, fixed, "anchors", "mae", _SPLITS, by="split")
    draw_lines(right, random, "anchors", "mae", _SPLITS, by="split", color=SOFT)
    left.axhline(LEVEL, color=SOFT, lw=1)
    lowest = min(0.6, fixed["coverage"].min() - 0.05)
    left.set(title=f"share of accuracies in {LEVEL:.0%} intervals", ylim=(lowest, 1))
    right.set(title="MAE: FPC (dark), random sampling (faint)", ylim=(0, None))
    for ax in (left, right):
        log_plain(ax, fixed["anchors"])
    legend_above(fig, left, 3, title="subjects", title_fontsize=8)
    return fig

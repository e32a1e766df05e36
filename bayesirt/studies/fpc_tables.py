"""The tables of the FPC study, its claims, and its figures, whose captions are read off them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Study
from bayesirt.studies.figures import draw_lines, legend_above, log_plain, new_figure, study_style
from bayesirt.studies.fpc_chain import MEASURES
from bayesirt.studies.fpc_tasks import METHODS, RULE_WORDS, USUAL_RULE, FPCMatrix
from bayesirt.studies.measures import groups_of, read_notes, read_printed

_BASELINES = ("concurrent", "concurrent_gp_irt", "anchor_mean", "random")
_SHOWN = ("fixed", "fixed_gp_irt", "anchor_mean", "random")
_AIM, _AIM_ANCHORS = 2.5, 100
_FEW_ANCHORS = 25
_WITHIN = 8  # Rows to spare beyond one a benchmark, from which a trend is taken within benchmarks.
_LINES = ("fixed", "concurrent", "random", "fixed_gp_irt")
_NAMES = {name: METHODS[name] for name in _LINES}
_RULES = {
    "clusters": (ACCENT, "o"),
    "random": (SOFT, "v"),
    "discrimination": ("white", "s"),
    "design": (INK, "D"),
    "information": ("white", "^"),
}
_SPLITS = {
    "random": "like the reference",
    "abler": "abler than the reference",
    "families": "of other families",
}
_WHO = {
    "random": "subjects like the reference",
    "abler": "abler ones",
    "families": "other families",
}
_VARIED = ("anchors", "rule", "n_reference", "split")
_CAPTION: dict[str, Any] = {"fontsize": 8, "loc": "left"}
_COLUMNS = 2


def fpc_found(rows: pd.DataFrame, matrix: FPCMatrix) -> Study:
    """Return what the rows of a chain, step and method under a condition say."""
    usual = usual_rows(rows)
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
        "along_the_chain": partial(plot_along, tables["along_the_chain"], tables["trends"]),
        "coverage": partial(plot_coverage, splits),
    }
    for name, plot in (("rules", plot_rules), ("references", plot_references)):
        if len(tables[name]):
            figures[name] = partial(plot, tables[name])
    n_chains = len(rows[[*_VARIED, "chain"]].drop_duplicates())
    return Study(
        f"FPC study of {n_chains} chains of {len(matrix.names)} benchmarks",
        rows,
        tables,
        fpc_claims(tables, matrix),
        read_notes("fpc"),
        figures,
    )


def fpc_claims(tables: Mapping[str, pd.DataFrame], matrix: FPCMatrix) -> Iterator[Claim]:
    """Yield how far predictions are off, against baselines, along the chain, and at what cost."""
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
    return claims_from("fpc", frames, {"method": METHODS, "rule": RULE_WORDS, "split": _WHO})


def _above_with_few(baselines: pd.DataFrame) -> pd.DataFrame:
    """Return with how many of the small numbers of anchors FPC is further off than a baseline."""
    few = baselines[baselines["anchors"] <= _FEW_ANCHORS]
    gaps = few.groupby("method", sort=False)["difference"]
    table = gaps.agg(numbers="size", above=lambda gap: (gap > 0).sum()).reset_index()
    return table.assign(few=_FEW_ANCHORS)


def _beside_the_aim(benchmarks: pd.DataFrame, simulated: bool) -> pd.DataFrame:
    """Return benchmarks, and which of them the paper's aim is for: large ones of real answers."""
    aimed_at = (benchmarks["anchors"] == _AIM_ANCHORS) & (benchmarks["method"] == "fixed")
    return benchmarks.assign(
        aimed_at=aimed_at & (benchmarks["n_items"] > _AIM_ANCHORS) & (not simulated),
        name=benchmarks["benchmark"].map(one_line), aim=_AIM,
    ).sort_values(["n_items", "benchmark"])  # fmt: skip


def usual_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in which nothing but the number of anchors is varied."""
    usual = (rows["rule"] == USUAL_RULE) & (rows["n_reference"] == 0)
    return rows[usual & (rows["split"] == "random")]


def mean_table(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return means over the predictions of each group, with `mae_se` over chains."""
    found = []
    for place, own in groups_of(rows, by):
        chains = own.groupby("chain")["mae"].mean()
        counts = {"chains": len(chains), "predictions": len(own)}
        errors = {"mae": own["mae"].mean(), "mae_se": chains.sem()}
        found.append(place | counts | errors | {name: own[name].mean() for name in MEASURES[1:]})
    columns = [*by, "chains", "predictions", "mae", "mae_se", *MEASURES[1:]]
    return pd.DataFrame(found, columns=columns)


def paired_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how much further off FPC is than each baseline, on the same predictions."""
    place = ["anchors", "chain", "step"]
    mae = rows.pivot(index=place, columns="method", values="mae")
    found = []
    for name in (name for name in _BASELINES if name in mae):
        gap = (mae["fixed"] - mae[name]).dropna()
        for anchors, own in gap.groupby("anchors", sort=False):
            found.append({
                "anchors": anchors, "method": name, "predictions": len(own),
                "difference": own.mean(), "difference_se": own.groupby("chain").mean().sem(),
                "lower": (own <= 0).mean(),
            })  # fmt: skip
    table = pd.DataFrame(found)
    return table.sort_values("anchors", kind="stable", ignore_index=True)


def trend_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the slope of the MAE in points a step, as the chain grows.

    `within` says whether benchmarks are compared with themselves at other steps, where they were
    measured often enough; `steps` go from the first measured to the last.
    """
    found = []
    for place, own in groups_of(rows, ("anchors", "method")):
        within = len(own) - own["benchmark"].nunique() >= _WITHIN
        step, mae, n_means = own["step"], own["mae"], 1
        if within:
            of = own["benchmark"]
            step, mae = (x - x.groupby(of).transform("mean") for x in (step, mae))
            n_means = of.nunique()
        step, mae = step - step.mean(), mae - mae.mean()
        spread, left = (step**2).sum(), len(own) - n_means - 1
        slope = (step * mae).sum() / spread if spread else np.nan
        rest = ((mae - slope * step) ** 2).sum()
        error = np.sqrt(rest / left / spread) if left > 0 else np.nan
        steps = int(own["step"].max() - own["step"].min())
        found.append(place | {"slope": slope, "slope_se": error, "steps": steps, "within": within})
    return pd.DataFrame(found)


def varied_table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what becomes of errors where one thing is varied, on the same chains."""
    others = {"rule": USUAL_RULE, "n_reference": 0, "split": "random"}
    usual = others.pop(column)
    kept = rows[(rows[list(others)] == pd.Series(others)).all(axis=1)]
    varied = kept[kept[column] != usual]
    same = kept["anchors"].isin(varied["anchors"]) & kept["chain"].isin(varied["chain"])
    shown = kept[same & kept["method"].isin(_SHOWN)]
    return mean_table(shown, ["anchors", column, "n_calibrating", "method"])


def cost_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each step costs, means over chains, by the count of Habba et al. (2026)."""
    own = rows[rows["method"].isin(("fixed", "concurrent", "random"))]
    columns = ["asked_subject", "asked_reference", "n_earlier", "seconds", "compiling"]
    found: pd.DataFrame = own.groupby(["anchors", "method", "step"], sort=False)[columns].mean()
    return found.reset_index()


def paper_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return what Habba et al. (2026) print of their data, with `ours`, NaN where we have none."""
    printed = read_printed("fpc_printed")
    ours = summary.set_index(["anchors", "method"])
    columns = {"spearman": "spearman", "mae_low": "mae", "mae_high": "mae"}
    found = []
    for row in printed.itertuples():
        place = (row.anchors, row.method)
        known = row.quantity in columns and place in ours.index
        found.append(float(ours.loc[place, columns[row.quantity]]) if known else np.nan)
    return printed.assign(ours=found)


@study_style()
def plot_along(along: pd.DataFrame, trends: pd.DataFrame) -> Figure:
    """Draw the error at each step of the chain, a panel for each number of anchors."""
    numbers = list(along["anchors"].unique())
    slopes = trends[trends["method"] == "fixed"].set_index("anchors")
    n_columns = min(len(numbers), _COLUMNS)
    n_rows = -(-len(numbers) // n_columns)
    fig, axes = new_figure(3.9 * n_columns, 0.8 + 2.3 * n_rows, n_rows, n_columns, sharex=True)
    beside = 0.01 * (along["step"].max() - along["step"].min())
    shift = along["method"].map({method: k * beside for k, method in enumerate(_LINES)})
    shifted = along.assign(step=along["step"] + shift)
    for ax, anchors in zip(axes.flat, numbers, strict=False):
        own = shifted[shifted["anchors"] == anchors]
        draw_lines(ax, own, "step", "mae", _NAMES, se="mae_se")
        ax.grid(visible=False, axis="x")
        row = slopes.loc[anchors]
        change, error = (row["steps"] * row[name] for name in ("slope", "slope_se"))
        caption = f"{anchors} anchors: FPC {change:+.2f} ± {error:.2f} from first to last"
        ax.set_title(caption, **_CAPTION)
        ax.set_ylim(0, None)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.flat[len(numbers) :]:
        ax.set_axis_off()
    fig.supxlabel("step of the chain")
    fig.supylabel("MAE, points of accuracy")
    legend_above(fig, axes[0, 0], 4)
    return fig


@study_style()
def plot_rules(rules: pd.DataFrame) -> Figure:
    """Draw the error by the rule that chooses anchors, against their number."""
    own = rules[rules["method"] == "fixed"]
    numbers = list(own["anchors"].unique())
    fig, axes = new_figure(6.4, 1.2 + 1.1 * len(numbers), len(numbers))
    for ax, anchors in zip(axes.flat, numbers, strict=True):
        found = own[own["anchors"] == anchors].sort_values("mae", ascending=False)
        names = found["rule"].map(RULE_WORDS)
        error = 2 * found["mae_se"].fillna(0)
        ax.errorbar(found["mae"], names, xerr=error, fmt="none", ecolor=INK, lw=1)
        for row in found.itertuples():
            color, mark = _RULES[row.rule]
            ax.plot(row.mae, RULE_WORDS[row.rule], mark, color=color, mec=INK, ms=6)
        ax.set_title(f"{anchors} anchors: least off with {names.iloc[-1]}", **_CAPTION)
        ax.grid(visible=False, axis="y")
        ax.set_ylim(-0.6, len(found) - 0.4)
    fig.supxlabel("MAE of FPC, points of accuracy")
    return fig


@study_style()
def plot_references(references: pd.DataFrame) -> Figure:
    """Draw the error against the number of reference subjects."""
    ordered = references.sort_values("n_calibrating")
    own = ordered[ordered["method"] == "fixed"]
    fig, axes = new_figure(5.4, 3.2)
    ax, x = axes[0, 0], "n_calibrating"
    draw_lines(ax, ordered, x, "mae", _NAMES, se="mae_se")
    first, last = (f"{row['mae']:.2f} with {row[x]:.0f}" for _, row in own.iloc[[0, -1]].iterrows())
    ax.set_title(f"{own['anchors'].iloc[0]} anchors: FPC is off by {first} and {last}", **_CAPTION)
    log_plain(ax, own[x])
    ax.grid(visible=False, axis="x")
    ax.set_ylim(0, None)
    ax.set(xlabel="reference subjects", ylabel="MAE, points of accuracy")
    ax.legend()
    return fig


@study_style()
def plot_coverage(splits: pd.DataFrame) -> Figure:
    """Draw coverage and error by who is predicted, against the number of anchors."""
    fixed, random = (splits[splits["method"] == name] for name in ("fixed", "random"))
    fig, axes = new_figure(7.8, 3.4, 1, 2)
    left, right = axes[0]
    draw_lines(left, fixed, "anchors", "coverage", _SPLITS, by="split")
    draw_lines(right, fixed, "anchors", "mae", _SPLITS, by="split")
    draw_lines(right, random, "anchors", "mae", _SPLITS, by="split", color=SOFT)
    left.axhline(LEVEL, color=SOFT, lw=1)
    lowest = fixed["coverage"].min()
    left.set_title(f"{LEVEL:.0%} intervals hold {lowest:.0%} at the least", **_CAPTION)
    left.set_ylim(min(0.6, lowest - 0.05), 1)
    right.set_title("MAE of FPC (dark) and random sampling (faint)", **_CAPTION)
    right.set_ylim(0, None)
    for ax in (left, right):
        log_plain(ax, fixed["anchors"])
        ax.grid(visible=False, axis="x")
    left.set_ylabel("share of the intervals")
    right.set_ylabel("points of accuracy")
    fig.supxlabel("anchors of each benchmark")
    legend_above(fig, left, 3, title="subjects", title_fontsize=8)
    return fig

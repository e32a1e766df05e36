"""Claims of the FPC study beside those of Habba et al. (2026); errors are in points of accuracy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.studies.claims import Claim, against_zero, figures_of
from bayesirt.studies.fpc_tasks import METHODS

if TYPE_CHECKING:
    from bayesirt.studies.fpc import FPCStudy

RULE_WORDS = {
    "clusters": "clusters",
    "random": "random items",
    "discrimination": "largest slopes",
    "design": "least expected variance",
    "information": "most information",
}
"""Rules that choose anchors, in words."""

NOTES = (
    "FPC is the posterior mean given all answers to anchors, the new benchmark's and earlier ones; "
    "gp-IRT is the paper's estimator, and a weighted mean of what maximum likelihood and the "
    "anchors alone say. Random sampling asks for as many answers to the same benchmark.",
    "Standard errors are over chains, which share the subjects and, in part, the benchmarks. FPC "
    "is compared with others on the same predictions.",
    "Where nearly all items are anchors, little is left to predict.",
    "The paper counts that concurrent calibration asks for all earlier anchors again. Where "
    "answers were kept, both ask for the same, and differ in computing and in whether earlier "
    "scores move.",
    "Abler subjects are those with the highest mean accuracy, on the same answers that "
    "predictions are compared with.",
    "The paper's figures are of other subjects, items and answers than these: they are not to be "
    "compared digit by digit.",
)
_AIM, _AIM_ANCHORS = 2.5, 100
_FEW_ANCHORS = 25
_INTERVALS = {
    "width": f"width of {LEVEL:.0%} intervals",
    "coverage": f"share of accuracies that {LEVEL:.0%} intervals hold",
}
_SPLIT_WORDS = {
    "random": "subjects like the reference",
    "abler": "abler ones",
    "families": "other families",
}


def fpc_claims(study: "FPCStudy") -> Iterator[Claim]:
    """Yield how far predictions are off, against baselines, along the chain, and at what cost."""
    responses, matrix = study.matrix.responses, study.matrix
    kind = "Simulated answers" if matrix.simulated else "Given answers"
    yield Claim(f"{kind}, subjects", responses.n_subjects)
    yield Claim(f"{kind}, items", responses.n_items)
    yield Claim(f"{kind}, benchmarks that join one by one", len(matrix.names))
    yield from _on_methods(study.summary)
    yield from _on_baselines(study.paired)
    if not matrix.simulated:
        yield from _on_aim(study.benchmarks)
    yield from _on_trends(study.trends)
    yield from _on_costs(study.costs)
    yield from _on_varied(study.varied)
    yield from _on_paper(study.paper)


def _on_methods(summary: pd.DataFrame) -> Iterator[Claim]:
    for row in summary.to_dict("records"):
        words = {"mae": "MAE"}
        if row["method"] in ("fixed", "random"):
            words["spearman"] = "Spearman correlation of ranks"
        if row["method"] == "fixed":
            words |= _INTERVALS
        yield from figures_of(f"{row['anchors']} anchors, {METHODS[row['method']]}", row, words)


def _on_baselines(paired: pd.DataFrame) -> Iterator[Claim]:
    for row in paired.to_dict("records"):
        title = f"{row['anchors']:.0f} anchors, FPC less {METHODS[row['method']]}"
        text = f"{title}, MAE over {row['predictions']} predictions"
        yield against_zero(text, row["difference"], row["difference_se"])
        yield Claim(f"{title}, share of predictions at or below it", row["lower"])
    few = paired[paired["anchors"] <= _FEW_ANCHORS]
    for method, own in few.groupby("method", sort=False):
        text = f"Of {len(own)} numbers of anchors up to {_FEW_ANCHORS}, those with which FPC's MAE"
        yield Claim(f"{text} is above that of {METHODS[method]}", (own["difference"] > 0).sum())


def _on_aim(benchmarks: pd.DataFrame) -> Iterator[Claim]:
    own = benchmarks[(benchmarks["anchors"] == _AIM_ANCHORS) & (benchmarks["method"] == "fixed")]
    own = own[own["n_items"] > _AIM_ANCHORS].sort_values(["n_items", "benchmark"])
    for row in own.itertuples():
        text = f"{_AIM_ANCHORS} anchors, {one_line(row.benchmark)} of {row.n_items:.0f} items, MAE"
        aim = "meets" if row.mae <= _AIM else "misses"
        yield Claim(text, row.mae, verdict=f"{aim} the aim of {_AIM} points")


def _on_trends(trends: pd.DataFrame) -> Iterator[Claim]:
    for row in trends[(trends["method"] == "fixed") & (trends["steps"] > 0)].itertuples():
        text = f"{row.anchors:.0f} anchors, change of FPC's MAE over {row.steps:.0f} steps"
        text += "" if row.within else ", over different benchmarks"
        yield against_zero(text, row.slope * row.steps, row.slope_se * row.steps)


def _on_costs(costs: pd.DataFrame) -> Iterator[Claim]:
    own = costs[costs["anchors"] == costs["anchors"].max()]
    for method in ("fixed", "concurrent"):
        rows = own[own["method"] == method]
        if rows.empty:
            continue
        last = rows.iloc[-1]
        title = f"Cost at the last step with {last['anchors']:.0f} anchors, {METHODS[method]}"
        for who in ("subject", "reference"):
            kind = "new" if who == "subject" else "reference"
            yield Claim(f"{title}, answers asked of a {kind} subject", last[f"asked_{who}"])
        if method == "fixed":
            share = rows["compiling"].sum() / max(rows["seconds"].sum(), 1e-9)
            yield Claim("Mean seconds of a calibration", rows["seconds"].mean())
            yield Claim("Share of these for compiling a new size of the problem", share)


def _on_varied(varied: dict[str, pd.DataFrame]) -> Iterator[Claim]:
    rules = varied["rules"]
    ordered = rules[rules["method"] == "fixed"].sort_values(["anchors", "mae"])
    for row in ordered.to_dict("records"):
        title = f"{row['anchors']} anchors chosen by {RULE_WORDS[row['rule']]}"
        yield from figures_of(title, row, {"mae": "MAE"})
    references = varied["references"].sort_values("n_calibrating")
    for row in references[references["method"] == "fixed"].to_dict("records"):
        title = f"{row['anchors']} anchors, {row['n_calibrating']:.0f} reference subjects"
        yield from figures_of(title, row, {"mae": "MAE", "coverage": _INTERVALS["coverage"]})
    if len(references):
        free = references.loc[references["method"] == "random", "mae"].mean()
        yield Claim("Random sampling, which needs no reference subjects, MAE", free)
    for row in varied["splits"].to_dict("records"):
        title = f"{row['anchors']} anchors, {_SPLIT_WORDS[row['split']]}, {METHODS[row['method']]}"
        more = {"bias": "bias", "coverage": _INTERVALS["coverage"]}
        if row["method"] in ("fixed", "random"):
            fixed = row["method"] == "fixed"
            yield from figures_of(title, row, {"mae": "MAE", **(more if fixed else {})})


def _on_paper(paper: pd.DataFrame) -> Iterator[Claim]:
    for row in paper[(paper["quantity"] == "spearman") & paper["ours"].notna()].itertuples():
        text = f"{row.anchors} anchors, {METHODS[row.method]}, Spearman (paper: {row.suite})"
        yield Claim(text, row.ours, paper=row.value)
    for quantity, end in (("mae_low", "lowest"), ("mae_high", "highest")):
        row = paper[paper["quantity"] == quantity].iloc[0]
        ours = row["ours"] if quantity == "mae_low" else np.nan
        text = f"{row['anchors']} anchors, MAE (paper: about, {end})"
        yield Claim(text, ours, paper=row["value"])

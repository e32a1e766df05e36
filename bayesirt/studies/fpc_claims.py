"""Claims of the FPC study beside those of Habba et al. (2026); errors are in points of accuracy."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.studies.claims import Claim, against_zero, figures_of, rows_of
from bayesirt.studies.fpc_matrix import FPCMatrix
from bayesirt.studies.fpc_tasks import METHODS

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
_MAE = {"mae": "MAE"}
_RANKS = {"spearman": "Spearman correlation of ranks"}
_OF_METHODS = {"fixed": _RANKS | _INTERVALS, "random": _RANKS}
_SPLITS = {
    "random": "subjects like the reference",
    "abler": "abler ones",
    "families": "other families",
}


def fpc_claims(tables: Mapping[str, pd.DataFrame], matrix: FPCMatrix) -> Iterator[Claim]:
    """Yield how far predictions are off, against baselines, along the chain, and at what cost."""
    kind = "Simulated answers" if matrix.simulated else "Given answers"
    yield Claim(f"{kind}, subjects", matrix.responses.n_subjects)
    yield Claim(f"{kind}, items", matrix.responses.n_items)
    yield Claim(f"{kind}, benchmarks that join one by one", len(matrix.names))
    for row in tables["methods"].to_dict("records"):
        words = {**_MAE, **_OF_METHODS.get(row["method"], {})}
        yield from figures_of(f"{row['anchors']} anchors, {METHODS[row['method']]}", row, words)
    yield from _on_baselines(tables["baselines"])
    if not matrix.simulated:
        yield from _on_aim(tables["benchmarks"])
    trends = tables["trends"]
    for row in trends[(trends["method"] == "fixed") & (trends["steps"] > 0)].itertuples():
        text = f"{row.anchors:.0f} anchors, change of FPC's MAE over {row.steps:.0f} steps"
        text += "" if row.within else ", over different benchmarks"
        yield against_zero(text, row.slope * row.steps, row.slope_se * row.steps)
    yield from _on_costs(tables["costs"])
    yield from _on_varied(tables["rules"], tables["references"], tables["splits"])
    yield from _on_paper(tables["paper"])


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


def _on_costs(costs: pd.DataFrame) -> Iterator[Claim]:
    own = costs[costs["anchors"] == costs["anchors"].max()]
    last = own[own["method"].isin(("fixed", "concurrent"))].groupby("method", sort=False).tail(1)
    title = "Cost at the last step with {anchors:.0f} anchors, {method}"
    words = {"asked_subject": "answers asked of a new subject",
             "asked_reference": "answers asked of a reference subject"}  # fmt: skip
    yield from rows_of(last, title, words, method=METHODS)
    rows = own[own["method"] == "fixed"]
    share = rows["compiling"].sum() / max(rows["seconds"].sum(), 1e-9)
    yield Claim("Mean seconds of a calibration", rows["seconds"].mean())
    yield Claim("Share of these for compiling a new size of the problem", share)


def _on_varied(
    rules: pd.DataFrame, references: pd.DataFrame, splits: pd.DataFrame
) -> Iterator[Claim]:
    ordered = rules[rules["method"] == "fixed"].sort_values(["anchors", "mae"])
    yield from rows_of(ordered, "{anchors} anchors chosen by {rule}", _MAE, rule=RULE_WORDS)
    ordered = references[references["method"] == "fixed"].sort_values("n_calibrating")
    words = {**_MAE, "coverage": _INTERVALS["coverage"]}
    yield from rows_of(ordered, "{anchors} anchors, {n_calibrating:.0f} reference subjects", words)
    if len(references):
        free = references.loc[references["method"] == "random", "mae"].mean()
        yield Claim("Random sampling, which needs no reference subjects, MAE", free)
    title, names = "{anchors} anchors, {split}, {method}", {"split": _SPLITS, "method": METHODS}
    for method, more in (("fixed", {"bias": "bias", **words}), ("random", _MAE)):
        yield from rows_of(splits[splits["method"] == method], title, more, **names)


def _on_paper(paper: pd.DataFrame) -> Iterator[Claim]:
    for row in paper[(paper["quantity"] == "spearman") & paper["ours"].notna()].itertuples():
        text = f"{row.anchors} anchors, {METHODS[row.method]}, Spearman (paper: {row.suite})"
        yield Claim(text, row.ours, paper=row.value)
    for quantity, end in (("mae_low", "lowest"), ("mae_high", "highest")):
        row = paper[paper["quantity"] == quantity].iloc[0]
        ours = row["ours"] if quantity == "mae_low" else np.nan
        text = f"{row['anchors']} anchors, MAE (paper: about, {end})"
        yield Claim(text, ours, paper=row["value"])

"""The FPC study: Habba et al. (2026) done again, with intervals and unlike subjects.

Benchmarks join a suite one after another by fixed-parameter calibration; at each step subjects
that were held out are predicted from their answers to anchors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.studies.claims import Claim, against_zero, figures_of, rows_of
from bayesirt.studies.engine import Part, Running, Study, do_tasks
from bayesirt.studies.fpc_tables import (
    cost_table,
    mean_table,
    paired_table,
    paper_table,
    plot_along,
    plot_coverage,
    plot_references,
    plot_rules,
    trend_table,
    usual_rows,
    varied_table,
)
from bayesirt.studies.fpc_tasks import (
    COLUMNS,
    FPC_SIMULATED,
    METHODS,
    PLACE,
    RULE_WORDS,
    FPCDesign,
    FPCMatrix,
    conditions_of,
    given_matrix,
    simulated_matrix,
    tasks_of,
)
from bayesirt.studies.labels import fingerprint
from bayesirt.studies.measures import read_notes, with_conditions
from bayesirt.studies.tasks import PortableKey

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
_MATRIX_SEED = 43
_COLUMNS = {
    "anchors": "n_anchors", "rule": "how", "n_reference": "n_reference", "split": "split"
}  # fmt: skip


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


def fpc_study(
    design: FPCDesign | None = None,
    *,
    key: Array,
    responses: Responses | None = None,
    groups: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
    **running: Unpack[Running],
) -> Study:
    """Do Habba et al. (2026), section 4, again: predict held-out subjects as a suite grows.

    The suite is simulated, or given by complete responses, the benchmark of each item (`groups`)
    and perhaps the family of each subject, to hold whole families out.
    """
    portable = PortableKey.of(key)
    if responses is None:
        for given, option in ((groups, "--groups"), (families, "--families")):
            if given is not None:
                raise ResponseError(f"{option} needs the responses, too; give --responses")
        design = design or FPC_SIMULATED
        matrix = simulated_matrix(design.simulated, portable.rng(_MATRIX_SEED))
    elif groups is None:
        raise ResponseError("a chain needs the benchmark of each item; give --groups")
    else:
        design, matrix = design or FPCDesign(), given_matrix(responses, groups, families)
    settings: dict[str, Any] = {**asdict(design), "key": portable}
    if not matrix.simulated:
        settings |= {"responses": fingerprint(matrix.responses)}
        settings |= {"benchmarks": matrix.benchmarks, "families": matrix.families}
    conditions = conditions_of(design, matrix)
    tasks = tasks_of(design, matrix, conditions, portable)
    logged = do_tasks(tasks, {"chains": Part(PLACE, COLUMNS)}, settings, running)["chains"]
    rows = with_conditions(logged, conditions, _COLUMNS, list(METHODS), replication="chain")
    rows["benchmark"] = [matrix.names[int(b)] for b in rows["benchmark"]]
    return fpc_found(rows, matrix)


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
    n_chains = len(rows[[*_COLUMNS, "chain"]].drop_duplicates())
    return Study(
        f"FPC study of {n_chains} chains of {len(matrix.names)} benchmarks",
        rows,
        tables,
        fpc_claims(tables, matrix),
        read_notes("fpc"),
        figures,
    )

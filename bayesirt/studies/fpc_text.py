"""What the FPC study says in words; every judgement is read off its tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayesirt.names import one_line
from bayesirt.posterior import LEVEL
from bayesirt.studies.fpc_tables import in_words
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
    "Standard errors are over chains, which share the subjects and, in part, the benchmarks.",
    "The paper counts that concurrent calibration asks for all earlier anchors again. Where "
    "answers were kept, both ask for the same, and differ in computing and in whether earlier "
    "scores move.",
    "Abler subjects are those with the highest mean accuracy, on the same answers that "
    "predictions are compared with.",
)
_AIM, _AIM_ANCHORS = 2.5, 100
_FEW_ANCHORS = 25
_ERRORS = 2
_SPLIT_WORDS = {
    "random": "subjects like the reference",
    "abler": "abler ones",
    "families": "other families",
}


def study_in_words(study: "FPCStudy") -> Iterator[str]:
    """Yield the verdict, a few sentences a line."""
    responses = study.matrix.responses
    kind = "Simulated" if study.matrix.simulated else "Given"
    yield (
        f"{kind} answers of {responses.n_subjects:,} subjects to {responses.n_items:,} items of "
        f"{len(study.matrix.names)} benchmarks that join one by one. Errors are in points of "
        f"accuracy (MAE)."
    )
    yield from _on_methods(study.summary)
    yield from _on_baselines(study.paired)
    if not study.matrix.simulated:
        yield from _on_aim(study.benchmarks)
    yield from _on_trends(study.trends)
    yield from _on_costs(study.costs)
    yield from _on_rules(study.varied["rules"])
    yield from _on_references(study.varied["references"])
    yield from _on_splits(study.varied["splits"])
    yield from _on_paper(study.paper)
    yield from (f"Note: {note}" for note in NOTES)


def _on_methods(summary: pd.DataFrame) -> Iterator[str]:
    for anchors, own in summary.groupby("anchors", sort=False):
        rows = own.set_index("method")
        errors = ", ".join(
            f"{METHODS[name]} {_with_error(rows.loc[name, 'mae'], rows.loc[name, 'mae_se'])}"
            for name in METHODS
            if name in rows.index
        )
        fixed = rows.loc["fixed"]
        yield (
            f"{anchors} anchors: MAE of {errors}. FPC ranks with a Spearman correlation of "
            f"{fixed['spearman']:.3f} (random sampling {rows.loc['random', 'spearman']:.3f}), and "
            f"its {LEVEL:.0%} intervals, {fixed['width']:.1f} points wide, hold "
            f"{fixed['coverage']:.1%} of the accuracies."
        )


def _on_baselines(paired: pd.DataFrame) -> Iterator[str]:
    for method, own in paired.groupby("method", sort=False):
        gaps = "; ".join(
            f"{_signed(row.difference, row.difference_se)} with {row.anchors:.0f} anchors, at or "
            f"below in {row.lower:.0%} of {row.predictions} predictions"
            for row in own.itertuples()
        )
        few = own[own["anchors"] <= _FEW_ANCHORS]
        behind = few[few["difference"] > 0]["anchors"]
        verdict = (
            f"At or below it with {_FEW_ANCHORS} anchors and fewer"
            if behind.empty
            else f"Above it with {_listed(behind)} anchors"
        )
        if few.empty:
            verdict = f"Nothing was measured with {_FEW_ANCHORS} anchors or fewer"
        yield f"FPC less {in_words(method)}, on the same predictions: {gaps}. {verdict}."


def _on_aim(benchmarks: pd.DataFrame) -> Iterator[str]:
    own = benchmarks[(benchmarks["anchors"] == _AIM_ANCHORS) & (benchmarks["method"] == "fixed")]
    own = own[own["n_items"] > _AIM_ANCHORS].sort_values(["n_items", "benchmark"])
    if own.empty:
        return
    shown = ", ".join(
        f"{one_line(row.benchmark)} {row.mae:.2f} ({row.n_items:.0f} items)"
        for row in own.itertuples()
    )
    missed = own[own["mae"] > _AIM]["benchmark"]
    verdict = "met on all" if missed.empty else f"missed on {', '.join(map(one_line, missed))}"
    yield (
        f"With {_AIM_ANCHORS} anchors, on benchmarks that have more items: MAE of {shown}. The aim "
        f"of {_AIM} points is {verdict}. Where nearly all items are anchors, little is left to "
        f"predict."
    )


def _on_trends(trends: pd.DataFrame) -> Iterator[str]:
    own = trends[(trends["method"] == "fixed") & (trends["steps"] > 0)]
    if own.empty:
        return
    slopes = "; ".join(
        f"{_signed(row.slope * row.steps, row.slope_se * row.steps)} with {row.anchors:.0f} anchors"
        + ("" if row.within else " (over different benchmarks)")
        for row in own.itertuples()
    )
    rising = own[own["slope"] > _ERRORS * own["slope_se"]]["anchors"]
    verdict = (
        "No error grows beyond two standard errors"
        if rising.empty
        else f"It grows with {_listed(rising)} anchors"
    )
    if own["slope_se"].isna().all():
        verdict = "Too little was measured to say whether it grows"
    yield (
        f"Along the chain, from the first measured step to the last ({own['steps'].max():.0f} "
        f"steps), the MAE of FPC changes by {slopes}. {verdict}."
    )


def _on_costs(costs: pd.DataFrame) -> Iterator[str]:
    own = costs[costs["anchors"] == costs["anchors"].max()]
    fixed, other = (own[own["method"] == name] for name in ("fixed", "concurrent"))
    if fixed.empty:
        return
    last, share = fixed.iloc[-1], fixed["compiling"].sum() / max(fixed["seconds"].sum(), 1e-9)
    text = (
        f"Cost at the last step with {last['anchors']:.0f} anchors: a new subject is asked for "
        f"{last['asked_subject']:.0f} answers and a reference subject for "
        f"{last['asked_reference']:.0f}"
    )
    if len(other):
        end = other.iloc[-1]
        text += (
            f", under concurrent calibration by the paper's count for {end['asked_subject']:.0f} "
            f"and {end['asked_reference']:.0f}"
        )
    yield (
        f"{text}. A calibration took {fixed['seconds'].mean():.1f} s on average, {share:.0%} of it "
        f"compiling for a new size of the problem."
    )


def _on_rules(rules: pd.DataFrame) -> Iterator[str]:
    own = rules[rules["method"] == "fixed"]
    for anchors, found in own.groupby("anchors", sort=False):
        ordered = found.sort_values("mae")
        errors = ", ".join(
            f"{RULE_WORDS[row.rule]} {_with_error(row.mae, row.mae_se)}"
            for row in ordered.itertuples()
        )
        yield f"Anchors chosen by rule, {anchors} of them, best first: MAE of {errors}."


def _on_references(references: pd.DataFrame) -> Iterator[str]:
    own = references[references["method"] == "fixed"].sort_values("n_calibrating")
    if own.empty:
        return
    errors = ", ".join(
        f"{row.mae:.2f} with {row.n_calibrating:.0f} (intervals hold {row.coverage:.1%})"
        for row in own.itertuples()
    )
    yield (
        f"Reference subjects, {own['anchors'].iloc[0]} anchors: MAE of {errors}; random sampling, "
        f"which needs none, "
        f"{references.loc[references['method'] == 'random', 'mae'].mean():.2f}."
    )


def _on_splits(splits: pd.DataFrame) -> Iterator[str]:
    for anchors, found in splits.groupby("anchors", sort=False):
        shown = []
        for split, own in found.groupby("split", sort=False):
            rows = own.set_index("method")
            fixed = rows.loc["fixed"]
            shown.append(
                f"{_SPLIT_WORDS[str(split)]} {fixed['mae']:.2f} (bias {fixed['bias']:+.2f}, "
                f"intervals hold {fixed['coverage']:.1%}; random sampling "
                f"{rows.loc['random', 'mae']:.2f})"
            )
        yield f"Who is predicted, {anchors} anchors: MAE of {', '.join(shown)}."


def _on_paper(paper: pd.DataFrame) -> Iterator[str]:
    known = paper[(paper["quantity"] == "spearman") & paper["ours"].notna()]
    for suite, own in known.groupby("suite", sort=False):
        shown = "; ".join(
            f"{in_words(method)} "
            + ", ".join(
                f"{row.value:.2f} and {row.ours:.2f} with {row.anchors:.0f}"
                for row in rows.itertuples()
            )
            for method, rows in own.groupby("method", sort=False)
        )
        yield f"Spearman correlations, the paper's on its {suite} data and ours on this: {shown}."
    low, high = (paper.loc[paper["quantity"] == name].iloc[0] for name in ("mae_low", "mae_high"))
    ours = "" if np.isnan(low["ours"]) else f"; ours on this, {low['ours']:.2f}"
    yield (
        f"The paper's MAE with {low['anchors']:.0f} anchors, on its data, is about "
        f"{low['value']:.0f} to {high['value']:.0f} points{ours}. These are other subjects, items "
        f"and answers than the paper's: figures are not to be compared digit by digit."
    )


def _with_error(value: float, error: float) -> str:
    return f"{value:.2f}" if np.isnan(error) else f"{value:.2f} ± {error:.2f}"


def _signed(value: float, error: float) -> str:
    return f"{value:+.2f}" if np.isnan(error) else f"{value:+.2f} ± {error:.2f}"


def _listed(numbers: pd.Series) -> str:
    return " and ".join(f"{number:.0f}" for number in numbers)

"""Claims of the abilities study beside those of Zhang et al. (2026)."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.abilities_consistency import ESTIMATES, MORE_THAN
from bayesirt.studies.abilities_coverage import QUANTITIES
from bayesirt.studies.abilities_matrix import CORRELATION, AbilityMatrix
from bayesirt.studies.abilities_tables import t_bound
from bayesirt.studies.abilities_unseen import MOST_DRAWN, PREDICTORS
from bayesirt.studies.claims import Claim, figures_of, rows_of, sign_of, spanning
from bayesirt.studies.measures import read_notes, read_printed

_MOST_FINDINGS = 3
_PAPERS_SPLITS = 10
_PLACES = ("MMLU-MATH", "MMLU-Pro-MATH", "MATH500")
_OVER_SPLITS = "mean sd of AUC over splits", "MMLU-MATH"
_STRENGTHS = {"strong": "strong (rho > .7)", "moderate": "moderate (> .5)", "weak": "weak (> .3)",
              "none": "none of these"}  # fmt: skip
_ACROSS = ("learnt", "learnt, average", "neural", "neural, average", "items", "own items")
_COMPARED = (
    ("learnt", "learnt, average"), ("neural", "neural, average"), ("learnt", "both"),
    ("learnt", "items"), ("neural", "items"),
)  # fmt: skip
_AGREEMENT = {
    "correlation": "correlation of its chances with those of the point estimate",
    "mean_difference": "mean difference from these",
    "auc_posterior": "AUC",
    "auc_point": "AUC of the point estimate",
    "log_score_posterior": "log score",
    "log_score_point": "log score of the point estimate",
    "r_hat_above": "share of R-hats above 1.01",
}


def ability_claims(
    tables: Mapping[str, pd.DataFrame], matrix: AbilityMatrix, prediction: pd.DataFrame
) -> Iterator[Claim]:
    """Yield what intervals hold, what abilities go with, and what unseen items say of them."""
    yield from _on_coverage(tables["intervals"])
    yield from _on_matrix(matrix)
    yield from _on_criterion(tables["criteria"])
    yield from _on_consistency(tables["consistencies"])
    yield from _on_unseen_items(tables["unseen_items"])
    yield from _on_profiles(tables["unseen_items"], prediction)
    title = "Full posterior on one split (predict_items)"
    yield from rows_of(tables["full_posterior"], title, _AGREEMENT)
    yield from _on_across(tables["across_benchmarks"])


def ability_notes(matrix: AbilityMatrix) -> Iterator[str]:
    """Yield what keeps abilities from being told apart, what was left out, and the notes."""
    findings = matrix.q.findings()
    yield from (f"The Q-matrix: {finding}." for finding in findings[:_MOST_FINDINGS])
    if len(findings) > _MOST_FINDINGS:
        yield f"The Q-matrix: {len(findings) - _MOST_FINDINGS} more findings of this kind."
    if matrix.responses.n_observed > MOST_DRAWN:
        yield f"No full posterior is drawn of more than {MOST_DRAWN:,} responses."
    yield from read_notes("abilities")


def printed(table: str, quantity: str, place: str) -> float:
    """Return a figure that Zhang et al. (2026) print."""
    rows = read_printed("abilities_printed").set_index(["table", "quantity", "place"])["value"]
    return float(rows[table, quantity, place])


def predictor_in_words(name: str) -> str:
    """Return a predictor's name that needs no other."""
    return PREDICTORS[name].replace("the same", PREDICTORS[name.split(",")[0]])


def paired_gain(prediction: pd.DataFrame, one: str, other: str) -> tuple[float, float]:
    """Return by how much one predictor's AUC is above another's, and its bound."""
    by_split = prediction.pivot(index="split", columns="method", values="auc")
    gains = (by_split[one] - by_split[other]).dropna()
    n = len(gains)
    return float(gains.mean()), float(gains.std() / np.sqrt(n)) * t_bound(n)


def _on_coverage(coverage: pd.DataFrame) -> Iterator[Claim]:
    sizes = "{n_subjects:.0f} x {n_items:.0f} with {n_abilities:.0f} abilities"
    title = f"{{suites}} suites of {sizes}, drawn from the model itself"
    words = {
        "rho_theta": "correlation of posterior means of abilities with the truth",
        "r_hat_above": "share of R-hats above 1.01",
        "r_hat_highest": "highest R-hat",
    }
    once = coverage["quantity"] == "theta" if len(coverage) else []
    yield from rows_of(coverage[once], title, words)
    for row in coverage.to_dict("records"):
        text = f"coverage of {LEVEL:.0%} intervals of {QUANTITIES[row['quantity']]}"
        claim = spanning(f"{title.format(**row)}, {text}", row, "coverage")
        holds = "holds" if row["low"] <= LEVEL <= row["high"] else f"misses {LEVEL:.0%}"
        yield claim._replace(verdict=f"{claim.verdict} between suites: {holds}")


def _on_matrix(matrix: AbilityMatrix) -> Iterator[Claim]:
    counts = matrix.q.needs.sum(0)
    facts = {
        "subjects": matrix.responses.n_subjects,
        "items": matrix.responses.n_items,
        "abilities": matrix.q.n_abilities,
        f"abilities needed by more than {MORE_THAN} items": int((counts > MORE_THAN).sum()),
        "largest share of items that need one": counts.max() / matrix.q.n_items,
    }
    if matrix.truth is not None:
        in_logits = "standard deviation in logits of what"
        facts |= {
            "correlation of each pair of abilities": CORRELATION,
            f"{in_logits} an ability adds to an intercept": float(matrix.truth["sigma_beta"]),
            f"{in_logits} is the item's own": float(matrix.truth["sigma_d"]),
        }
    title = "Given matrix" if matrix.truth is None else "Simulated matrix"
    yield from (Claim(f"{title}, {text}", value) for text, value in facts.items())


def _on_criterion(criterion: pd.DataFrame) -> Iterator[Claim]:
    if criterion.empty:
        yield Claim(f"Criterion, abilities needed by more than {MORE_THAN} items", 0)
    for row in criterion.to_dict("records"):
        of = row["criterion"]
        of = of if of.startswith("true") else f"accuracy on {of}"
        title = f"Criterion, {of}, by {ESTIMATES[row['method']]}, {row['abilities']} of the"
        words = {"median_rho": "median rho"}
        if row["criterion"] == "the same items":
            every = row["method"] in ("q-mirt", "neural")
            words |= _STRENGTHS if every else {"strong": _STRENGTHS["strong"]}
        yield from figures_of(f"{title} abilities", row, words)
    places = [(p, "moderate at least") for p in ("chemistry", "physics", "computer science")]
    for place, what in (*places, ("mathematics", "strong in two benchmarks at least")):
        n, paper = printed("criterion", "abilities", place), printed("criterion", what, place)
        text = what.replace("two benchmarks at least", "two of three benchmarks")
        yield Claim(f"Of {n:.0f} abilities in {place}, {text}", np.nan, paper=paper)


def _on_consistency(consistency: pd.DataFrame) -> Iterator[Claim]:
    if consistency.empty:
        yield Claim(f"Consistency, abilities with more than {MORE_THAN} items on both sides", 0)
    words = {"median_rho": "median rho", "share_moderate": "share above .5"}
    papers = {
        "median_rho": printed("consistency", "median rho", "benchmark pairs"),
        "share_moderate": printed("consistency", "share above 0.5", "benchmark pairs"),
    }
    for row in consistency.to_dict("records"):
        of = f"{row['abilities']} of the abilities, needed by more than {MORE_THAN} items"
        title = f"Consistency, {row['items']}, {of} on both sides, {ESTIMATES[row['method']]}"
        yield from figures_of(title, row, words, papers)
        if row["method"] == "q-mirt" and np.isfinite(row["median_rho_others"]):
            others = f"{title}, median rho with other abilities of the other side"
            gap = row["median_rho"] - row["median_rho_others"]
            part = "mostly" if gap < row["median_rho"] / 2 else "only partly"
            shared = f"what is consistent is {part} what abilities have in common"
            yield Claim(others, row["median_rho_others"])
            yield Claim(f"{title}, more with itself than with these", gap, verdict=shared)


def _on_unseen_items(table: pd.DataFrame) -> Iterator[Claim]:
    words = {"auc": "AUC within a subject", "auc_sd": "its standard deviation over subjects"}
    for row in table.to_dict("records"):
        sizes = f"{row['splits']} random splits, {row['new_items']:.0f} new ones each"
        title = f"Unseen items, {sizes}, {predictor_in_words(row['method'])}"
        chances = {"log_score": "log score of all answers"} if np.isfinite(row["log_score"]) else {}
        yield from figures_of(title, row, words | chances)
    neural = table.set_index("method").loc["neural"]
    spread = "standard deviation of AUC over subjects, the paper's on MMLU-MATH (Table 4)"
    for text, column, quantity, place in (
        *((f"AUC, the paper's on {place}", "auc", "mean AUC", place) for place in _PLACES),
        (spread, "auc_sd", "sd of AUC over subjects", "MMLU-MATH"),
        ("standard deviation of a subject's AUC over splits", "", *_OVER_SPLITS),
    ):
        here, paper = neural.get(column, np.nan), printed("within", quantity, place)
        yield Claim(f"NeuralCD, {text}", here, paper=paper)
    text = f"NeuralCD, what of a subject's AUC {_PAPERS_SPLITS} splits leave to chance"
    left = printed("within", *_OVER_SPLITS) / np.sqrt(_PAPERS_SPLITS)
    yield Claim(text, np.nan, paper=round(left, 4))


def _on_profiles(table: pd.DataFrame, prediction: pd.DataFrame) -> Iterator[Claim]:
    auc = table.set_index("method")["auc"]
    for name in ("learnt", "neural"):
        above, average = (auc[x] - 0.5 for x in (name, f"{name}, average"))
        if above > 0:
            text = "share of its AUC above .5 that averaging over subjects leaves"
            left = 1.0 if average >= above else max(average, 0.0) / above
            yield Claim(f"{PREDICTORS[name]}, {text}", left)
    for one, other in _COMPARED:
        gain, bound = paired_gain(prediction, one, other)
        text = f"AUC of {predictor_in_words(one)} less that of {predictor_in_words(other)}"
        verdict = f"95% bounds ± {bound:.3f}: {sign_of(gain - bound, gain + bound)}"
        yield Claim(text, gain, verdict=verdict)


def _on_across(across: pd.DataFrame) -> Iterator[Claim]:
    for (source, target), own in across.groupby(["source", "target"], sort=False):
        rows = own.set_index("method")
        n_new, n_items = (int(rows[name].iloc[0]) for name in ("new_items", "items"))
        title = f"From {source} to {target}"
        verdict = "" if n_new else "nothing can be predicted"
        text = f"{title}, of {n_items} items those that need an ability of the former's"
        yield Claim(text, n_new, verdict=verdict)
        for name in _ACROSS if n_new else ():
            yield Claim(f"{title}, AUC, {predictor_in_words(name)}", rows.loc[name, "auc"])
    if across["new_items"].sum():
        rows = read_printed("abilities_printed").query("table == 'across'")
        means = rows.loc[rows["quantity"] == "mean AUC", "value"]
        for what, paper in (("lowest", means.min()), ("highest", means.max())):
            yield Claim(f"NeuralCD across benchmarks, {what} AUC", np.nan, paper=paper)

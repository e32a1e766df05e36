"""Claims of the LaRT study beside those of Xu et al. (2026)."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.claims import (
    Claim,
    against_zero,
    at_least,
    difference,
    figures_of,
    rows_of,
    spanning,
)
from bayesirt.studies.lart_matrix_tasks import PREDICTIONS
from bayesirt.studies.lart_suites import ANSWERS, DRAWN, EM_METHODS, LENGTHS, SAEM_METHODS
from bayesirt.studies.lart_tables import PLACE
from bayesirt.studies.study_rows import groups_of, read_printed

SYMBOLS = {
    "theta": "θ", "a": "a", "d": "d", "phi": "φ", "omega": "ω", "lam": "λ", "rho": "ρ",
}  # fmt: skip
INTERVAL_LABELS = {
    ("irt", "asymptotic"): "IRT, closed form",
    ("lart", "asymptotic"): "LaRT, equation 10",
    ("lart", "finite"): "LaRT, finite length",
    ("lart", "given_items"): "LaRT, posterior sd given items",
    (DRAWN, "posterior"): "LaRT, full posterior",
}
MEASURES = {"absolute_error": "mean absolute error", "log_score": "log score"}
_SHOWN_ITEMS = (10, 20, 50, 100, 200)
_OUTLIER = 2
"""Times EM's largest error from which on SAEM's is called an outlier."""

NOTES = (
    "Xu et al. (2026) plot their simulation (Figures 1, 2, 10 and 11) and print no figure of it, "
    "so it is compared in kind only: the paper finds LaRT better on all parameters, uniformly, and "
    "outliers of a and d and larger errors throughout after the burn-in. N(0, 0.5) is read as a "
    "variance, λ as one too.",
    "Abilities here are posterior means where the paper has posterior modes, and both models are "
    "fitted by exact EM with a weak prior (standard deviation 10 of a and d) where the paper has "
    "SAEM. The paper does not say how many iterations its SAEM runs; ours runs the design's.",
    "Our SAEM takes an expectation over the latent answers and one step of a closed form where "
    "the paper's maximises anew by L-BFGS: this makes the burn-in's α = 1 far less noisy.",
    "Equation 10 holds in the limit of endless many lengths; the finite-length interval has "
    "1/(1 - ρ²) replaced by 1 + ρ²/(1 - ρ² + 1/P). Both take items as known, which the full "
    "posterior does not. Text and tables of the paper print no coverage.",
)
MATRIX_NOTES = (
    "The paper says of its benchmarks that the abler take longer, so that ρ is below 0. Rows of "
    "one base subject are alike: where it is given, the interval by base subjects is the one.",
    "Table 1 is of AMC23, AIME24 and AIME25 together (128 x 100), divided once. The paper does "
    "not say whether lengths of the items left out were looked at; both ways are shown. Here "
    "every subject is held out once a repetition, its ability estimated from four folds of items "
    "whose parameters come from other subjects. The absolute error rewards predictions that are "
    "too sure; the log score does not. What dividing by base subject changes, items owe to the "
    "twin of a row that is held out, and to the chance of other folds.",
    "Validity: a variance of 0 is had by giving everyone the same ability, and LaRT's sets agree "
    "for being of the same speed, too. So ranks, and accuracy on all other items, are shown beside "
    "it. The paper does not print its divisor; ours is the number of sets.",
    "'Scaled Euclidean distance' is not defined in the paper; ours is the root mean square. Each "
    "model is held against its own estimate from all data, as in the paper, which is no truth. "
    "For either model, subject efficiency takes the hundred items of most information by LaRT.",
    "Item efficiency chooses items by equation 10, each from what the subject answered before; "
    "items are as fitted to all subjects, those tested among them.",
)


def simulation_claims(
    recovery: pd.DataFrame, seconds: pd.DataFrame, saem: pd.DataFrame, coverage: pd.DataFrame
) -> Iterator[Claim]:
    """Yield what lengths add to the recovery of parameters, what SAEM does, and coverage."""
    for row in recovery.to_dict("records"):
        title = f"Simulated, {_condition(row)}, {row['replications']} suites"
        symbol = SYMBOLS[row["parameter"]]
        if row["parameter"] in LENGTHS:
            yield Claim(f"{title}, mean error of {symbol}", row["lart"])
            continue
        words = {"lart": "LaRT", "irt": "probit IRT", "lart_wins": "share where LaRT's is less"}
        yield from figures_of(f"{title}, RMSE of {symbol}", row, words)
        text = f"{title}, RMSE of {symbol}, IRT's less LaRT's"
        yield against_zero(text, row["gain"], row["gain_se"])
    for row in seconds.to_dict("records"):
        text = f"Median seconds of a fit, {_condition(row)}, {row['method']}"
        failed = row["method"] in EM_METHODS and row["converged"] < 1
        verdict = f"{1 - row['converged']:.0%} did not converge" if failed else ""
        yield Claim(text, row["seconds"], verdict=verdict)
    for place, own in groups_of(saem, PLACE):
        yield from _on_saem(_condition(place), own)
    for place, own in groups_of(coverage, PLACE):
        title = f"{LEVEL:.0%} intervals of θ, {_condition(place)}"
        yield from _on_coverage(title, own.set_index(["method", "interval"]))


def _condition(place: Mapping[str, Any]) -> str:
    return "{n_subjects:.0f} x {n_items:.0f}, rho {rho:g}".format(**place)


def _on_saem(condition: str, own: pd.DataFrame) -> Iterator[Claim]:
    words = {**{f"rmse_{name}": f"RMSE of {SYMBOLS[name]}" for name in ANSWERS},
             "worst_a": "worst RMSE of a"}  # fmt: skip
    gaps = {"gap": "log likelihood below EM's, median", "largest_gap": "the same, largest"}
    title = f"{condition}, {{replications:.0f}} suites, {{method}}"
    of_em, of_saem = own[own["method"] == "lart"], own[own["method"] != "lart"]
    yield from rows_of(of_em, title, words, method={"lart": "EM"})
    yield from rows_of(of_saem, title, words | gaps, method=SAEM_METHODS)
    table = own.set_index("method")
    spectral, burn_in = table.loc["saem spectral"], table.loc["saem burn-in"]
    errors = [f"rmse_{name}" for name in ANSWERS]
    apart = (spectral[errors] - burn_in[errors]).astype(float).abs().max()
    closer = "spectral start" if spectral["gap"] < burn_in["gap"] else "burn-in"
    text = f"{condition}, largest difference of RMSE between the two of SAEM"
    yield Claim(text, apart, verdict=f"the {closer} ends closer to the optimum")
    text = f"{condition}, worst RMSE of a after the burn-in over EM's"
    times = burn_in["worst_a"] / table.loc["lart", "worst_a"]
    yield Claim(text, times, verdict="outliers" if times > _OUTLIER else "no outliers")


def _on_coverage(title: str, found: pd.DataFrame) -> Iterator[Claim]:
    for key, label in INTERVAL_LABELS.items():
        if key in found.index:
            row, text = found.loc[key], f"{title}, {label}"
            claim = at_least(f"{text}, coverage", row["coverage"], row["coverage_se"], LEVEL)
            spread = f"{claim.verdict}, by two standard errors of {2 * row['coverage_se']:.1%}"
            yield claim._replace(verdict=spread)
            yield Claim(f"{text}, width", row["width"])
    width = found["width"]
    finite, text = width["lart", "finite"], f"{title}, finite length"
    wider = finite / width["lart", "asymptotic"] - 1
    yield Claim(f"{text}, share by which it is wider than by equation 10", wider)
    narrower = 1 - finite / width["irt", "asymptotic"]
    yield Claim(f"{text}, share by which it is narrower than IRT's", narrower)
    if (DRAWN, "posterior") in found.index:
        text = f"{title}, share by which items that are not known widen the posterior's"
        yield Claim(text, width[DRAWN, "posterior"] / finite - 1)


def matrix_claims(tables: Mapping[str, pd.DataFrame], n_items: int) -> Iterator[Claim]:
    """Yield what lengths are worth on the given matrix."""
    subjects, fits = tables["matrix_subjects"], tables["matrix_fits"]
    yield Claim("Matrix, subjects", len(subjects))
    yield Claim("Matrix, items", n_items)
    yield Claim("Matrix, base subjects", subjects["group"].nunique())
    words = {"seconds": "seconds of the fit, with compilation",
             "width_finite": "mean width of the 90% intervals of θ",
             "width_asymptotic": "the same by equation 10"}  # fmt: skip
    yield from rows_of(fits, "Matrix, {method}", words, method=EM_METHODS)
    words = {"iterations": "iterations, not converged"}
    yield from rows_of(fits[~fits["converged"]], "Matrix, {method}", words, method=EM_METHODS)
    for row in tables["matrix_rho"].to_dict("records"):
        text = f"Correlation of ability and speed, 90% interval by {row['interval']}"
        yield difference(text, row["rho"], row["low"], row["high"])
    yield from _on_prediction(tables["matrix_prediction"])
    yield from _on_validity(tables["matrix_validity"].set_index("method"))
    yield from _on_efficiency(tables["matrix_item_efficiency"], tables["matrix_subject_efficiency"])
    criterion = tables.get("matrix_criterion", pd.DataFrame())
    for row in criterion.to_dict("records"):
        text = f"Criterion, {row['coefficient']} over {row['subjects']} subjects, {row['method']}"
        if row["method"] == "lart less irt":
            yield difference(text, row["value"], row["low"], row["high"])
        else:
            yield spanning(text, row)


def _on_prediction(prediction: pd.DataFrame) -> Iterator[Claim]:
    for row in prediction.to_dict("records"):
        title = f"Answers left out, split {row['split']}, {MEASURES[row['measure']]}"
        title = f"{title}, {PREDICTIONS[row['method']]}"
        yield Claim(title, row["value"])
        if row["method"] != "irt":
            yield difference(f"{title}, gain on IRT", row["gain"], row["low"], row["high"])
    printed = read_printed("lart_printed").query("table == 'prediction' and place == 'average'")
    for row in printed.to_dict("records"):
        yield Claim(f"Average of Table 1, {EM_METHODS[row['method']]}", np.nan, paper=row["value"])
    both = prediction.pivot_table(
        index=["method", "measure"], columns="split", values="value", sort=False
    )
    if both.shape[1] > 1:
        change = both["by base subject"] - both["by row"]
        for name, measure in product(EM_METHODS, MEASURES):
            text = f"{MEASURES[measure]} of {EM_METHODS[name]}, by base subject less by row"
            yield Claim(text, change[name, measure])


def _on_validity(table: pd.DataFrame) -> Iterator[Claim]:
    title = "Validity, variance of an ability over five disjoint sets"
    printed = read_printed("lart_printed").query("table == 'validity'").set_index("method")["value"]
    words = {"variance_sum": "summed (paper: MATH500)",
             "within_share": "as a share of the variance of all abilities",
             "rho_sets": "Spearman of two sets",
             "rho_rest": "Spearman of a set and the accuracy on all other items"}  # fmt: skip
    for name, label in EM_METHODS.items():
        papers = {"variance_sum": float(printed[name])}
        yield from figures_of(f"{title}, {label}", table.loc[name], words, papers)
    gap = table.loc["lart"] - table.loc["irt"]
    verdict = "LaRT varies less between sets" if gap["variance_sum"] < 0 else "LaRT varies MORE"
    yield Claim(f"{title}, LaRT's sum less IRT's", gap["variance_sum"], verdict=verdict)
    verdict = "LaRT ranks more as other items do" if gap["rho_rest"] > 0 else "LaRT ranks LESS so"
    text = f"{title}, LaRT's Spearman with the accuracy on other items less IRT's"
    yield Claim(text, gap["rho_rest"], verdict=verdict)


def _on_efficiency(items: pd.DataFrame, subjects: pd.DataFrame) -> Iterator[Claim]:
    words = {"distance": "distance of abilities from those by all items", "rho": "Spearman"}
    shown, title = items[items["n_items"].isin(_SHOWN_ITEMS)], "Item efficiency"
    yield from rows_of(shown, f"{title}, {{n_items:.0f}} items, {{method}}", words,
                       method=EM_METHODS)  # fmt: skip
    wide = items.pivot(index="n_items", columns="method", values="distance")
    text = f"{title}, share of the numbers of items at which LaRT is the closer (paper: most)"
    yield Claim(text, (wide["lart"] < wide["irt"]).mean())
    own = read_printed("lart_printed").query("table == 'subject_efficiency'")
    printed = {(r.place, r.method, r.quantity[-1]): r.value for r in own.itertuples()}
    words = {f"{kind}_{name}": f"distance of {name} from that by all{median}" for name in "ad"
             for kind, median in (("distance", ""), ("typical", ", median"))}  # fmt: skip
    for row in subjects.to_dict("records"):
        n, method = f"{row['n_subjects']:.0f}", row["method"]
        papers = {f"distance_{name}": printed.get((n, method, name), np.nan) for name in "ad"}
        title = f"Subject efficiency, {n} subjects, {EM_METHODS[method]}"
        yield from figures_of(title, row, words, papers)

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
from bayesirt.studies.lart_tables import INTERVAL_LABELS, MEASURES, PLACE, SYMBOLS
from bayesirt.studies.measures import groups_of, read_printed

_SHOWN_ITEMS = (10, 20, 50, 100, 200)
_OUTLIER = 2  # Times EM's largest error from which on SAEM's is called an outlier.


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

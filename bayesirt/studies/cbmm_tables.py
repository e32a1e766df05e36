"""The tables of the cBMM study, from its replications."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.studies.cbmm_measures import BOUNDS
from bayesirt.studies.cbmm_methods import POINT_METHODS, POSTERIORS
from bayesirt.studies.cbmm_tasks import PARAMETERS
from bayesirt.studies.study_rows import read_printed

MEASURES = ("rho_theta", "rho_a", "rmse_d", "eta_error", "hellinger", "seconds")

_KEPT = (*MEASURES, "cv_a", "rho_average", "rho_average_top", "average_rho_theta", "iterations")


def recovery_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how well each method recovers each design.

    One row a factor, value and method: replications, share converged, mean and standard deviation
    of each measure, median time, the mean ratio of times to those of MM, and for MM the share of
    suites in which its log likelihood is below Newton's.
    """
    point = replications[replications["method"].isin(list(POINT_METHODS))]
    place = ["factor", "value", "n_subjects", "n_items"]
    of_mm = point[point["method"] == "mm"].set_index([*place, "replication"])["seconds"]
    own = point.set_index([*place, "replication"])["seconds"]
    point = point.assign(
        time_ratio=(own / of_mm.reindex(own.index)).to_numpy(), behind=_behind(point, place)
    )
    groups = point.groupby([*place, "method"], sort=False)
    table = pd.DataFrame({"replications": groups.size(), "converged": groups["converged"].mean()})
    for name in _KEPT:
        table[name] = groups[name].median() if name == "seconds" else groups[name].mean()
        table[f"{name}_sd"] = groups[name].std(ddof=0)
    for name in ("time_ratio", "behind"):
        table[name] = groups[name].mean()
    return table.reset_index()


def _behind(point: pd.DataFrame, place: list[str]) -> NDArray[np.float64]:
    """Return whether MM's log likelihood is below Newton's, which its prior holds back."""
    own = point.set_index([*place, "replication"])["log_likelihood"]
    newton = own[(point["method"] == "newton").to_numpy()]
    short = (own < newton.reindex(own.index)).to_numpy(float)
    return np.where(point["method"] == "mm", short, np.nan)


def redundancy_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how well items with a = 0 are found, by each rule.

    One row a sparsity and rule: method, q (NaN where a rule has no bound), replications, items
    declared redundant a suite, precision and recall of declaring them so, the mean false share with
    its standard error (0 where none is declared), whether that is within q, and the paper's
    precision and recall, which call a ≠ 0 the discovery.
    """
    sparse = replications[replications["factor"] == "sparsity"]
    rows = []
    for place, own in sparse.groupby(["value", "method"], sort=False):
        for rule, q, declared, right in _rules(str(place[1])):
            part = own[own[declared].notna()]
            if len(part):
                rows.append({
                    "sparsity": place[0], "method": place[1], "rule": rule, "q": q,
                    **_shares(part["items"], part["nil"], part[declared], part[right]),
                })  # fmt: skip
    table = pd.DataFrame(rows)
    if len(table):
        # A false share below q in expectation may exceed it in a mean of few suites.
        low = table["false_share"] - 2 * table["false_share_se"].fillna(np.inf)
        table["holds"] = np.where(
            table["q"].isna(), "no bound",
            np.where(table["false_share"] <= table["q"], "yes",
                     np.where(low <= table["q"], "within noise", "no")),
        )  # fmt: skip
    return table


def _rules(method: str) -> list[tuple[str, float, str, str]]:
    if method in POSTERIORS:
        return [(f"{method}, q = {q:g}", q, f"listed_{q:g}", f"listed_right_{q:g}") for q in BOUNDS]
    return [
        (f"{method}: a = 0", np.nan, "zeros", "zeros_right"),
        (f"{method}: a < {HARDLY_DISCRIMINATES}", np.nan, "small", "small_right"),
    ]


def _shares(
    items: pd.Series, nil: pd.Series, declared: pd.Series, right: pd.Series
) -> dict[str, float]:
    false = ((declared - right) / declared.where(declared > 0)).fillna(0.0)
    found = (items - nil) - (declared - right)  # rightly not declared: the paper's discoveries
    kept = items - declared
    return {
        "replications": len(declared),
        "declared": declared.mean(),
        "precision": right.sum() / declared.sum() if declared.sum() else np.nan,
        "recall": right.sum() / nil.sum() if nil.sum() else np.nan,
        "false_share": false.mean(),
        "false_share_se": false.sem() if len(false) > 1 else np.nan,
        "paper_precision": found.sum() / kept.sum() if kept.sum() else np.nan,
        "paper_recall": found.sum() / (items - nil).sum(),
    }


def stability_table(starts: pd.DataFrame) -> pd.DataFrame:
    """Return how alike the fits from random starts are, beside Tables A.1 to A.3.

    One row a method, parameter and pair of variances: mean, standard deviation and lowest of
    Spearman's ρ, fits' mean iterations; for MM the lowest and highest printed mean, and the largest
    printed standard deviation, of six suites.
    """
    places = ["parameter", "variance_one", "variance_two"]
    printed = read_printed("cbmm_stability").groupby(places)
    of_paper = pd.DataFrame({
        "printed_lowest": printed["mean"].min(),
        "printed_highest": printed["mean"].max(),
        "printed_largest_sd": printed["sd"].max(),
    }).reset_index()  # fmt: skip
    parts = []
    for name in PARAMETERS:
        groups = starts.groupby(["method", "variance_one", "variance_two"])
        rho = groups[f"rho_{name}"]
        parts.append(
            pd.DataFrame({
                "runs": rho.size(), "mean": rho.mean(), "sd": rho.std(ddof=0), "lowest": rho.min(),
                "reversed": rho.apply(lambda x: int((x < 0).sum())),
                "iterations": groups["iterations"].mean(), "converged": groups["converged"].mean(),
            }).reset_index().assign(parameter=name)
        )  # fmt: skip
    table = pd.concat(parts, ignore_index=True).merge(of_paper, on=places, how="left")
    beside = [c for c in of_paper.columns if c.startswith("printed")]
    table.loc[table["method"] != "mm", beside] = np.nan
    return table[["method", *places, *[c for c in table.columns if c not in ("method", *places)]]]


def heterogeneity_table(recovery: pd.DataFrame, looked: pd.DataFrame) -> pd.DataFrame:
    """Return ρ of ability and accuracy against the spread of a, of all complete designs.

    One row a suite and method of cBMM: coefficient of variation of the estimated a, ρ for all and
    for the top 20%, and, where abilities are known, ρ of θ and of the accuracy with the truth.
    """
    shown = recovery["factor"].isin(["base", "sparsity", "spread"])
    cbmm = recovery["method"].isin(["mm", "newton"])
    columns = ["factor", "value", "method", "cv_a", "rho_average", "rho_average_top"]
    simulated = recovery[shown & cbmm][[*columns, "rho_theta", "average_rho_theta"]]
    wide = looked.pivot(index="method", columns="scope", values="rho")
    cv = looked.groupby("method")["cv_a"].first()
    matrix = pd.DataFrame({
        "factor": "matrix", "method": wide.index, "cv_a": cv.reindex(wide.index).to_numpy(),
        "rho_average": wide["all"].to_numpy(), "rho_average_top": wide["top 20%"].to_numpy(),
    })  # fmt: skip
    return pd.concat([simulated, matrix], ignore_index=True)

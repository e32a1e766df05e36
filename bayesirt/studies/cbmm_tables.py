"""The tables of the cBMM study."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.studies.cbmm_tasks import BOUNDS, PARAMETERS, POINT_METHODS, POSTERIORS
from bayesirt.studies.study_rows import read_printed

MEASURES = ("rho_theta", "rho_a", "rmse_d", "eta_error", "hellinger", "seconds")

_KEPT = (*MEASURES, "cv_a", "rho_average", "rho_average_top", "average_rho_theta", "iterations")


def recovery_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each measure by factor, value and method.

    `time_ratio` is the mean ratio of times to those of MM, `behind` the share of suites in which
    MM's log likelihood is below Newton's, which its prior holds back.
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
    """Return whether MM's log likelihood is below Newton's."""
    own = point.set_index([*place, "replication"])["log_likelihood"]
    newton = own[(point["method"] == "newton").to_numpy()]
    short = (own < newton.reindex(own.index)).to_numpy(float)
    return np.where(point["method"] == "mm", short, np.nan)


def redundancy_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how well items with a = 0 are found, by sparsity and rule.

    The false share is 0 where none is declared; `paper_` columns call a ≠ 0 the discovery.
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

    Printed are the lowest and highest mean and the largest standard deviation of six suites.
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
    """Return ρ of ability and accuracy against the spread of a, of all complete designs."""
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


def paper_table(recovery: pd.DataFrame, redundancy: pd.DataFrame) -> pd.DataFrame:
    """Return what the paper prints beside ours, NaN where nothing answers to it."""
    table = read_printed("cbmm_printed")
    here = {"growth": _growth(recovery, "mm"), "recall": _lowest_recall(redundancy)}
    for claim, factors in (("speedup_simulated", None), ("speedup_mcar", ["mcar"])):
        here[claim] = _largest_ratio(recovery, factors)
    ours = [here.get(claim, (np.nan, "not run here")) for claim in table["claim"]]
    table = table.assign(here=[x for x, _ in ours], here_is=[words for _, words in ours])
    newton = _growth(recovery, "newton")
    table.loc[len(table)] = {
        "claim": "growth_newton", "quantity": "time's growth with items by Newton", "source": "",
        "here": newton[0], "here_is": newton[1],
    }  # fmt: skip
    return table


def _growth(recovery: pd.DataFrame, method: str) -> tuple[float, str]:
    wide = recovery[recovery["factor"].isin(["items", "base"]) & (recovery["method"] == method)]
    if wide["n_items"].nunique() < 2:
        return np.nan, "not run here"
    few, many = wide.loc[wide["n_items"].idxmin()], wide.loc[wide["n_items"].idxmax()]
    span = f"from {few['n_items']:.0f} to {many['n_items']:.0f} items"
    words = f"{span}, {few['n_subjects']:.0f} subjects"
    return float(many["seconds"] / few["seconds"]), words


def _lowest_recall(redundancy: pd.DataFrame) -> tuple[float, str]:
    if not len(redundancy):
        return np.nan, "not run here"
    rows = redundancy[redundancy["rule"] == "mm: a = 0"]
    return float(rows["paper_recall"].min()), "lowest over sparsities, MM"


def _largest_ratio(recovery: pd.DataFrame, factors: list[str] | None) -> tuple[float, str]:
    rows = recovery if factors is None else recovery[recovery["factor"].isin(factors)]
    rows = rows[~rows["method"].isin(["mm", "newton"])]
    if not len(rows):
        return np.nan, "not run here"
    most = rows.loc[rows["time_ratio"].idxmax()]
    return float(most["time_ratio"]), f"{most['method']} over mm, errors of the items included"

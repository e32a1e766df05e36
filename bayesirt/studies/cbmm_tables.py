"""Tables of the cBMM study: simulated suites, and one matrix."""

from collections.abc import Mapping
from itertools import product

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array
from scipy.stats import rankdata

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.data.responses import Responses
from bayesirt.posterior import TAILS
from bayesirt.studies.cbmm_tasks import (
    BOUNDS,
    PARAMETERS,
    POINT_METHODS,
    POSTERIORS,
    STEPS,
    TOP_SHARE,
    Fit,
    accuracy_of,
    agreement,
    fit_timed,
    variation,
)
from bayesirt.studies.measures import Floats, read_printed, spearman

LEVEL_MEASURES = {"minus_d": "-d", "b": "b = -d/a", "wrong": "the share wrong"}
"""Measures of an item's difficulty."""
_RESAMPLES = 1000
_SCOPES = {"all": 1.0, "top 20%": TOP_SHARE}
_QUARTILES = {"_low": 0.25, "": 0.5, "_high": 0.75}


def look_at(responses: Responses, *, key: Array) -> dict[str, pd.DataFrame]:
    """Fit a matrix with both steps; return tables, some empty if items have no numeric level."""
    fit_key, bootstrap_key = jax.random.split(key)
    fits = {str(step): fit_timed(step, responses, key=fit_key) for step in STEPS}
    items = _item_table(responses, fits)
    seed = np.asarray(jax.random.key_data(bootstrap_key)).tolist()
    return {
        "agreement": _agreement_table(responses, fits),
        "ranks": pd.concat([_rank_table(responses, name, fit) for name, fit in fits.items()]),
        "items": items,
        "levels": level_table(items),
        "level_rho": level_correlations(items, np.random.default_rng(seed)),
    }


def levels_of(responses: Responses) -> Floats | None:
    """Return the items' human level, if they have a numeric column of that name."""
    names = [c for c in responses.item_metadata.columns if str(c).strip().lower() == "level"]
    if not names:
        return None
    level = pd.to_numeric(responses.item_metadata[names[0]], errors="coerce").to_numpy(float)
    return level if np.isfinite(level).all() and np.ptp(level) > 0 else None


def level_table(items: pd.DataFrame) -> pd.DataFrame:
    """Return by method and level the share of wrong answers and the quartiles of -d and b."""
    if not len(items):
        return items
    groups = items.groupby(["method", "level"])
    table = groups.agg(items=("wrong", "size"), wrong=("wrong", "mean"))
    for name, (end, share) in product(("minus_d", "b"), _QUARTILES.items()):
        table[f"{name}{end}"] = groups[name].quantile(share)
    return table.reset_index()


def level_correlations(items: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return Spearman's ρ of difficulty and level, with intervals from resampled items."""
    rows = []
    for method, group in items.groupby("method", sort=False) if len(items) else ():
        for name in LEVEL_MEASURES:
            pairs = group[["level", name]].dropna().to_numpy()
            drawn = pairs[rng.integers(0, len(pairs), (_RESAMPLES, len(pairs)))]
            spread = np.array([float(spearman(*sample.T)) for sample in drawn])
            rhos = spread[np.isfinite(spread)]
            low, high = np.quantile(rhos, TAILS) if len(rhos) else (np.nan, np.nan)
            rho = float(spearman(*pairs.T))
            rows.append((method, name, len(pairs), rho, float(low), float(high)))
    return pd.DataFrame(rows, columns=["method", "measure", "items", "rho", "low", "high"])


def _agreement_table(responses: Responses, fits: Mapping[str, Fit]) -> pd.DataFrame:
    accuracy = accuracy_of(responses)
    return pd.DataFrame([
        {
            "method": name, "scope": scope,
            "subjects": max(2, round(share * len(accuracy))), "cv_a": variation(fit.a),
            "rho": rho, "iterations": fit.point.iterations, "converged": fit.point.converged,
            "log_likelihood": fit.point.log_likelihood, "seconds": fit.seconds,
        }
        for name, fit in fits.items()
        for (scope, share), rho in zip(_SCOPES.items(), agreement(fit.theta, accuracy), strict=True)
    ])  # fmt: skip


def _rank_table(responses: Responses, name: str, fit: Fit) -> pd.DataFrame:
    accuracy = accuracy_of(responses)
    table = pd.DataFrame({
        "method": name, "subject": responses.subjects, "accuracy": accuracy, "theta": fit.theta,
        "rank_accuracy": rankdata(-accuracy, method="min"),
        "rank_theta": rankdata(-fit.theta, method="min"),
    })  # fmt: skip
    return table.sort_values("rank_theta", kind="stable", ignore_index=True)


def _item_table(responses: Responses, fits: Mapping[str, Fit]) -> pd.DataFrame:
    level = levels_of(responses)
    if level is None:
        return pd.DataFrame()
    successes, trials, _ = responses.cells.totals(0)
    parts = []
    for name, fit in fits.items():
        b = np.divide(-fit.d, fit.a, out=np.full_like(fit.d, np.nan), where=fit.a > 0)
        parts.append(pd.DataFrame({
            "method": name, "item": responses.items, "level": level,
            "wrong": 1 - successes / trials, "minus_d": -fit.d, "b": b,
        }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


MEASURES = {
    "rho_theta": "Spearman of θ",
    "rho_a": "Spearman of a",
    "rmse_d": "RMSE of d",
    "eta_error": "relative error of η",
    "hellinger": "Hellinger distance",
    "seconds": "seconds",
}
_NOTHING = np.nan, "not run here"
_KEPT = (*MEASURES, "cv_a", "rho_average", "rho_average_top", "average_rho_theta", "iterations")


def recovery_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the means of each measure by factor, value and method.

    `time_ratio` is the mean ratio of times to those of MM; `behind` is the share of suites in which
    MM's log likelihood is below Newton's, even though Newton has a prior.
    """
    keys = ["factor", "value", "n_subjects", "n_items"]
    point = replications[replications["method"].isin(list(POINT_METHODS))]
    point = point.set_index([*keys, "replication"])
    mm, newton = (point[point["method"] == name].reindex(point.index) for name in STEPS)
    behind = (point["log_likelihood"] < newton["log_likelihood"]).astype(float)
    point = point.assign(
        time_ratio=point["seconds"] / mm["seconds"], behind=behind.where(point["method"] == "mm")
    )
    groups = point.groupby([*keys, "method"], sort=False)
    table = pd.DataFrame({"replications": groups.size(), "converged": groups["converged"].mean()})
    for name in _KEPT:
        table[name] = groups[name].median() if name == "seconds" else groups[name].mean()
        table[f"{name}_sd"] = groups[name].std(ddof=0)
    for name in ("time_ratio", "behind"):
        table[name] = groups[name].mean()
    return table.reset_index()


def redundancy_table(replications: pd.DataFrame) -> pd.DataFrame:
    """Return how well items with a = 0 are found; in `paper_` columns a ≠ 0 is the discovery."""
    sparse = replications[replications["factor"] == "sparsity"]
    table = pd.DataFrame([
        {"sparsity": sparsity, "method": method, "rule": rule, "q": q}
        | _shares(*suites[["items", "nil", declared, right]].to_numpy(float).T)
        for (sparsity, method), group in sparse.groupby(["value", "method"], sort=False)
        for rule, q, declared, right in _rules(str(method))
        if len(suites := group[group[declared].notna()])
    ])  # fmt: skip
    if len(table):
        # A false share that is below q in expectation may exceed it in a mean of few suites.
        share, low = table["false_share"], 2 * table["false_share_se"].fillna(np.inf)
        table["holds"] = np.select(
            [table["q"].isna(), share <= table["q"], share - low <= table["q"]],
            ["no bound", "yes", "within noise"], "no",
        )  # fmt: skip
    return table


def _rules(method: str) -> list[tuple[str, float, str, str]]:
    """Return a method's rules, the bounds of their false shares, and the columns of its counts."""
    if method in POSTERIORS:
        return [(f"{method}, q = {q:g}", q, f"listed_{q:g}", f"listed_right_{q:g}") for q in BOUNDS]
    rules = {"a = 0": "zeros", f"a < {HARDLY_DISCRIMINATES}": "small"}
    return [(f"{method}: {x}", np.nan, column, f"{column}_right") for x, column in rules.items()]


def _shares(items: Floats, nil: Floats, declared: Floats, right: Floats) -> dict[str, float]:
    false = (declared - right) / np.maximum(declared, 1)
    retained = (items - nil) - (declared - right)  # rightly not declared: the paper's discoveries
    n = len(declared)
    return {
        "replications": n, "declared": declared.mean(),
        "precision": _ratio(right, declared), "recall": _ratio(right, nil),
        "false_share": false.mean(),
        "false_share_se": false.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan,
        "paper_precision": _ratio(retained, items - declared),
        "paper_recall": _ratio(retained, items - nil),
    }  # fmt: skip


def _ratio(part: Floats, whole: Floats) -> float:
    return float(part.sum() / whole.sum()) if whole.sum() else np.nan


def stability_table(starts: pd.DataFrame) -> pd.DataFrame:
    """Return the agreement of fits from random starts, and the range of Tables A.1 to A.3."""
    keys = ["method", "parameter", "variance_one", "variance_two"]
    table = (
        starts.rename(columns=lambda name: name.removeprefix("rho_"))
        .melt([*starts.columns.drop([f"rho_{name}" for name in PARAMETERS])], [*PARAMETERS],
              "parameter", "rho")
        .assign(below=lambda rows: rows["rho"] < 0)
        .groupby(keys, sort=False)
        .agg(
            runs=("rho", "size"), mean=("rho", "mean"), sd=("rho", lambda rho: rho.std(ddof=0)),
            lowest=("rho", "min"), reversed=("below", "sum"), iterations=("iterations", "mean"),
            converged=("converged", "mean"),
        )
    )  # fmt: skip
    printed = read_printed("cbmm_stability").assign(method="mm").set_index(keys)
    sds = printed.filter(like="_sd")
    means = printed.drop(columns=sds.columns)
    of_paper = {
        "printed_lowest": means.min(axis=1), "printed_highest": means.max(axis=1),
        "printed_largest_sd": sds.max(axis=1),
    }  # fmt: skip
    return table.join(pd.DataFrame(of_paper)).reset_index()


def heterogeneity_table(recovery: pd.DataFrame, looked: pd.DataFrame) -> pd.DataFrame:
    """Return ρ of ability and accuracy against the spread of a, for all complete designs."""
    shown = recovery["factor"].isin(["base", "sparsity", "spread"])
    cbmm = recovery["method"].isin(["mm", "newton"])
    columns = ["factor", "value", "method", "cv_a", "rho_average", "rho_average_top"]
    simulated = recovery[shown & cbmm][[*columns, "rho_theta", "average_rho_theta"]]
    names = {"all": "rho_average", "top 20%": "rho_average_top"}
    matrix = looked.pivot(index=["method", "cv_a"], columns="scope", values="rho")
    matrix = matrix.rename(columns=names).reset_index().assign(factor="matrix")
    return pd.concat([simulated, matrix], ignore_index=True)


def paper_table(recovery: pd.DataFrame, redundancy: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's printed figures beside ours, NaN where we have none."""
    figures = {
        "growth": _growth(recovery, "mm"),
        "growth_newton": _growth(recovery, "newton"),
        "speedup_simulated": _largest_ratio(recovery),
        "speedup_mcar": _largest_ratio(recovery[recovery["factor"] == "mcar"]),
    }
    if len(redundancy):
        lowest = redundancy.loc[redundancy["rule"] == "mm: a = 0", "paper_recall"].min()
        figures["recall"] = float(lowest), "lowest over sparsities, MM"
    table = read_printed("cbmm_printed")
    ours = [figures.get(claim, _NOTHING) for claim in table["claim"]]
    return table.assign(here=[x for x, _ in ours], here_is=[words for _, words in ours])


def _growth(recovery: pd.DataFrame, method: str) -> tuple[float, str]:
    rows = recovery[recovery["factor"].isin(["items", "base"]) & (recovery["method"] == method)]
    few, many = rows.loc[rows["n_items"].idxmin()], rows.loc[rows["n_items"].idxmax()]
    if few["n_items"] == many["n_items"]:
        return _NOTHING
    span = f"from {few['n_items']:.0f} to {many['n_items']:.0f} items"
    return float(many["seconds"] / few["seconds"]), f"{span}, {few['n_subjects']:.0f} subjects"


def _largest_ratio(rows: pd.DataFrame) -> tuple[float, str]:
    rows = rows[~rows["method"].isin(["mm", "newton"])]
    if not len(rows):
        return _NOTHING
    most = rows.loc[rows["time_ratio"].idxmax()]
    return float(most["time_ratio"]), f"{most['method']} over mm, errors of the items included"

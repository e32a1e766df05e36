"""The tables of the abilities study, from its rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import t as student

from bayesirt.studies.abilities_consistency import ESTIMATES, HALVES, MORE_THAN
from bayesirt.studies.abilities_coverage import QUANTITIES
from bayesirt.studies.abilities_matrix import AbilityMatrix
from bayesirt.studies.abilities_measures import STRENGTHS
from bayesirt.studies.abilities_predictors import PREDICTORS

_MEASURED = ["auc", "auc_sd", "subjects", "above_items", "pooled_auc", "log_score", "new_items"]
_HALVES_NAME = "halves of the items"


def coverage_table(suites: pd.DataFrame) -> pd.DataFrame:
    """Return whether 90% intervals cover 90%.

    One row a size and quantity: suites, true values, the share covered with its 95% bounds between
    suites (`low`, `high`; Student's t, as values of a suite go together, by the standard error that
    independent values would have where a few suites agree by chance), that error, the mean width of
    an interval; and of the size the correlation of posterior means with true abilities, the share
    of R-hats above 1.01, the highest, and the fewest effective draws.
    """
    rows = []
    for size, own in suites.groupby(["n_subjects", "n_items", "n_abilities"], sort=False):
        for name in QUANTITIES:
            covered, n = own[f"{name}_covered"], own[f"{name}_n"]
            if not n.sum():
                continue
            share = covered.sum() / n.sum()
            binomial = np.sqrt(share * (1 - share) / n.sum())
            error = max(_ratio_se(covered, n), binomial) * t_bound(len(own))
            rows.append({
                **dict(zip(("n_subjects", "n_items", "n_abilities"), size, strict=True)),
                "quantity": name, "suites": len(own), "values": n.sum(), "coverage": share,
                "low": max(share - error, 0.0), "high": min(share + error, 1.0),
                "binomial_se": binomial,
                "width": own[f"{name}_width"].mean(), "rho_theta": own["rho_theta"].mean(),
                "r_hat_above": own["r_hat_above"].mean(),
                "r_hat_highest": own["r_hat_highest"].max(), "ess_lowest": own["ess_lowest"].min(),
            })  # fmt: skip
    return pd.DataFrame(rows)


def criterion_table(criterion: pd.DataFrame, consistency: pd.DataFrame) -> pd.DataFrame:
    """Count how strongly abilities go with accuracy on their items, as Zhang et al. (2026) do.

    One row an estimate and criterion, over abilities with more than 10 items (in both halves for
    items held out): abilities, how many are strong (ρ > .7), moderate (> .5), weak (> .3) and none
    of these, and the median ρ. Criteria are the accuracy on ``the same items``, that on ``held-out
    items``, and the ``true ability``.
    """
    enough = criterion[criterion["items"] > MORE_THAN]
    halves = consistency[consistency["one"] == HALVES]
    halves = halves[_both_more(halves)]
    mean = halves.groupby(["ability", "method"], sort=False)["held_out"].mean().reset_index()
    parts = {
        "the same items": enough.rename(columns={"rho": "value"}),
        "held-out items": mean.rename(columns={"held_out": "value"}),
        "true ability": enough.rename(columns={"rho_true": "value"}),
    }
    rows = []
    for what, table in parts.items():
        for name in ESTIMATES:
            values = table.loc[table["method"] == name, "value"].dropna().to_numpy(float)
            if len(values):
                rows.append({"criterion": what, "method": name, **_strengths(values)})
    return pd.DataFrame(rows)


def ability_table(
    criterion: pd.DataFrame, consistency: pd.DataFrame, abilities: Sequence[str]
) -> pd.DataFrame:
    """Return what was found of each ability.

    One row an ability and estimate: items, ρ with the accuracy on the same items, on items held
    out, with the truth, with itself from the other half of the items, and the mean with other
    abilities from the other half.
    """
    halves = consistency[consistency["one"] == HALVES]
    columns = {"rho": "rho_halves", "rho_others": "rho_others", "held_out": "rho_held_out"}
    means = halves.groupby(["ability", "method"])[list(columns)].mean().rename(columns=columns)
    table = criterion.rename(columns={"rho": "rho_accuracy"}).merge(
        means.reset_index(), on=["ability", "method"], how="left"
    )
    table["ability"] = [abilities[int(k)] for k in table["ability"]]
    return table.sort_values("items", ascending=False, kind="stable", ignore_index=True)


def consistency_table(consistency: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    """Return how well abilities agree between items that share none.

    One row a pair of sets of items and an estimate, over abilities with more than 10 items in both:
    their number, the median ρ of an ability with itself, the share above .5, and the median ρ with
    the other abilities.
    """
    rows = []
    kept = consistency[_both_more(consistency) & consistency["rho"].notna()]
    for (one, other, name), own in kept.groupby(["one", "other", "method"], sort=False):
        pair = _HALVES_NAME if one == HALVES else f"{groups[int(one)]} and {groups[int(other)]}"
        rows.append({
            "items": pair, "method": name, "abilities": own["ability"].nunique(),
            "median_rho": own["rho"].median(),
            "share_moderate": (own["rho"] > STRENGTHS["moderate"]).mean(),
            "median_rho_others": own["rho_others"].median(),
        })  # fmt: skip
    columns = ["items", "method", "abilities", "median_rho", "share_moderate", "median_rho_others"]
    table = pd.DataFrame(rows, columns=columns)
    order = table["method"].map(list(ESTIMATES).index)
    first = table["items"].map({name: k for k, name in enumerate(table["items"].unique())})
    return table.loc[pd.concat([first, order], axis=1).sort_values(["items", "method"]).index]\
        .reset_index(drop=True)  # fmt: skip


def prediction_table(prediction: pd.DataFrame) -> pd.DataFrame:
    """Return how well each predictor does at unseen items, over splits.

    One row a predictor: means over splits of the AUC within subjects, its standard deviation over
    subjects, the difference from the predictor ``items``, the AUC of all answers together, and the
    log score; and standard errors between splits (`_se`) of the first, the difference and the last.
    """
    rows = []
    for name in PREDICTORS:
        own = prediction[prediction["method"] == name]
        if len(own):
            row = {"method": name, "predictor": PREDICTORS[name], "splits": len(own)}
            row |= own[_MEASURED].mean().to_dict()
            for column in ("auc", "above_items", "log_score"):
                row[f"{column}_se"] = own[column].std() / np.sqrt(len(own))
            rows.append(row)
    return pd.DataFrame(rows)


def across_table(across: pd.DataFrame, matrix: AbilityMatrix) -> pd.DataFrame:
    """Return how well each predictor does at the items of another benchmark.

    One row a pair of benchmarks and predictor; NaN where none of the target's items needs an
    ability that the source's items need.
    """
    table = across.sort_values(["source", "target"], kind="stable", ignore_index=True)
    for side in ("source", "target"):
        table[side] = [matrix.groups[int(k)] for k in table[side]]
    sizes = {name: int((matrix.group == k).sum()) for k, name in enumerate(matrix.groups)}
    table.insert(3, "items", table["target"].map(sizes))
    return table


def t_bound(n: int) -> float:
    """Return how many standard errors of a mean of n values its 95% bounds are away."""
    return float(student.ppf(0.975, n - 1)) if n > 1 else float("nan")


def _strengths(values: np.ndarray) -> dict[str, float]:
    counts, left = {}, np.ones(len(values), bool)
    for name, bound in STRENGTHS.items():
        counts[name] = float((left & (values > bound)).sum())
        left &= values <= bound
    return {
        "abilities": len(values), **counts, "none": float(left.sum()),
        "median_rho": float(np.median(values)),
    }  # fmt: skip


def _both_more(rows: pd.DataFrame) -> pd.Series:
    return (rows["items_one"] > MORE_THAN) & (rows["items_other"] > MORE_THAN)


def _ratio_se(part: pd.Series, whole: pd.Series) -> float:
    """Return the standard error of Σ part / Σ whole between independent suites."""
    n = len(part)
    if n < 2:
        return float("nan")
    residual = (part - part.sum() / whole.sum() * whole).to_numpy()
    return float(np.sqrt(n / (n - 1) * (residual**2).sum()) / whole.sum())

"""The tables, claims and figures of the abilities study."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import t as student

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import SOFT
from bayesirt.studies.abilities_consistency import ESTIMATES, HALVES, MORE_THAN, STRENGTHS
from bayesirt.studies.abilities_matrix import CORRELATION, QUANTITIES, AbilityMatrix
from bayesirt.studies.abilities_unseen import MEASURED, MOST_DRAWN, PREDICTORS
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Study
from bayesirt.studies.figures import STYLES, draw_dots, draw_lines, log_plain, new_figure
from bayesirt.studies.measures import groups_of, ratio_se, read_notes, read_printed

_MOST_FINDINGS = 3
_CRITERIA = {
    "the same items": "accuracy on the same items",
    "held-out items": "accuracy on held-out items",
    "true ability": "true ability",
}
_ACROSS = ("learnt", "learnt, average", "neural", "neural, average", "items", "own items")
_COMPARED = (
    ("learnt", "learnt, average"), ("neural", "neural, average"), ("learnt", "both"),
    ("learnt", "items"), ("neural", "items"),
)  # fmt: skip
_WORDS = {  # Names of predictors that can be read on their own.
    name: words.replace("the same", PREDICTORS[name.split(",")[0]])
    for name, words in PREDICTORS.items()
}
_HALVES_NAME = "halves of the items"
_SHOWN = {name: ESTIMATES[name] for name in ("q-mirt", "neural", "shares")}


def ability_claims(
    tables: Mapping[str, pd.DataFrame], matrix: AbilityMatrix, prediction: pd.DataFrame
) -> Iterator[Claim]:
    """Yield claims on coverage, on correlations of abilities, and on unseen items."""
    unseen = tables["unseen_items"].set_index("method")
    paper = dict(list(read_printed("abilities_printed").groupby("table")))
    agreed = paper["consistency"].set_index("quantity")["value"]
    consistencies = tables["consistencies"].assign(
        printed_rho=agreed["median rho"], printed_share=agreed["share above 0.5"],
        gap=lambda own: own["median_rho"] - own["median_rho_others"], more_than=MORE_THAN,
        estimate=lambda own: own["method"],
    )  # fmt: skip
    within = paper["within"].assign(
        over_ten=(paper["within"]["value"] / np.sqrt(10)).round(4),
        **unseen.loc["neural", ["auc", "auc_sd"]],
    )
    sizes = {"n_criteria": len(tables["criteria"]), "n_consistencies": len(consistencies)}
    across = tables["across_benchmarks"]
    nowhere = not across["new_items"].sum()
    rows = across[across["method"].isin(_ACROSS)]
    criterion = paper["criterion"].pivot(index="place", columns="quantity", values="value")
    means = paper["across"][paper["across"]["quantity"] == "mean AUC"].head(0 if nowhere else None)
    frames = {
        **tables,
        "matrix": _facts(matrix).assign(**sizes),
        "criteria": tables["criteria"].assign(estimate=lambda own: own.get("method")),
        "printed criterion": criterion.reset_index(),
        "consistencies": consistencies,
        "printed within": within,
        "averages": _averages(unseen["auc"]),
        "gains": _gains(prediction),
        "across": rows.assign(
            first=~rows.duplicated(["source", "target"]), shown=rows["new_items"] > 0
        ),
        "printed across": means.assign(lowest=means["value"].min(), highest=means["value"].max()),
    }
    names = {
        **dict.fromkeys(("method", "one", "other"), _WORDS),
        "quantity": QUANTITIES,
        "estimate": ESTIMATES,
        "criterion": _CRITERIA,
    }
    return claims_from("abilities", frames, names)


def ability_notes(matrix: AbilityMatrix) -> Iterator[str]:
    """Yield findings on the Q-matrix, what was left out, and the notes."""
    findings = matrix.q.findings()
    yield from (f"The Q-matrix: {finding}." for finding in findings[:_MOST_FINDINGS])
    if len(findings) > _MOST_FINDINGS:
        yield f"The Q-matrix: {len(findings) - _MOST_FINDINGS} more findings of this kind."
    if matrix.responses.n_observed > MOST_DRAWN:
        yield f"No full posterior is drawn of more than {MOST_DRAWN:,} responses."
    yield from read_notes("abilities")


def _facts(matrix: AbilityMatrix) -> pd.DataFrame:
    counts, truth = matrix.q.needs.sum(0), matrix.truth
    return pd.DataFrame([{
        "kind": "Given" if truth is None else "Simulated",
        "subjects": matrix.responses.n_subjects, "items": matrix.responses.n_items,
        "abilities": matrix.q.n_abilities, "more_than": MORE_THAN,
        "needed": int((counts > MORE_THAN).sum()),
        "largest_share": counts.max() / matrix.q.n_items, "correlation": CORRELATION,
        **{name: np.nan if truth is None else float(truth[name])
           for name in ("sigma_beta", "sigma_d")},
    }])  # fmt: skip


def _gains(prediction: pd.DataFrame) -> pd.DataFrame:
    """Return differences of predictors' AUC, with 95% bounds over splits."""
    auc = prediction.pivot(index="split", columns="method", values="auc")
    gains = pd.DataFrame({pair: auc[pair[0]] - auc[pair[1]] for pair in _COMPARED})
    bound = gains.sem() * gains.count().map(t_bound)
    table = pd.DataFrame({"gain": gains.mean(), "bound": bound})
    return table.rename_axis(["one", "other"]).reset_index()


def _averages(auc: "pd.Series[float]") -> pd.DataFrame:
    """Return the share of the AUC above one half that is left after averaging over subjects."""
    above = auc[["learnt", "neural"]] - 0.5
    average = auc[["learnt, average", "neural, average"]].set_axis(above.index) - 0.5
    share = (average.clip(lower=0) / above).where(average < above, 1.0)
    return pd.DataFrame({"above": above, "left": share}).reset_index()


def coverage_table(suites: pd.DataFrame) -> pd.DataFrame:
    """Return by size and quantity the coverage of 90% intervals.

    Bounds `low` and `high` use Student's t between suites, as values within a suite are correlated,
    with an error that is at least that of independent values, in case a few suites agree by chance.
    """
    rows = []
    for size, own in groups_of(suites, ("n_subjects", "n_items", "n_abilities")):
        for name in QUANTITIES:
            covered, n = own[f"{name}_covered"], own[f"{name}_n"]
            if not n.sum():
                continue
            share = covered.sum() / n.sum()
            binomial = np.sqrt(share * (1 - share) / n.sum())
            error = max(ratio_se(covered, n), binomial) * t_bound(len(own))
            rows.append({
                **size, "quantity": name, "suites": len(own), "values": n.sum(), "coverage": share,
                "low": max(share - error, 0.0), "high": min(share + error, 1.0),
                "binomial_se": binomial,
                "width": own[f"{name}_width"].mean(), "rho_theta": own["rho_theta"].mean(),
                "r_hat_above": own["r_hat_above"].mean(),
                "r_hat_highest": own["r_hat_highest"].max(), "ess_lowest": own["ess_lowest"].min(),
            })  # fmt: skip
    return pd.DataFrame(rows)


def criterion_table(criterion: pd.DataFrame, consistency: pd.DataFrame) -> pd.DataFrame:
    """Count how strongly abilities with over 10 items go with accuracy (Zhang et al., 2026)."""
    enough = criterion[criterion["items"] > MORE_THAN]
    halves = consistency[(consistency["one"] == HALVES) & _both_more(consistency)]
    held_out = halves.groupby(["ability", "method"], sort=False)["held_out"].mean()
    values = {
        "the same items": enough.set_index("method")["rho"],
        "held-out items": held_out.droplevel("ability"),
        "true ability": enough.set_index("method")["rho_true"],
    }
    entries = pd.concat(values, names=["criterion"]).dropna().rename("value").reset_index()
    bounds, names = [np.inf, *STRENGTHS.values(), -np.inf], [*STRENGTHS, "none"]
    for name, high, low in zip(names, bounds, bounds[1:], strict=False):
        entries[name] = entries["value"].between(low, high, inclusive="right").astype(float)
    groups = entries.groupby(["criterion", "method"], sort=False)
    table = groups[names].sum().assign(median_rho=groups["value"].median())
    table.insert(0, "abilities", groups.size())
    return table.reset_index()


def ability_table(
    criterion: pd.DataFrame, consistency: pd.DataFrame, abilities: Sequence[str]
) -> pd.DataFrame:
    """Return by ability and estimate the ρ with accuracies, the truth, itself and others."""
    halves = consistency[consistency["one"] == HALVES]
    columns = {"rho": "rho_halves", "rho_others": "rho_others", "held_out": "rho_held_out"}
    means = halves.groupby(["ability", "method"])[list(columns)].mean().rename(columns=columns)
    table = criterion.rename(columns={"rho": "rho_accuracy"}).merge(
        means.reset_index(), on=["ability", "method"], how="left"
    )
    table["ability"] = [abilities[int(k)] for k in table["ability"]]
    return table.sort_values("items", ascending=False, kind="stable", ignore_index=True)


def consistency_table(consistency: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    """Return how well abilities agree between sets of items with more than 10 items each."""
    rows = consistency[_both_more(consistency) & consistency["rho"].notna()]
    rows = rows.assign(moderate=rows["rho"] > STRENGTHS["moderate"])
    table = rows.groupby(["one", "other", "method"], sort=False).agg(
        abilities=("ability", "nunique"), median_rho=("rho", "median"),
        share_moderate=("moderate", "mean"), median_rho_others=("rho_others", "median"),
    ).reset_index()  # fmt: skip
    pairs = zip(table.pop("one").astype(int), table.pop("other").astype(int), strict=True)
    table.insert(0, "items", [
        _HALVES_NAME if one == HALVES else f"{groups[one]} and {groups[other]}"
        for one, other in pairs
    ])  # fmt: skip
    return table


def prediction_table(prediction: pd.DataFrame) -> pd.DataFrame:
    """Return each predictor's means over splits, with standard errors between splits (`_se`)."""
    groups = prediction.groupby("method", sort=False)
    table = groups[[*MEASURED]].mean()
    table.insert(0, "splits", groups.size())
    table.insert(0, "predictor", table.index.map(PREDICTORS))
    for column in ("auc", "above_items", "log_score"):
        table[f"{column}_se"] = groups[column].sem()
    return table.reset_index()


def across_table(across: pd.DataFrame, matrix: AbilityMatrix) -> pd.DataFrame:
    """Return how well each predictor does on the items of another benchmark."""
    table = across.copy()
    for side in ("source", "target"):
        table[side] = [matrix.groups[int(k)] for k in table[side]]
    sizes = {name: int((matrix.group == k).sum()) for k, name in enumerate(matrix.groups)}
    table.insert(3, "items", table["target"].map(sizes))
    return table


def t_bound(n: int) -> float:
    """Return the distance of 95% bounds from a mean of n values, in standard errors."""
    return float(student.ppf(0.975, n - 1)) if n > 1 else float("nan")


def _both_more(rows: pd.DataFrame) -> pd.Series:
    return (rows["items_one"] > MORE_THAN) & (rows["items_other"] > MORE_THAN)


def plot_prediction(prediction: pd.DataFrame) -> Figure:
    """Draw the AUC within subjects on unseen items by predictor."""
    title = "AUC within a subject on unseen items"
    fig, axes = new_figure(7.6, 1.2 + 0.27 * len(prediction), x=title)
    ax, names, auc = axes[0, 0], prediction["predictor"], prediction["auc"]
    printed = read_printed("abilities_printed").query("table == 'within' & quantity == 'mean AUC'")
    band = printed[printed["source"].str.contains("Table 4")]["value"].agg(["min", "max"])
    ax.axvspan(*band, color="#dce6f2", lw=0, label="paper, its data")
    draw_dots(ax, names, auc, prediction["auc_sd"], ecolor=SOFT, capsize=0)
    draw_dots(ax, names, auc, 2 * prediction["auc_se"].fillna(0), at=0.5, lw=2.4, capsize=0)
    ax.legend(loc="upper right")
    return fig


def plot_consistency(abilities: pd.DataFrame) -> Figure:
    """Draw the consistency of each ability against the number of its items."""
    title = "items that need the ability, both halves together"
    fig, axes = new_figure(8.2, 3.5, 1, 2, x=title, sharex=True, sharey=True)
    left, right = axes[0]
    draw_lines(left, abilities, "items", "rho_halves", _SHOWN, ls="")
    rows = abilities[abilities["method"] == "q-mirt"]
    right.vlines(rows["items"], rows["rho_others"], rows["rho_halves"], color=SOFT, lw=0.8)
    columns = {"rho_halves": "with itself", "rho_others": "with other abilities, mean"}
    for (column, label), style in zip(columns.items(), STYLES, strict=False):
        right.plot(rows["items"], rows[column], ms=4, label=label, **{**style, "ls": ""})
    for ax in (left, right):
        ax.axhline(STRENGTHS["moderate"], color=SOFT, lw=0.8, ls="--")
        ax.axvline(2 * MORE_THAN, color=SOFT, lw=0.8, ls=":")
        log_plain(ax)
        ax.legend(loc="lower right")
    left.set_ylabel("Spearman's rho between halves")
    return fig


def plot_intervals(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of 90% intervals by size and quantity."""
    title = f"share of true values in {LEVEL:.0%} intervals, 95% bounds between suites"
    fig, axes = new_figure(6.4, 0.9 + 0.27 * len(coverage), x=title)
    name = "{quantity}, {n_subjects:.0f} x {n_items:.0f} x {n_abilities:.0f}"
    names = [name.format(**row) for row in coverage.to_dict("records")]
    share = coverage["coverage"]
    reach = [share - coverage["low"], coverage["high"] - share]
    draw_dots(axes[0, 0], names, share, reach, at=LEVEL)
    return fig


def abilities_found(parts: Mapping[str, pd.DataFrame], matrix: AbilityMatrix) -> Study:
    """Evaluate the rows of all parts."""
    suites, criterion, consistency = (
        parts[name] for name in ("coverage", "criterion", "consistency")
    )
    tables = {
        "unseen_items": prediction_table(parts["prediction"]),
        "criteria": criterion_table(criterion, consistency),
        "consistencies": consistency_table(consistency, matrix.groups),
        "abilities": ability_table(criterion, consistency, matrix.q.abilities),
    }
    others = {
        "intervals": coverage_table(suites),
        "across_benchmarks": across_table(parts["across"], matrix),
        "full_posterior": parts["agreement"],
    }
    figures = {
        "unseen_items": partial(plot_prediction, tables["unseen_items"]),
        "consistencies": partial(plot_consistency, tables["abilities"]),
    }
    if len(suites):
        figures["intervals"] = partial(plot_intervals, others["intervals"])
    kind = "given" if matrix.truth is None else "simulated"
    n, j = matrix.responses.cells.shape
    return Study(
        f"abilities study of {len(suites):,} suites and a {kind} {n} x {j} matrix",
        suites,
        tables | {name: table for name, table in others.items() if len(table)},
        ability_claims(tables | others, matrix, parts["prediction"]),
        [*ability_notes(matrix)],
        figures,
    )

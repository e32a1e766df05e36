"""The tables, claims and figures of the abilities study."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.abilities_consistency import ESTIMATES, HALVES, MORE_THAN, STRENGTHS
from bayesirt.studies.abilities_matrix import CORRELATION, QUANTITIES, AbilityMatrix
from bayesirt.studies.abilities_unseen import MEASURED, MOST_DRAWN, PREDICTORS
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Study
from bayesirt.studies.figures import log_plain, name_rows, new_figure, study_style
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
_WORDS = {  # Names of predictors that need no other.
    name: words.replace("the same", PREDICTORS[name.split(",")[0]])
    for name, words in PREDICTORS.items()
}
_HALVES_NAME = "halves of the items"
_POINTS = {"ms": 5, "mec": INK, "mew": 0.6}
_KINDS = {"q-mirt": ("o", ACCENT), "neural": ("s", "white"), "shares": ("^", SOFT)}


def ability_claims(
    tables: Mapping[str, pd.DataFrame], matrix: AbilityMatrix, prediction: pd.DataFrame
) -> Iterator[Claim]:
    """Yield what intervals hold, what abilities go with, and what unseen items say of them."""
    unseen = tables["unseen_items"].set_index("method")
    of = dict(list(read_printed("abilities_printed").groupby("table")))
    agreed = of["consistency"].set_index("quantity")["value"]
    consistencies = tables["consistencies"].assign(
        printed_rho=agreed["median rho"], printed_share=agreed["share above 0.5"],
        gap=lambda own: own["median_rho"] - own["median_rho_others"], more_than=MORE_THAN,
        estimate=lambda own: own["method"],
    )  # fmt: skip
    within = of["within"].assign(
        over_ten=(of["within"]["value"] / np.sqrt(10)).round(4),
        **unseen.loc["neural", ["auc", "auc_sd"]],
    )
    sizes = {"n_criteria": len(tables["criteria"]), "n_consistencies": len(consistencies)}
    across = tables["across_benchmarks"]
    nowhere = not across["new_items"].sum()
    gains = [(*pair, *paired_gain(prediction, *pair)) for pair in _COMPARED]
    frames = {
        **tables,
        "matrix": _facts(matrix).assign(**sizes),
        "criteria": tables["criteria"].assign(estimate=lambda own: own.get("method")),
        "printed criterion": _printed_criterion(of["criterion"]),
        "consistencies": consistencies,
        "printed within": within,
        "averages": _averages(unseen["auc"]),
        "gains": pd.DataFrame(gains, columns=["one", "other", "gain", "bound"]),
        "across": _with_shown(across),
        "printed across": _ends_across(of["across"]).head(0 if nowhere else None),
    }
    names = {
        **dict.fromkeys(("method", "one", "other"), _WORDS),
        "quantity": QUANTITIES,
        "estimate": ESTIMATES,
        "criterion": _CRITERIA,
    }
    return claims_from("abilities", frames, names)


def ability_notes(matrix: AbilityMatrix) -> Iterator[str]:
    """Yield what keeps abilities from being told apart, what was left out, and the notes."""
    findings = matrix.q.findings()
    yield from (f"The Q-matrix: {finding}." for finding in findings[:_MOST_FINDINGS])
    if len(findings) > _MOST_FINDINGS:
        yield f"The Q-matrix: {len(findings) - _MOST_FINDINGS} more findings of this kind."
    if matrix.responses.n_observed > MOST_DRAWN:
        yield f"No full posterior is drawn of more than {MOST_DRAWN:,} responses."
    yield from read_notes("abilities")


def paired_gain(prediction: pd.DataFrame, one: str, other: str) -> tuple[float, float]:
    """Return by how much one predictor's AUC is above another's, and its bound."""
    by_split = prediction.pivot(index="split", columns="method", values="auc")
    gains = (by_split[one] - by_split[other]).dropna()
    n = len(gains)
    return float(gains.mean()), float(gains.std() / np.sqrt(n)) * t_bound(n)


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


def _printed_criterion(printed: pd.DataFrame) -> pd.DataFrame:
    wide = printed.pivot(index="place", columns="quantity", values="value")
    return wide.loc[["chemistry", "physics", "computer science", "mathematics"]].reset_index()


def _averages(auc: "pd.Series[float]") -> pd.DataFrame:
    """Return what of an AUC above a half is left when chances are averaged over subjects."""
    rows = []
    for name in ("learnt", "neural"):
        above, average = (auc[x] - 0.5 for x in (name, f"{name}, average"))
        left = 1.0 if average >= above else max(average, 0.0) / above
        rows.append((name, above, left))
    return pd.DataFrame(rows, columns=["method", "above", "left"])


def _with_shown(across: pd.DataFrame) -> pd.DataFrame:
    """Order the rows by what is said of them, the number of items first."""
    shown = across[across["method"].isin(_ACROSS)]
    order = shown["method"].map(list(_ACROSS).index)
    pair = shown.groupby(["source", "target"], sort=False).ngroup()
    ordered = shown.assign(pair=pair, order=order).sort_values(["pair", "order"])
    return ordered.assign(first=ordered["order"] == 0, shown=ordered["new_items"] > 0)


def _ends_across(printed: pd.DataFrame) -> pd.DataFrame:
    means = printed[printed["quantity"] == "mean AUC"]
    return means.assign(lowest=means["value"].min(), highest=means["value"].max())


def coverage_table(suites: pd.DataFrame) -> pd.DataFrame:
    """Return by size and quantity how many true values 90% intervals cover.

    Bounds `low` and `high` are Student's t between suites, as values of a suite go together, by the
    error that independent values would have where a few suites agree by chance.
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
    """Count how strongly abilities of more than 10 items go with accuracy (Zhang et al., 2026)."""
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
    """Return by ability and estimate its ρ with accuracies, the truth, itself and others."""
    halves = consistency[consistency["one"] == HALVES]
    columns = {"rho": "rho_halves", "rho_others": "rho_others", "held_out": "rho_held_out"}
    means = halves.groupby(["ability", "method"])[list(columns)].mean().rename(columns=columns)
    table = criterion.rename(columns={"rho": "rho_accuracy"}).merge(
        means.reset_index(), on=["ability", "method"], how="left"
    )
    table["ability"] = [abilities[int(k)] for k in table["ability"]]
    return table.sort_values("items", ascending=False, kind="stable", ignore_index=True)


def consistency_table(consistency: pd.DataFrame, groups: Sequence[str]) -> pd.DataFrame:
    """Return how well abilities agree between sets of items, where both have more than 10."""
    rows = []
    kept = consistency[_both_more(consistency) & consistency["rho"].notna()]
    order = kept["method"].map(list(ESTIMATES).index)
    kept = kept.assign(pair=kept.groupby(["one", "other"], sort=False).ngroup(), order=order)
    kept = kept.sort_values(["pair", "order"], kind="stable")
    for (one, other, name), own in kept.groupby(["one", "other", "method"], sort=False):
        pair = _HALVES_NAME if one == HALVES else f"{groups[int(one)]} and {groups[int(other)]}"
        rows.append({
            "items": pair, "method": name, "abilities": own["ability"].nunique(),
            "median_rho": own["rho"].median(),
            "share_moderate": (own["rho"] > STRENGTHS["moderate"]).mean(),
            "median_rho_others": own["rho_others"].median(),
        })  # fmt: skip
    columns = ["items", "method", "abilities", "median_rho", "share_moderate", "median_rho_others"]
    return pd.DataFrame(rows, columns=columns)


def prediction_table(prediction: pd.DataFrame) -> pd.DataFrame:
    """Return each predictor's means over splits, with standard errors between splits (`_se`)."""
    rows = []
    for name in PREDICTORS:
        own = prediction[prediction["method"] == name]
        if len(own):
            row = {"method": name, "predictor": PREDICTORS[name], "splits": len(own)}
            row |= own[[*MEASURED]].mean().to_dict()
            for column in ("auc", "above_items", "log_score"):
                row[f"{column}_se"] = own[column].std() / np.sqrt(len(own))
            rows.append(row)
    return pd.DataFrame(rows)


def across_table(across: pd.DataFrame, matrix: AbilityMatrix) -> pd.DataFrame:
    """Return how well each predictor does at the items of another benchmark."""
    table = across.copy()
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


@study_style()
def plot_prediction(prediction: pd.DataFrame) -> Figure:
    """Draw the AUC within subjects at unseen items by predictor."""
    fig, axes = new_figure(7.6, 1.2 + 0.27 * len(prediction))
    ax, rows = axes[0, 0], range(len(prediction))
    _paper_band(ax)
    for reach, color, width in (
        (prediction["auc_sd"], SOFT, 1),
        (2 * prediction["auc_se"].fillna(0), INK, 2.4),
    ):
        ax.errorbar(prediction["auc"], rows, xerr=reach, fmt="none", ecolor=color, lw=width)
    ax.plot(prediction["auc"], rows, "o", ms=5, color=INK)
    ax.axvline(0.5, color=SOFT, lw=0.8, ls="--")
    name_rows(ax, prediction["predictor"])
    ax.set_xlabel("AUC within a subject at unseen items")
    ax.legend(loc="upper right")
    return fig


@study_style()
def plot_consistency(abilities: pd.DataFrame) -> Figure:
    """Draw how consistent each ability is against the number of its items."""
    fig, axes = new_figure(8.2, 3.5, 1, 2, sharex=True, sharey=True)
    left, right = axes[0]
    for name, (mark, fill) in _KINDS.items():
        own = abilities[abilities["method"] == name]
        left.plot(own["items"], own["rho_halves"], mark, mfc=fill, label=ESTIMATES[name], **_POINTS)
    own = abilities[abilities["method"] == "q-mirt"]
    right.vlines(own["items"], own["rho_others"], own["rho_halves"], color=SOFT, lw=0.8)
    for column, fill, label in (
        ("rho_halves", ACCENT, "with itself"),
        ("rho_others", "white", "with other abilities, mean"),
    ):
        right.plot(own["items"], own[column], "o", mfc=fill, label=label, **_POINTS)
    for ax in (left, right):
        ax.axhline(STRENGTHS["moderate"], color=SOFT, lw=0.8, ls="--")
        ax.axvline(2 * MORE_THAN, color=SOFT, lw=0.8, ls=":")
        log_plain(ax)
        ax.legend(loc="lower right")
    fig.supxlabel("items that need the ability, both halves together")
    left.set_ylabel("Spearman's rho between halves")
    return fig


@study_style()
def plot_intervals(coverage: pd.DataFrame) -> Figure:
    """Draw the coverage of 90% intervals by size and quantity."""
    fig, axes = new_figure(6.4, 0.9 + 0.27 * len(coverage))
    ax, rows = axes[0, 0], range(len(coverage))
    ax.hlines(rows, coverage["low"], coverage["high"], color=INK, lw=1.6)
    ax.plot(coverage["coverage"], rows, "o", ms=5, color=INK)
    ax.axvline(LEVEL, color=ACCENT, lw=1)
    name = "{quantity}, {n_subjects:.0f} x {n_items:.0f} x {n_abilities:.0f}"
    name_rows(ax, [name.format(**row) for row in coverage.to_dict("records")])
    ax.set_xlabel("share of true values in 90% intervals, 95% bounds between suites")
    return fig


def _paper_band(ax: Axes) -> None:
    printed = read_printed("abilities_printed")
    means = printed[(printed["table"] == "within") & (printed["quantity"] == "mean AUC")]
    benchmarks = means[means["source"].str.contains("Table 4")]["value"]
    ax.axvspan(benchmarks.min(), benchmarks.max(), color="#dce6f2", lw=0, label="paper, its data")


def abilities_found(parts: Mapping[str, pd.DataFrame], matrix: AbilityMatrix) -> Study:
    """Return what the rows of all parts say."""
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

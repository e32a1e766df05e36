"""Claims of the cBMM study beside those of Qu et al. (2026)."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.posterior import LEVEL
from bayesirt.studies.cbmm_conditions import FACTORS
from bayesirt.studies.cbmm_matrix import MEASURES
from bayesirt.studies.cbmm_tasks import POINT_METHODS, POSTERIORS
from bayesirt.studies.claims import Claim, figures_of, ranging, rows_of, spanning
from bayesirt.studies.measures import spearman

_RECOVERED = {
    "rho_theta": "Spearman of theta",
    "rho_a": "Spearman of a",
    "rmse_d": "RMSE of d",
    "eta_error": "relative error of eta",
}
_STABLE = 0.99


def cbmm_claims(
    tables: Mapping[str, pd.DataFrame], size: tuple[int, int], simulated: bool
) -> Iterator[Claim]:
    """Yield recovery, times, redundant items, stability, and what is said of one matrix."""
    recovery, newton = tables["recovery"], tables["recovery"].query("method == 'newton'")
    title = "Base, {n_subjects} x {n_items}, {replications} suites, {method}"
    base, words = recovery[recovery["factor"] == "base"], {"hellinger": "Hellinger distance"}
    yield from rows_of(base, title, _RECOVERED | words, method=POINT_METHODS)
    for factor in ("items", "subjects"):
        own = newton[newton["factor"].isin([factor, "base"])].sort_values(f"n_{factor}")
        ends = own.iloc[[0, -1]] if len(own) > 1 else own.head(0)
        yield from rows_of(ends, f"{{n_{factor}}} {factor}, Newton", _RECOVERED)
    for factor in ("temperature", "mcar", "mar", "mnar", "sparsity", "spread"):
        yield from _on_factor(recovery[recovery["factor"] == factor], FACTORS[factor])
    text = "Share of designs and methods whose every estimate converged"
    yield Claim(text, (recovery["converged"] == 1).mean())
    short = recovery[recovery["converged"] < 1].assign(left=lambda own: 1 - own["converged"])
    words = {"left": "share not converged"}
    yield from rows_of(short, "{method} at {factor} {value:g}", words, factor=FACTORS)
    slower = base[base["method"] != "mm"]
    yield from rows_of(slower, "Base, {method}", {"time_ratio": "time over that of MM"})
    yield from _on_paper(tables["paper"])
    yield from _on_redundancy(tables["redundancy"])
    kind = "drawn from the base, as none is given" if simulated else "given"
    yield Claim(f"Matrix, {kind}, subjects", size[0])
    yield Claim(f"Matrix, {kind}, items", size[1])
    yield from _on_starts(tables["stability"])
    yield from _on_agreement(tables["agreement"], tables["ranks"])
    yield from _on_heterogeneity(tables["heterogeneity"])
    yield from _on_levels(tables["levels"], tables["level_rho"])


def _on_factor(own: pd.DataFrame, factor: str) -> Iterator[Claim]:
    """Yield where MM and Newton are farthest apart, and whether they agree."""
    errors = own.pivot(index="value", columns="method", values="eta_error")
    if not len(errors):
        return
    at = np.abs(np.log(errors["mm"] / errors["newton"])).idxmax()
    rows = own[own["value"] == at]
    title = f"{_upper(factor)} at {at:g}, where MM and Newton are farthest apart"
    yield from rows_of(rows, f"{title}, {{method}}", _RECOVERED)
    mm, newton = errors.loc[at, "mm"], errors.loc[at, "newton"]
    verdict = "the two agree"
    if min(mm, newton) > 1:
        verdict = "nothing here is accurate"
    elif mm >= 2 * newton:
        behind = rows.set_index("method").loc["mm", "behind"]
        verdict = (
            f"MM's log likelihood is below Newton's in {behind:.0%} of the suites, where it "
            f"stopped short; in the others it lacks Newton's prior"
        )
    yield Claim(f"{title}, error of eta by MM over Newton's", mm / newton, verdict=verdict)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _on_paper(paper: pd.DataFrame) -> Iterator[Claim]:
    for row in paper[paper["here"].notna()].itertuples():
        printed = row.printed_low if row.printed_low == row.printed_high else np.nan
        yield Claim(_upper(row.quantity), row.here, paper=printed, verdict=row.here_is)


def _on_redundancy(redundancy: pd.DataFrame) -> Iterator[Claim]:
    if not len(redundancy):
        return
    words = {
        "recall": "share of the items with a = 0 that it finds",
        "false_share": "false share",
        "paper_recall": "recall of a > 0",
        "paper_precision": "precision of a > 0",
    }
    rules = [*(f"{name}: a = 0" for name in ("mm", "newton", "mml")),
             f"newton: a < {HARDLY_DISCRIMINATES}"]  # fmt: skip
    for rule in rules:
        own = redundancy[redundancy["rule"] == rule]
        for column, text in words.items() if len(own) else ():
            yield ranging(f"Declared redundant by {rule}, {text}", own[column])
    for row in redundancy[redundancy["method"].isin(POSTERIORS)].to_dict("records"):
        title = f"Posterior, {row['method']} slopes, at most {row['q']:.0%} false"
        title = f"{title}, sparsity {row['sparsity']:g}"
        holds = {"yes": "the bound holds"}.get(row["holds"], f"bound exceeded: {row['holds']}")
        share, error = row["false_share"], row["false_share_se"]
        yield Claim(f"{title}, false share", share, error, verdict=holds)
        yield Claim(f"{title}, share found", row["recall"])


def _on_starts(stability: pd.DataFrame) -> Iterator[Claim]:
    lowest = stability.groupby("method")["mean"].min()
    if lowest["mm"] >= _STABLE:
        verdict = "as in the paper, the start hardly matters"
    elif lowest["newton"] >= _STABLE:
        verdict = "the optimum is one, but MM, stopped at a change of 1e-4, is left behind"
    else:
        verdict = "the start matters for both steps: the optimum is not one, or lies far out"
    yield Claim("Random starts, lowest mean Spearman of two fits", lowest.min(), verdict=verdict)
    for method, own in stability.groupby("method", sort=False):
        span = f"{own['variance_one'].min():g} to {own['variance_two'].max():g}"
        title = f"Random starts of variance {span}, {method}, {own['runs'].iloc[0]} runs"
        for parameter, rows in own.groupby("parameter", sort=False):
            text, paper = f"{title}, {parameter}", rows["printed_lowest"].min()
            yield Claim(f"{text}, lowest mean Spearman", rows["mean"].min(), paper=paper)
            yield Claim(f"{text}, lowest of a single pair", rows["lowest"].min())
        yield ranging(f"{title}, iterations", own["iterations"].round())
        yield Claim(f"{title}, share where both converged", own["converged"].mean())
        theta = own[own["parameter"] == "theta"]
        text = f"{title}, reversed orders of theta of {theta['runs'].sum()}"
        yield Claim(text, theta["reversed"].sum())


def _on_agreement(agreement: pd.DataFrame, ranks: pd.DataFrame) -> Iterator[Claim]:
    title = "Ability and accuracy on the matrix, {method}"
    words = {"cv_a": "CV of a", "log_likelihood": "log likelihood", "iterations": "iterations"}
    for _, own in agreement.groupby("method", sort=False):
        every, top = own[own["scope"] == "all"], own[own["scope"] != "all"]
        yield from rows_of(every, title, {"rho": "Spearman of all"} | words)
        yield from rows_of(top, title + " and the {subjects} best", {"rho": "Spearman"})
    newton = ranks[ranks["method"] == "newton"]
    moved = (newton["rank_accuracy"] - newton["rank_theta"]).abs()
    farthest = newton.loc[moved.idxmax()]
    at = f"from {farthest['rank_accuracy']:.0f} to {farthest['rank_theta']:.0f}"
    text = "From accuracy to ability, change of rank"
    yield Claim(f"{text}, median", moved.median())
    yield Claim(f"{text}, largest", moved.max(), verdict=f"{farthest['subject']} {at}")


def _on_heterogeneity(heterogeneity: pd.DataFrame) -> Iterator[Claim]:
    rows = heterogeneity[heterogeneity["method"] == "newton"]
    known = rows[rows["rho_theta"].notna()]
    if len(rows) <= 2:
        return
    title = f"Over {len(rows)} suites with all cells, Spearman of CV(a) and this agreement"
    for name, who in (("rho_average", "all"), ("rho_average_top", "top 20%")):
        rho = float(spearman(rows["cv_a"].to_numpy(), rows[name].to_numpy()))
        verdict = "inverse, as in the paper" if rho < 0 else "not inverse"
        yield Claim(f"{title}, {who}", rho, verdict=verdict)
    ahead = (known["rho_theta"] - known["average_rho_theta"]).to_numpy()
    text = f"Suites of {len(known)} whose truth ability is nearer to than accuracy"
    yield Claim(text, int((ahead > 0).sum()))
    most = known.iloc[int(ahead.argmax())]
    title = f"Where ability is ahead the most, at a CV of {most['cv_a']:.2f}, Spearman of theta"
    words = {"rho_theta": "and ability", "average_rho_theta": "and accuracy"}
    yield from figures_of(title, most, words)


def _on_levels(levels: pd.DataFrame, level_rho: pd.DataFrame) -> Iterator[Claim]:
    for row in level_rho.to_dict("records"):
        title = f"Spearman of {MEASURES[row['measure']]} and human level, {row['method']}"
        title = f"{title}, {row['items']} items, {LEVEL:.0%} interval over items"
        yield spanning(title, row, "rho")
    if not len(levels):
        return
    newton = levels[levels["method"] == "newton"]
    yield from rows_of(newton, "Level {level:g}", {"minus_d": "median of -d"})
    steps, width = np.diff(newton["minus_d"]), newton["minus_d_high"] - newton["minus_d_low"]
    steady = "a rise at every level" if (steps > 0).all() else "no steady rise"
    yield Claim("Smallest change of that median", steps.min(), verdict=steady)
    text = "Width of the middle half of -d"
    wider = "widens" if width.iloc[-1] > width.iloc[0] else "does not widen"
    yield Claim(f"{text}, lowest level", width.iloc[0])
    yield Claim(f"{text}, highest level", width.iloc[-1], verdict=wider)

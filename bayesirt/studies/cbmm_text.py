"""What the cBMM study's simulations say, in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.studies.cbmm_conditions import FACTORS
from bayesirt.studies.cbmm_matrix import MatrixLook
from bayesirt.studies.cbmm_matrix_text import matrix_in_words
from bayesirt.studies.cbmm_methods import POINT_METHODS, POSTERIORS

NOTES = (
    "Nothing is read off a plot. Qu et al. (2026) print a few ratios and Tables A.1 to A.3; "
    "Figures 1 to 5 and A.1 to A.7 give no numbers and stand beside ours in kind only. Its times "
    "are from another machine and against other programs, so only ratios are compared. Times of "
    "joint MAP and MML include the errors of all parameters; suites that run side by side blur "
    "them all.",
    "All is compared with abilities of mean 0 and standard deviation 1, in estimate and truth; "
    "eta is the same on any scale. The missing shares of the paper's figures are not stated but "
    "for their range, so they are ours, and its N(0, 0.5) is read as a variance.",
    "MM is Algorithm 1 with the printed start, tolerance and no prior. It stops once the loss "
    "changes by less than 1e-4 of itself, which may be far from the optimum. Where data are few it "
    "is better off stopping there: the optimum without a prior then lies far out or nowhere (on "
    "200 x 200 suites with 80% missing, going on to 1e-9 made its error of eta a thousand times "
    "larger). Newton, joint MAP and MML hold a weak or proper prior, and run until they converge.",
    "An item that loses its wrong answers (MNAR) has only right ones: its a and d are no longer in "
    "the data, whatever the method. Abilities hardly suffer.",
    "The paper counts a > 0 as the discovery: a recall of 1 then says that no useful item is "
    "lost, and its precision that few of the items kept are redundant. Dropping items asks the "
    "other way round, which is the false share here. Half of the redundant items have an estimate "
    "above 0 by chance alone, so a = 0 cannot find many more than half of them.",
    "Redundant means a = 0, all other items have a from 0.5 to 1: items between the two, which "
    "real suites have, are harder. Lists hold P(|a| < 0.25) to the bound q given the prior, which "
    "learns one normal spread of the slopes (positive: of their logs) and fits no such gap.",
)


def study_in_words(
    recovery: pd.DataFrame,
    claims: pd.DataFrame,
    redundancy: pd.DataFrame,
    stability: pd.DataFrame,
    heterogeneity: pd.DataFrame,
    matrix: MatrixLook,
) -> list[str]:
    """Return the verdict, one sentence or a few a line."""
    return [
        *_on_base(recovery),
        *_on_size(recovery),
        *_on_factors(recovery),
        *_on_convergence(recovery),
        *_on_time(recovery, claims),
        *_on_estimated_zeros(redundancy),
        *_on_lists(redundancy),
        *matrix_in_words(stability, heterogeneity, matrix),
        *(f"Note: {note}" for note in NOTES),
    ]


def _on_base(recovery: pd.DataFrame) -> Iterator[str]:
    base = recovery[recovery["factor"] == "base"]
    for row in base.itertuples():
        yield (
            f"Base, {row.n_subjects} x {row.n_items}, {POINT_METHODS[row.method]} "
            f"({row.replications} suites): Spearman of theta {row.rho_theta:.3f}, of a "
            f"{row.rho_a:.3f}; RMSE of d {row.rmse_d:.3f}; relative error of eta "
            f"{row.eta_error:.3f}; Hellinger {row.hellinger:.4f}."
        )


def _on_size(recovery: pd.DataFrame) -> Iterator[str]:
    newton = recovery[recovery["method"] == "newton"]
    for factor, size in (("items", "n_items"), ("subjects", "n_subjects")):
        own = newton[newton["factor"].isin([factor, "base"])].sort_values(size)
        if len(own) < 2:
            continue
        first, last = own.iloc[0], own.iloc[-1]
        yield (
            f"From {first[size]} to {last[size]} {factor}, Newton: Spearman of theta "
            f"{_change(first, last, 'rho_theta')}, of a {_change(first, last, 'rho_a')}, RMSE of d "
            f"{_change(first, last, 'rmse_d')}, relative error of eta "
            f"{_change(first, last, 'eta_error')}. The paper says so too: more items tell of "
            f"abilities, more subjects of items, and both lower the error of eta."
        )


def _change(first: pd.Series, last: pd.Series, name: str) -> str:
    return f"{first[name]:.3f} to {last[name]:.3f}"


def _on_factors(recovery: pd.DataFrame) -> Iterator[str]:
    """Say, of each factor, where MM and Newton are farthest apart."""
    for factor in ("temperature", "mcar", "mar", "mnar", "sparsity", "spread"):
        own = recovery[recovery["factor"] == factor]
        errors = own.pivot(index="value", columns="method", values="eta_error")
        if not len(errors):
            continue
        at = np.abs(np.log(errors["mm"] / errors["newton"])).idxmax()
        rows = own[own["value"] == at].set_index("method")
        parts = [
            f"{name} {row['eta_error']:.3f} ({row['rho_theta']:.3f}, {row['rho_a']:.3f}, "
            f"{row['rmse_d']:.3f})"
            for name, row in rows.iterrows()
        ]
        yield (
            f"{_upper(FACTORS[factor])}, at {at:g}, where MM and Newton are farthest apart: "
            f"relative error of eta (Spearman of theta, of a, RMSE of d) {'; '.join(parts)}. "
            + _verdict(rows, factor)
        )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _verdict(rows: pd.DataFrame, factor: str) -> str:
    """Say whether the paper's sentence, that cBMM is robust, is true of both steps."""
    mm, newton = rows.loc["mm", "eta_error"], rows.loc["newton", "eta_error"]
    if min(mm, newton) > 1:
        return (
            "An error above 1 is worse than eta = 0: nothing here is accurate, though the paper "
            "finds cBMM robust."
        )
    if mm >= 2 * newton:
        why = (
            f"MM's log likelihood is below Newton's in {rows.loc['mm', 'behind']:.0%} of the "
            f"suites, where it stopped short; in the others it lacks Newton's prior."
        )
        return why + ("" if factor == "spread" else " The paper calls cBMM robust here.")
    return "The two agree" + ("." if factor == "spread" else ": robust, as the paper says.")


def _on_convergence(recovery: pd.DataFrame) -> Iterator[str]:
    failed = recovery[recovery["converged"] < 1]
    names = [
        f"{row.method} at {FACTORS[row.factor]} {row.value:g} ({1 - row.converged:.0%})"
        for row in failed.itertuples()
    ]
    yield (
        f"Not converged: {', '.join(names)}." if names else "Every point estimate converged."
    ) + (
        " The paper reports 'NA' of mirt at 2,000 items and more, log10 temperatures of 0.5 and "
        "0.75, all of MNAR, and 40% and 50% of a = 0; MML here (EM as well) gives an estimate "
        "wherever it is run, which is up to 2,000 items."
    )


def _on_time(recovery: pd.DataFrame, claims: pd.DataFrame) -> Iterator[str]:
    base = recovery[recovery["factor"] == "base"].set_index("method")["time_ratio"]
    ratios = ", ".join(f"{name} {base[name]:.2f}" for name in base.index if name != "mm")
    yield f"Time over that of MM, in the base: {ratios}."
    for row in claims[claims["here"].notna()].itertuples():
        printed = row.printed_low if row.printed_low == row.printed_high else np.nan
        paper = "" if np.isnan(printed) else f"paper {printed:g}, "
        yield f"{_upper(row.quantity)}: {paper}here {row.here:.2f} ({row.here_is})."


def _on_estimated_zeros(redundancy: pd.DataFrame) -> Iterator[str]:
    unbound = redundancy[redundancy["q"].isna()] if len(redundancy) else redundancy
    for rule in ("mm: a = 0", "newton: a = 0", "mml: a = 0"):
        own = unbound[unbound["rule"] == rule] if len(unbound) else unbound
        if len(own):
            yield (
                f"Declared redundant by {rule}: finds {_span(own['recall'])} of the items with "
                f"a = 0, false share {_span(own['false_share'])}. In the paper's terms, recall of "
                f"a > 0 {_span(own['paper_recall'])} (paper 100%), precision "
                f"{_span(own['paper_precision'])} (paper: uncontrolled)."
            )
    near = f"newton: a < {HARDLY_DISCRIMINATES}"
    own = unbound[unbound["rule"] == near] if len(unbound) else unbound
    if len(own):
        yield (
            f"Declared redundant by {near}: finds {_span(own['recall'])}, false share "
            f"{_span(own['false_share'])}: more, but nothing says beforehand how many are wrong."
        )


def _on_lists(redundancy: pd.DataFrame) -> Iterator[str]:
    for name in POSTERIORS if len(redundancy) else ():
        for q, own in redundancy[redundancy["method"] == name].groupby("q"):
            broken = own[own["holds"] != "yes"]
            where = ", ".join(
                f"{row.sparsity:g} ({row.false_share:.1%} ± {2 * row.false_share_se:.1%}, "
                f"{row.holds})"
                for row in broken.itertuples()
            )
            held = f"the bound is exceeded at sparsity {where}" if where else "the bound holds"
            yield (
                f"Posterior, {name} slopes, at most {q:.0%} false: {held}; largest false share "
                f"{own['false_share'].max():.1%}, finds {_span(own['recall'])} "
                f"({_by_sparsity(own)})."
            )


def _by_sparsity(own: pd.DataFrame) -> str:
    return ", ".join(f"{row.recall:.0%} at {row.sparsity:g}" for row in own.itertuples())


def _span(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:.1%}" if np.isclose(low, high) else f"{low:.1%} to {high:.1%}"

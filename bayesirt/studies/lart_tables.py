"""The tables, claims and figures of the LaRT study."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from bayesirt.posterior import LEVEL
from bayesirt.report.plots import ACCENT, INK, SOFT
from bayesirt.studies.claims import Claim, claims_from
from bayesirt.studies.engine import Study
from bayesirt.studies.figures import (
    POINT,
    draw_boxes,
    draw_dots,
    draw_lines,
    legend_above,
    log_plain,
    log_values,
    new_figure,
    patches,
)
from bayesirt.studies.lart_matrix import criterion_table, with_criterion
from bayesirt.studies.lart_matrix_tasks import PREDICTIONS, mean_table, prediction_table
from bayesirt.studies.lart_suites import (
    ANSWERS,
    DRAWN,
    EM_METHODS,
    INTERVALS,
    LENGTHS,
    PLACE,
    SAEM_METHODS,
    coverage_table,
    recovery_table,
    saem_suites,
    saem_table,
    time_table,
)
from bayesirt.studies.measures import read_notes, read_printed
from bayesirt.studies.tasks import PortableKey

SYMBOLS = {
    "theta": "θ", "a": "a", "d": "d", "phi": "φ", "omega": "ω", "lam": "λ", "rho": "ρ",
}  # fmt: skip
MEASURES = {"absolute_error": "mean absolute error", "log_score": "log score"}
_FILLS = {"irt": "white", "lart": ACCENT}
_SAEM_FILLS = dict(zip(("lart", *SAEM_METHODS), (INK, ACCENT, "white"), strict=True))
_NAMES = {
    "parameter": SYMBOLS,
    "method": EM_METHODS,
    "measure": MEASURES,
    "prediction": PREDICTIONS,
    "fit": {"lart": "EM", **SAEM_METHODS},
}
_LEAST_GAP = 1e-3
_ITEM_TICKS = (10, 20, 50, 100, 200, 400)


def lart_found(suites: pd.DataFrame) -> Study:
    """Evaluate the rows of all suites and methods."""
    tables = {
        "recovery": recovery_table(suites),
        "seconds": time_table(suites),
        "saem": saem_table(suites),
        "coverage": coverage_table(suites),
    }
    figures = {
        "recovery": partial(plot_recovery, suites),
        "saem": partial(plot_saem, suites),
        "coverage": partial(plot_coverage, tables["coverage"]),
    }
    title = f"LaRT study of {len(suites):,} fits"
    claims = [*simulation_claims(**tables)]
    return Study(title, suites, tables, claims, read_notes("lart"), figures)


def matrix_found(
    simulated: Study,
    n_items: int,
    look: Mapping[str, pd.DataFrame],
    rows: Mapping[str, pd.DataFrame],
    criterion: Mapping[str, float],
    key: PortableKey,
) -> Study:
    """Return a study of simulated suites with the results on a given matrix added."""
    subjects, groups = look["matrix_subjects"], look["matrix_subjects"]["group"].to_numpy()
    prediction = prediction_table(rows["prediction"], groups, key.rng("prediction"))
    by_subjects = mean_table(rows["subject_efficiency"], ["n_subjects", "method"])
    by_items = mean_table(rows["item_efficiency"], ["n_items", "method"])
    tables = {
        **look,
        "matrix_prediction": prediction,
        "matrix_validity": mean_table(rows["validity"], ["method"]),
        "matrix_subject_efficiency": by_subjects,
        "matrix_item_efficiency": by_items,
    }
    figures = {
        "abilities_and_speeds": partial(plot_abilities_and_speeds, subjects),
        "prediction": partial(plot_prediction, prediction),
        "efficiency": partial(plot_efficiency, by_items, by_subjects),
    }
    if criterion:
        outside = with_criterion(subjects, criterion)
        tables["matrix_criterion"] = criterion_table(outside, key.rng("criterion"))
        figures["criterion"] = partial(plot_criterion, outside)
    return Study(
        f"{simulated.title} and a {len(subjects)} x {n_items} matrix",
        simulated.replications,
        {**simulated.tables, **tables},
        [*simulated.said, *matrix_claims(tables, n_items)],
        read_notes("lart") + read_notes("lart_matrix"),
        {**simulated.figures, **figures},
    )


def simulation_claims(
    recovery: pd.DataFrame, seconds: pd.DataFrame, saem: pd.DataFrame, coverage: pd.DataFrame
) -> Iterator[Claim]:
    """Yield claims on parameter recovery with lengths, on SAEM, and on coverage."""
    frames = {
        "recovery": recovery,
        "seconds": seconds.assign(left=1 - seconds["converged"]),
        "saem": saem.assign(fit=saem["method"]),
        "two of SAEM": _two_of_saem(saem),
        "coverage": _with_forms(coverage).assign(spread=2 * coverage["coverage_se"]),
        "widths": _widths(coverage),
    }
    return claims_from("lart", frames, _NAMES)


def _with_forms(coverage: pd.DataFrame) -> pd.DataFrame:
    forms = pd.MultiIndex.from_frame(coverage[["method", "interval"]])
    return coverage.assign(form=forms.map(INTERVALS))


def _two_of_saem(saem: pd.DataFrame) -> pd.DataFrame:
    """Compare SAEM from its two starts, by condition."""
    placed = saem.set_index(PLACE)
    spectral, burn_in, lart = (placed[placed["method"] == x] for x in (*SAEM_METHODS, "lart"))
    errors = [f"rmse_{name}" for name in ANSWERS]
    return pd.DataFrame({
        "apart": (spectral[errors] - burn_in[errors]).abs().max(axis=1),
        "spectral": spectral["gap"], "burn_in": burn_in["gap"],
        "times": burn_in["worst_a"] / lart["worst_a"],
    }).reset_index()  # fmt: skip


def _widths(coverage: pd.DataFrame) -> pd.DataFrame:
    """Compare the widths of intervals, by condition."""
    width = coverage.pivot(index=PLACE, columns=["method", "interval"], values="width")
    finite, drawn = width["lart", "finite"], (DRAWN, "posterior")
    return pd.DataFrame({
        "wider": finite / width["lart", "asymptotic"] - 1,
        "narrower": 1 - finite / width["irt", "asymptotic"],
        "drawn": width[drawn] / finite - 1 if drawn in width else np.nan,
    }).reset_index()  # fmt: skip


def matrix_claims(tables: Mapping[str, pd.DataFrame], n_items: int) -> Iterator[Claim]:
    """Yield claims on the value of lengths on the given matrix."""
    subjects, prediction = tables["matrix_subjects"], tables["matrix_prediction"]
    validity, printed = tables["matrix_validity"], read_printed("lart_printed")
    facts = {"subjects": len(subjects), "items": n_items, "bases": subjects["group"].nunique()}
    distance = tables["matrix_item_efficiency"].pivot(
        index="n_items", columns="method", values="distance"
    )
    summed = printed[printed["table"] == "validity"].set_index("method")["value"]
    sets = validity.set_index("method").loc[list(EM_METHODS)]
    frames = {
        **tables,
        "matrix": pd.DataFrame([facts]),
        "matrix_prediction": prediction.assign(prediction=prediction["method"]),
        "printed": printed,
        "by base": _by_base(prediction),
        "matrix_validity": sets.assign(printed=summed).reset_index(),
        "validity gap": pd.DataFrame([sets.loc["lart"] - sets.loc["irt"]]),
        "closer": pd.DataFrame({"share": [(distance["lart"] < distance["irt"]).mean()]}),
        "matrix_subject_efficiency": _beside_table_two(
            tables["matrix_subject_efficiency"], printed
        ),
        "matrix_criterion": tables.get("matrix_criterion", pd.DataFrame()),
    }
    return claims_from("lart_matrix", frames, _NAMES)


def _by_base(prediction: pd.DataFrame) -> pd.DataFrame:
    """Return what splitting by base subject changes; empty if each row is its own base."""
    both = prediction[prediction["method"].isin(list(EM_METHODS))].pivot(
        index=["method", "measure"], columns="split", values="value"
    )
    if both.shape[1] == 1:
        return pd.DataFrame()
    return (both["by base subject"] - both["by row"]).rename("change").reset_index()


def _beside_table_two(subjects: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return distances of items with those that Table 2 prints for as many subjects."""
    rows = printed[printed["table"] == "subject_efficiency"]
    keys = [rows["place"].astype(float).rename("n_subjects"), rows["method"]]
    values = rows["value"].groupby([*keys, rows["quantity"].str[-1]]).first().unstack()
    return subjects.join(values.add_prefix("printed_"), on=["n_subjects", "method"])


def plot_recovery(replications: pd.DataFrame) -> Figure:
    """Draw the errors of LaRT and IRT by the number of subjects (Xu et al., 2026, Figures 1, 2)."""
    fig, axes = new_figure(8.6, 4.8, 2, 4, x="subjects")
    for ax, name in zip([*axes[0, :3], *axes[1]], (*ANSWERS, *LENGTHS), strict=True):
        fills = _FILLS if name in ANSWERS else {"lart": ACCENT}
        draw_boxes(ax, _papers(replications), "n_subjects", f"rmse_{name}", fills)
        error = "absolute error" if name == "rho" else "RMSE"
        ax.set(title=f"{error} of {SYMBOLS[name]}", ylim=(0, None))
    axes[0, 3].axis("off")
    handles = patches({EM_METHODS[name]: fill for name, fill in _FILLS.items()})
    axes[0, 3].legend(handles=handles, loc="center")
    return fig


def plot_saem(replications: pd.DataFrame) -> Figure:
    """Draw SAEM from two starts and EM (Xu et al., 2026, Figure 10)."""
    rows = saem_suites(_papers(replications))
    rows["gap"] = rows["gap"].clip(lower=_LEAST_GAP)
    fig, axes = new_figure(9.2, 3.4, 1, 4, x="subjects")
    for ax, name in zip(axes[0], ANSWERS, strict=False):
        draw_boxes(ax, rows, "n_subjects", f"rmse_{name}", _SAEM_FILLS)
        ax.set_title(f"RMSE of {SYMBOLS[name]}")
    last, (em, *saem) = axes[0, 3], _SAEM_FILLS
    draw_boxes(last, rows, "n_subjects", "gap", {name: _SAEM_FILLS[name] for name in saem})
    log_values(last)
    last.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    last.set_title("log likelihood below EM's")
    handles = patches({{em: "EM", **SAEM_METHODS}[name]: x for name, x in _SAEM_FILLS.items()})
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return fig


def plot_coverage(coverage: pd.DataFrame) -> Figure:
    """Draw coverage and width of the abilities' 90% intervals."""
    fig, axes = new_figure(8.4, 0.9 + 0.22 * len(coverage), 1, 2, sharey=True)
    label = "{n_subjects:.0f} x {n_items:.0f}, ρ = {rho:g}: {form}"
    names = [label.format(**row) for row in _with_forms(coverage).to_dict("records")]
    error = 2 * coverage["coverage_se"].fillna(0)
    draw_dots(axes[0, 0], names, coverage["coverage"], error, at=LEVEL)
    draw_dots(axes[0, 1], names, coverage["width"])
    axes[0, 0].set_xlabel(f"coverage of {LEVEL:.0%} intervals")
    axes[0, 1].set_xlabel("mean width")
    return fig


def plot_abilities_and_speeds(subjects: pd.DataFrame) -> Figure:
    """Draw speed against ability (Xu et al., 2026, Figure 3), and abilities of the two models."""
    fig, axes = new_figure(8.0, 3.7, 1, 2)
    left, right = axes[0]
    left.plot(subjects["theta_lart"], subjects["tau"], "o", ms=4, **POINT)
    left.set(xlabel="ability θ by LaRT", ylabel="speed τ (above: shorter answers)")
    right.axline((0, 0), slope=1, color=SOFT, lw=0.8, ls="--")
    right.plot(subjects["theta_irt"], subjects["theta_lart"], "o", ms=4, **POINT)
    right.set(xlabel="ability θ by probit IRT", ylabel="ability θ by LaRT")
    return fig


def plot_prediction(prediction: pd.DataFrame) -> Figure:
    """Draw how much smaller LaRT's errors are than IRT's, on held-out items."""
    rows = prediction[prediction["method"] != "irt"]
    height = 1.4 + 0.45 * len(rows) / len(MEASURES)
    fig, axes = new_figure(8.6, height, 1, 2, x="IRT less LaRT", sharey=True)
    for ax, (measure, label) in zip(axes[0], MEASURES.items(), strict=True):
        group = rows[rows["measure"] == measure]
        names = [f"{PREDICTIONS[row.method]}\n({row.split})" for row in group.itertuples()]
        reach = [group["gain"] - group["low"], group["high"] - group["gain"]]
        draw_dots(ax, names, group["gain"], reach, at=0)
        ax.set_title(f"{label} (less is better)")
        ax.xaxis.set_major_locator(MaxNLocator(4))
    return fig


def plot_efficiency(items: pd.DataFrame, subjects: pd.DataFrame) -> Figure:
    """Draw the errors with few items or subjects (Xu et al., 2026, Figure 9 and Table 2)."""
    panels = (
        (items, "n_items", "distance", "θ: distance from all items"),
        (items.assign(rho=1 - items["rho"]), "n_items", "rho", "θ: 1 - Spearman with all items"),
        (subjects, "n_subjects", "distance_a", "a: distance from all subjects"),
        (subjects, "n_subjects", "distance_d", "d: distance from all subjects"),
    )
    fig, axes = new_figure(9.6, 3.2, 1, 4)
    for ax, (table, x, y, title) in zip(axes[0], panels, strict=True):
        draw_lines(ax, table, x, y, EM_METHODS)
        if x == "n_items":
            log_plain(ax, [n for n in _ITEM_TICKS if n <= table[x].max()])
        ax.set(ylim=(0, None), xlabel=x.removeprefix("n_"))
        ax.set_title(title, fontsize=8)
    legend_above(fig, axes[0, 0], 2)
    return fig


def plot_criterion(outside: pd.DataFrame) -> Figure:
    """Draw the criterion against abilities by both models."""
    fig, axes = new_figure(7.6, 3.6, 1, 2, x="ability θ", sharey=True)
    for ax, name in zip(axes[0], _FILLS, strict=True):
        ax.plot(outside[f"theta_{name}"], outside["criterion"], "o", ms=3.5, **POINT)
        ax.set_title(EM_METHODS[name])
    axes[0, 0].set_ylabel("criterion")
    return fig


def _papers(replications: pd.DataFrame) -> pd.DataFrame:
    """Return the conditions with the most items, which leaves out the short tests."""
    return replications[replications["n_items"] == replications["n_items"].max()]

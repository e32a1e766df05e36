"""What the LaRT study's simulations say, in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.studies.lart_figures import INTERVAL_LABELS, SYMBOLS
from bayesirt.studies.lart_measures import ANSWERS, LENGTHS
from bayesirt.studies.lart_tables import PLACE
from bayesirt.studies.lart_tasks import DRAWN, EM_METHODS, SAEM_METHODS

_OUTLIER = 2
"""Times EM's largest error from which on SAEM's is called an outlier."""

NOTES = (
    "Xu et al. (2026) plot their simulation (Figures 1, 2, 10 and 11) and print no figure of it, "
    "so it is compared in kind only. N(0, 0.5) is read as a variance, λ as one too.",
    "Abilities here are posterior means where the paper has posterior modes, and both models are "
    "fitted by exact EM with a weak prior (standard deviation 10 of a and d) where the paper has "
    "SAEM. The paper does not say how many iterations its SAEM runs; ours runs the design's.",
    "Our SAEM takes an expectation over the latent answers and one step of a closed form where "
    "the paper's maximises anew by L-BFGS: this makes the burn-in's α = 1 far less noisy.",
    "Equation 10 holds in the limit of endless many lengths; the finite-length interval has "
    "1/(1 - ρ²) replaced by 1 + ρ²/(1 - ρ² + 1/P). Both take items as known, which the full "
    "posterior does not. Text and tables of the paper print no coverage.",
)


def study_in_words(
    recovery: pd.DataFrame, seconds: pd.DataFrame, saem: pd.DataFrame, coverage: pd.DataFrame
) -> list[str]:
    """Return the verdict, one sentence or a few a line."""
    return [
        *_on_recovery(recovery),
        *_on_lengths(recovery),
        *_on_time(seconds),
        *_on_saem(saem),
        *_on_coverage(coverage),
        *(f"Note: {note}" for note in NOTES),
    ]


def condition_words(place: tuple[float, ...]) -> str:
    """Return a condition in words."""
    n, j, rho = place
    return f"{n:.0f} x {j:.0f}, rho {rho:g}"


def _on_recovery(recovery: pd.DataFrame) -> Iterator[str]:
    for place, own in recovery.groupby(PLACE, sort=False):
        table = own.set_index("parameter")
        parts = [
            f"{SYMBOLS[name]} {table.loc[name, 'lart']:.3f} against {table.loc[name, 'irt']:.3f} "
            f"(LaRT better in {table.loc[name, 'lart_wins']:.0%})"
            for name in ANSWERS
        ]
        yield (
            f"Simulated, {condition_words(place)}, {table['replications'].iloc[0]} suites, mean "
            f"RMSE of LaRT against probit IRT: {'; '.join(parts)}. {_verdict(table)}"
        )


def _verdict(table: pd.DataFrame) -> str:
    """Say of which parameters the paper's sentence, that LaRT is uniformly better, is sure."""
    answers = table.loc[list(ANSWERS)]
    reach = 2 * answers["gain_se"].fillna(np.inf)
    better = [SYMBOLS[name] for name in answers.index[answers["gain"] > reach]]
    worse = [SYMBOLS[name] for name in answers.index[answers["gain"] < -reach]]
    unsure = [SYMBOLS[n] for n in ANSWERS if SYMBOLS[n] not in (*better, *worse)]
    parts = (("better", better), ("not surely different", unsure), ("WORSE", worse))
    said = "; ".join(f"{what} on {', '.join(names)}" for what, names in parts if names)
    return f"By two standard errors LaRT is {said}. The paper: better on all, uniformly."


def _on_lengths(recovery: pd.DataFrame) -> Iterator[str]:
    for place, own in recovery.groupby(PLACE, sort=False):
        table = own.set_index("parameter")["lart"]
        errors = ", ".join(f"{SYMBOLS[name]} {table[name]:.3f}" for name in LENGTHS)
        yield f"The lengths' own parameters, {condition_words(place)}: mean error of {errors}."


def _on_time(seconds: pd.DataFrame) -> Iterator[str]:
    for place, own in seconds.groupby(PLACE, sort=False):
        table = own.set_index("method")["seconds"]
        times = ", ".join(f"{name} {value:.2f}" for name, value in table.items())
        yield f"Median seconds of a fit, {condition_words(place)}: {times}."
    failed = seconds[seconds["method"].isin(list(EM_METHODS)) & (seconds["converged"] < 1)]
    if len(failed):
        yield f"EM did not converge in up to {1 - failed['converged'].min():.0%} of the suites."


def _on_saem(saem: pd.DataFrame) -> Iterator[str]:
    labels = {"lart": "EM", **SAEM_METHODS}
    for place, own in saem.groupby(PLACE, sort=False):
        parts = []
        for row in own.itertuples():
            below = "" if row.method == "lart" else (
                f", log likelihood below EM's by {row.gap:.2f} (at most {row.largest_gap:.2f})"
            )  # fmt: skip
            parts.append(
                f"{labels[row.method]} {row.rmse_theta:.3f}, {row.rmse_a:.3f} (worst "
                f"{row.worst_a:.2f}), {row.rmse_d:.3f}{below}"
            )
        yield (
            f"SAEM, {condition_words(place)}, {own['replications'].iloc[0]} suites, RMSE of θ, a, "
            f"d: {'; '.join(parts)}. {_on_burn_in(own.set_index('method'))}"
        )


def _on_burn_in(table: pd.DataFrame) -> str:
    spectral, burn_in, em = (table.loc[n] for n in ("saem spectral", "saem burn-in", "lart"))
    errors = [f"rmse_{name}" for name in ANSWERS]
    apart = (spectral[errors] - burn_in[errors]).astype(float).abs().max()
    closer = "spectral start" if spectral["gap"] < burn_in["gap"] else "burn-in"
    outlier = burn_in["worst_a"] > _OUTLIER * em["worst_a"]
    return (
        f"The two differ by at most {apart:.3f}; closer to the optimum ends the {closer}. The "
        f"paper finds outliers of a and d after the burn-in and larger errors throughout; here "
        f"{'there are outliers, too' if outlier else 'there are none'}."
    )


def _on_coverage(coverage: pd.DataFrame) -> Iterator[str]:
    for place, own in coverage.groupby(PLACE, sort=False):
        found = own.set_index(["method", "interval"])
        parts = [
            f"{label} {found.loc[key, 'coverage']:.1%} ± {2 * found.loc[key, 'coverage_se']:.1%}, "
            f"width {found.loc[key, 'width']:.3f}"
            for key, label in INTERVAL_LABELS.items()
            if key in found.index
        ]
        yield f"90% intervals of θ, {condition_words(place)}: {'; '.join(parts)}. " + _on_widths(
            found
        )


def _on_widths(found: pd.DataFrame) -> str:
    asymptotic, finite = found.loc[("lart", "asymptotic")], found.loc[("lart", "finite")]
    irt = found.loc[("irt", "asymptotic"), "width"]
    said = (
        f"At finite length the interval is {finite['width'] / asymptotic['width'] - 1:.1%} wider "
        f"than by equation 10, and {1 - finite['width'] / irt:.0%} narrower than IRT's."
    )
    if (DRAWN, "posterior") in found.index:
        wider = found.loc[(DRAWN, "posterior"), "width"] / finite["width"] - 1
        said += f" Items that are not known make the posterior's {wider:.0%} wider still."
    return said

"""What the cBMM study says of one matrix, in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayesirt.posterior import LEVEL
from bayesirt.studies.cbmm_matrix import MatrixLook
from bayesirt.studies.rank_correlation import spearman

_MEASURES = {"minus_d": "-d", "b": "b = -d/a", "wrong": "the share wrong"}
_STABLE = 0.99


def matrix_in_words(
    stability: pd.DataFrame, heterogeneity: pd.DataFrame, matrix: MatrixLook
) -> list[str]:
    """Return what random starts, accuracy and level say of a matrix."""
    n, j = matrix.size
    kind = "drawn from the base, as no responses are given" if matrix.simulated else "given"
    return [
        f"Matrix: {n} x {j}, {kind}.",
        *_on_starts(stability),
        *_on_agreement(matrix, heterogeneity),
        *_on_levels(matrix),
    ]


def _on_starts(stability: pd.DataFrame) -> Iterator[str]:
    for method, own in stability.groupby("method", sort=False):
        parts = []
        for parameter, rows in own.groupby("parameter", sort=False):
            printed = rows["printed_lowest"].min()
            paper = "" if np.isnan(printed) else f"; paper {printed:.2f} at worst"
            parts.append(
                f"{parameter} {rows['mean'].min():.4f} (single pair "
                f"{rows['lowest'].min():.4f}{paper})"
            )
        yield (
            f"Random starts of variance {own['variance_one'].min():g} to "
            f"{own['variance_two'].max():g}, {method}, {own['runs'].iloc[0]} runs: lowest mean "
            f"Spearman of two fits: {', '.join(parts)}. Iterations "
            f"{own['iterations'].min():.0f} to {own['iterations'].max():.0f}; both converged in "
            f"{own['converged'].mean():.0%}; reversed orders of theta {_reversed(own)}."
        )
    yield from _why_unstable(stability)
    yield (
        "The diagonals of Tables A.1 to A.3 are 1 with deviations of 1e-17, as if each fit were "
        "compared with itself; ours compare two starts of one variance. The IFEval columns of the "
        "three tables agree to the last digit, though they are of three parameters. MuSR's 0.92 ± "
        "0.36 is what some two reversed fits in 50 would give."
    )


def _reversed(own: pd.DataFrame) -> str:
    rows = own[own["parameter"] == "theta"]
    return f"{rows['reversed'].sum()} of {rows['runs'].sum()}"


def _why_unstable(stability: pd.DataFrame) -> Iterator[str]:
    lowest = stability.groupby("method")["mean"].min()
    if lowest["mm"] < _STABLE <= lowest["newton"]:
        yield (
            "So the optimum is one, as Newton finds it from every start; MM, stopped at a change "
            "of 1e-4, is left behind on the way by starts of large variance. The paper's tables "
            "are steadier than Algorithm 1 with the printed start and tolerance is here."
        )
    elif lowest["mm"] >= _STABLE:
        yield "As in the paper, the start hardly matters."
    else:
        yield "Here the start matters for both steps: the optimum is not one, or lies far out."


def _on_agreement(matrix: MatrixLook, heterogeneity: pd.DataFrame) -> Iterator[str]:
    for method, own in matrix.agreement.groupby("method", sort=False):
        rows = own.set_index("scope")
        yield (
            f"Ability and accuracy on the matrix, {method}: Spearman {rows.loc['all', 'rho']:.3f} "
            f"of all, {rows.loc['top 20%', 'rho']:.3f} of the {rows.loc['top 20%', 'subjects']} "
            f"best; CV of a {rows.loc['all', 'cv_a']:.2f}; log likelihood "
            f"{rows.loc['all', 'log_likelihood']:,.1f} after {rows.loc['all', 'iterations']} "
            f"iterations."
        )
    rows = heterogeneity[heterogeneity["method"] == "newton"]
    known = rows[rows["rho_theta"].notna()]
    if len(rows) > 2:
        every, top = (
            float(spearman(rows["cv_a"].to_numpy(), rows[name].to_numpy()))
            for name in ("rho_average", "rho_average_top")
        )
        ahead = (known["rho_theta"] - known["average_rho_theta"]).to_numpy()
        most = known.iloc[int(ahead.argmax())]
        yield (
            f"Over {len(rows)} suites with all cells, Spearman of CV(a) and of this agreement is "
            f"{every:.2f}, of the top 20% {top:.2f}: "
            + ("the inverse relation that the paper sees." if every < 0 else "no such relation.")
            + f" Where the truth is known, ability is nearer to it than accuracy in "
            f"{(ahead > 0).sum()} of {len(known)}; most at a CV of {most['cv_a']:.2f} "
            f"({most['rho_theta']:.3f} against {most['average_rho_theta']:.3f})."
        )
    newton = matrix.subjects[matrix.subjects["method"] == "newton"]
    moved = (newton["rank_accuracy"] - newton["rank_theta"]).abs()
    farthest = newton.loc[moved.idxmax()]
    yield (
        f"From accuracy to ability the median change of rank is {moved.median():.0f}, the largest "
        f"{moved.max():.0f}: {farthest['subject']} from {farthest['rank_accuracy']:.0f} to "
        f"{farthest['rank_theta']:.0f}."
    )


def _on_levels(matrix: MatrixLook) -> Iterator[str]:
    if not len(matrix.levels):
        yield "The items carry no numeric level, so difficulty is held against none."
        return
    for method, own in matrix.level_rho.groupby("method", sort=False):
        parts = [
            f"{_MEASURES[row.measure]} {row.rho:.2f} ({row.low:.2f} to {row.high:.2f})"
            for row in own.itertuples()
        ]
        yield (
            f"Spearman of difficulty and human level, {method}, {own['items'].iloc[0]} items, "
            f"{LEVEL:.0%} intervals over items: {', '.join(parts)}."
        )
    newton = matrix.levels[matrix.levels["method"] == "newton"]
    medians, width = newton["minus_d"], newton["minus_d_high"] - newton["minus_d_low"]
    steady = "rises at every level" if (np.diff(medians) > 0).all() else "does not always rise"
    wider = "widens" if width.iloc[-1] > width.iloc[0] else "does not widen"
    yield (
        f"By level the median of -d is {', '.join(f'{x:.2f}' for x in medians)}: it {steady}, and "
        f"its middle half {wider} from {width.iloc[0]:.2f} to {width.iloc[-1]:.2f} (paper, Figure "
        f"3: a consistent rise of the median and a growing spread)."
    )

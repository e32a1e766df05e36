"""The report's sentences on whether the point estimate may be trusted."""

from bayesirt.checks.point_comparison import Comparison
from bayesirt.names import counted, one_line
from bayesirt.ranking.finished_run import Run

_FEW = 0.1
"""Largest share of disagreeing subjects that still count as exceptions."""


def trust_in_point(run: Run, comparison: Comparison) -> str:
    """Say whether the point estimate may be trusted, judged by the posterior."""
    if not run.point.converged:
        return f"Do not use the point estimate: it has not converged ({run.point.stop_reason})."
    if not run.posterior.verdict.sound:
        return "Sampling is not sound, so the posterior cannot judge the point estimate."
    order = (
        f"It orders subjects like the posterior, with a rank correlation of "
        f"{comparison.rank_correlation:.3f}."
    )
    return f"{_of_subjects(comparison)} {order} {_of_items(comparison)}"


def _of_subjects(comparison: Comparison) -> str:
    table = comparison.subjects
    n, outliers = len(table), table[table["disagrees"]]
    subjects = counted(n, "subject")
    if outliers.empty:
        return (
            f"The point estimate of abilities may be trusted: none of {subjects} lies more than "
            f"one posterior standard deviation from its posterior mean."
        )
    worst = outliers.loc[outliers["shrinkage"].abs().idxmax()]
    reason = f"; {worst['reason']}" if worst["reason"] else ""
    farthest = f"{one_line(str(worst['subject']), 60)} ({worst['shrinkage']:+.1f}{reason})"
    lie = (
        f"{len(outliers):,} of {subjects} {'lies' if len(outliers) == 1 else 'lie'} more than one "
        f"posterior standard deviation from the posterior mean, farthest {farthest}."
    )
    if len(outliers) <= _FEW * n:
        return f"The point estimate of abilities may be trusted with few exceptions: {lie}"
    return f"Do not trust the point estimate of abilities: {lie}"


def _of_items(comparison: Comparison) -> str:
    n, n_outliers = len(comparison.items), int(comparison.items["disagrees"].sum())
    items = counted(n, "item")
    if not n_outliers:
        return f"Its discriminations and intercepts may be trusted too, for all of {items}."
    return (
        f"Take discriminations and intercepts from the posterior: for {n_outliers:,} of {items} "
        f"the point estimate of one or both lies more than one posterior standard deviation away."
    )

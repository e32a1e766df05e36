"""What one estimate of a simulated suite is worth: the measures of Qu et al. (2026), A.6."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.checks.item_review import review_items
from bayesirt.data.responses import Responses
from bayesirt.posterior import Posterior
from bayesirt.studies.cbmm_conditions import Suite
from bayesirt.studies.cbmm_methods import Fit, on_sample_scale
from bayesirt.studies.measures import spearman

Row = dict[str, float]

TOP_SHARE = 0.2
BOUNDS = (0.05, 0.1, 0.2)
"""q: bounds on the share of items that are wrongly called redundant."""

FIT_COLUMNS = (
    "seconds", "converged", "iterations", "log_likelihood", "rho_theta", "rho_a", "rmse_d",
    "eta_error", "hellinger", "cv_a", "rho_average", "rho_average_top", "average_rho_theta",
)  # fmt: skip
NIL_COLUMNS = ("items", "nil", "zeros", "zeros_right", "small", "small_right")
REVIEW_COLUMNS = tuple(f"{what}_{q:g}" for q in BOUNDS for what in ("listed", "listed_right"))


def measure_fit(suite: Suite, fit: Fit) -> Row:
    """Compare an estimate with the truth, both with abilities of mean 0 and sd 1."""
    theta, a, d = on_sample_scale(suite.theta, suite.a, suite.d)
    true, found = theta[:, None] * a + d, fit.theta[:, None] * fit.a + fit.d
    accuracy = accuracy_of(suite.responses)
    every, top = agreement(fit.theta, accuracy)
    nil = suite.a == 0
    zeros, small = fit.a == 0, np.abs(fit.a) < HARDLY_DISCRIMINATES
    return {
        "seconds": fit.seconds,
        "converged": float(fit.point.converged),
        "iterations": fit.point.iterations,
        "log_likelihood": fit.point.log_likelihood,
        "rho_theta": float(spearman(theta, fit.theta)),
        "rho_a": float(spearman(a, fit.a)),
        "rmse_d": float(np.sqrt(np.mean((fit.d - d) ** 2))),
        "eta_error": relative_error(true, found),
        "hellinger": hellinger(expit(true / suite.temperature), expit(found / suite.temperature)),
        "cv_a": variation(fit.a),
        "rho_average": every,
        "rho_average_top": top,
        "average_rho_theta": float(spearman(theta, accuracy)),
        "items": len(nil),
        "nil": float(nil.sum()),
        "zeros": float(zeros.sum()),
        "zeros_right": float((zeros & nil).sum()),
        "small": float(small.sum()),
        "small_right": float((small & nil).sum()),
    }


def measure_review(suite: Suite, posterior: Posterior) -> Row:
    """Count what `review_items` lists as redundant under each bound, and how much rightly."""
    nil = dict(zip(suite.responses.items, suite.a == 0, strict=True))
    row: Row = {"items": len(nil), "nil": float(sum(nil.values()))}
    for q in BOUNDS:
        listed = review_items(posterior, q=q).redundant
        row |= {f"listed_{q:g}": len(listed)}
        row |= {f"listed_right_{q:g}": float(sum(nil[item] for item in listed))}
    return row


def relative_error(true: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Return ‖X - X̂‖² / ‖X‖², squared as Qu et al. (2026), A.6, prints it."""
    return float(((true - found) ** 2).sum() / (true**2).sum())


def hellinger(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the mean of (√p - √q)² + (√(1-p) - √(1-q))², as Qu et al. (2026), A.6, prints it."""
    right = (np.sqrt(one) - np.sqrt(other)) ** 2
    return float((right + (np.sqrt(1 - one) - np.sqrt(1 - other)) ** 2).mean())


def variation(a: NDArray[np.float64]) -> float:
    """Return the coefficient of variation of a (Qu et al., 2026, 4.4)."""
    return float(a.std() / a.mean())


def accuracy_of(responses: Responses) -> NDArray[np.float64]:
    """Return each subject's share of right answers among its trials."""
    successes, trials, _ = responses.cells.totals(1)
    return np.asarray(successes / trials)


def agreement(theta: NDArray[np.float64], accuracy: NDArray[np.float64]) -> tuple[float, float]:
    """Return ρ of ability and accuracy, of all and of the top 20% by accuracy (4.4, Figure 4)."""
    n_top = max(2, round(TOP_SHARE * len(accuracy)))
    top = np.argsort(-accuracy, kind="stable")[:n_top]
    return float(spearman(accuracy, theta)), float(spearman(accuracy[top], theta[top]))

"""What one estimate of a simulated suite is worth: errors, and intervals of the abilities."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from bayesirt.estimators.lart_intervals import KINDS, ability_intervals
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import LEVEL, Posterior
from bayesirt.studies.lart_conditions import Suite

Row = dict[str, float]

ANSWERS = ("theta", "a", "d")
LENGTHS = ("phi", "omega", "lam", "rho")
INTERVALS = (*KINDS, "given_items", "posterior")
FIT_COLUMNS = (
    "seconds", "converged", "loss", *(f"rmse_{name}" for name in (*ANSWERS, *LENGTHS)),
    *(f"{what}_{kind}" for kind in INTERVALS for what in ("cover", "width")),
)  # fmt: skip

_REACH = float(norm.ppf((1 + LEVEL) / 2))
"""Of an interval, in standard deviations."""


def measure_point(suite: Suite, point: PointEstimate, seconds: float) -> Row:
    """Compare an estimate with the truth.

    Of `FIT_COLUMNS`: time, convergence, final loss, the root mean squared error of each parameter
    (of ρ the absolute error), and coverage and mean width of the 90% intervals of the abilities: in
    closed form, and with the posterior standard deviation given items.
    """
    row = {
        "seconds": seconds,
        "converged": float(point.converged),
        "loss": float(point.trace[-1]),
    }
    for name in (*ANSWERS, *LENGTHS):
        if name in point.parameters:
            row[f"rmse_{name}"] = rmse(suite.truth[name], point[name])
    theta = suite.truth["theta"]
    for kind in KINDS:
        row |= _of_interval(theta, ability_intervals(point, suite.responses, kind=kind), kind)
    reach = _REACH * point["theta_se"]
    given = pd.DataFrame({"low": point["theta"] - reach, "high": point["theta"] + reach})
    return row | _of_interval(theta, given, "given_items")


def measure_posterior(suite: Suite, posterior: Posterior, seconds: float) -> Row:
    """Return error of the posterior means, and coverage and width of the posterior's intervals.

    Of `FIT_COLUMNS`.
    """
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = np.quantile(posterior.theta, tails, axis=0)
    row = {"seconds": seconds}
    for name in (*ANSWERS, *LENGTHS):
        row[f"rmse_{name}"] = rmse(suite.truth[name], posterior.draws(name).mean(0))
    interval = pd.DataFrame({"low": low, "high": high})
    return row | _of_interval(suite.truth["theta"], interval, "posterior")


def rmse(true: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Return √ mean (found - true)²."""
    return float(np.sqrt(np.mean((found - true) ** 2)))


def _of_interval(theta: NDArray[np.float64], interval: pd.DataFrame, kind: str) -> Row:
    low, high = interval["low"].to_numpy(), interval["high"].to_numpy()
    covered = (low <= theta) & (theta <= high)
    return {f"cover_{kind}": float(covered.mean()), f"width_{kind}": float((high - low).mean())}

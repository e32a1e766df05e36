"""The work of the cBMM study: one suite by all methods, its measures, and random starts."""

from dataclasses import dataclass
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesirt.checks.extreme_scores import HARDLY_DISCRIMINATES
from bayesirt.checks.item_review import review_items
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.studies.cbmm_conditions import Condition, Suite, draw_suite
from bayesirt.studies.cbmm_methods import (
    Fit,
    fit_timed,
    on_sample_scale,
    random_start,
    sample_review,
)
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.fits import quietly
from bayesirt.studies.measures import spearman
from bayesirt.studies.tasks import PortableKey

Step = Literal["mm", "newton"]

STEPS: tuple[Step, ...] = ("mm", "newton")
PARAMETERS = ("theta", "a", "d")
STABILITY_COLUMNS = (
    "method", "replication", "variance_one", "variance_two",
    *(f"rho_{name}" for name in PARAMETERS), "iterations", "converged",
)  # fmt: skip
TOP_SHARE = 0.2
BOUNDS = (0.05, 0.1, 0.2)
"""q: bounds on the share of items that are wrongly called redundant."""

FIT_COLUMNS = (
    "seconds", "converged", "iterations", "log_likelihood", "rho_theta", "rho_a", "rmse_d",
    "eta_error", "hellinger", "cv_a", "rho_average", "rho_average_top", "average_rho_theta",
)  # fmt: skip
NIL_COLUMNS = ("items", "nil", "zeros", "zeros_right", "small", "small_right")
REVIEW_COLUMNS = tuple(f"{what}_{q:g}" for q in BOUNDS for what in ("listed", "listed_right"))


@dataclass(frozen=True)
class SuiteTask:
    """One simulated suite, and the methods to try on it."""

    number: int  # Of the condition.
    condition: Condition
    replication: int
    methods: tuple[str, ...]  # Of `POINT_METHODS`.
    posteriors: tuple[str, ...]  # Of `POSTERIORS`.
    key: PortableKey  # The study's.

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        names = (*self.methods, *self.posteriors)
        return [("suites", (self.number, self.replication, name)) for name in names]

    def run(self) -> list[Row]:
        """Return a row for each method; keys depend on what is run, not on when or where."""
        place = (self.number, self.replication)
        suite = draw_suite(self.condition, self.key.rng(*place))
        head = dict(zip(("condition", "replication"), place, strict=True))
        rows: list[Row] = []
        for name in self.methods:
            key = self.key.folded(*place, name)
            fit = fit_timed(name, suite.responses, key=key, temperature=suite.temperature)
            rows.append({**head, "method": name, **measure_fit(suite, fit)})
        for name in self.posteriors:
            row: Row = {**head, "method": name}
            try:
                posterior = sample_review(name, suite.responses, key=self.key.folded(*place, name))
                row |= measure_review(suite, posterior)
            except ResponseError:
                row |= {"items": self.condition.n_items}  # no curvature that Laplace could use
            rows.append(row)
        return rows


@dataclass(frozen=True)
class StartTask:
    """Fits of one matrix from random starts of every variance."""

    replication: int
    responses: Responses
    variances: tuple[float, ...]
    key: PortableKey  # The study's.

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        pairs = combinations_with_replacement(self.variances, 2)
        ways = product(STEPS, pairs)
        return [("stability", (step, self.replication, *pair)) for step, pair in ways]

    def run(self) -> list[Row]:
        """Return a row for each step and pair of variances.

        Between two variances the fits of one start each are compared; within a variance those of
        two starts.
        """
        rows: list[Row] = []
        for step in STEPS:
            fits = [self._fit(step, v, k) for k, v in enumerate(self.variances)]
            for (one, first), (two, second) in combinations(enumerate(fits), 2):
                rows.append(self._row(step, one, two, first, second))
            for k, variance in enumerate(self.variances):
                again = self._fit(step, variance, len(self.variances) + k)
                rows.append(self._row(step, k, k, fits[k], again))
        return rows

    def _fit(self, step: Step, variance: float, number: int) -> PointEstimate:
        key = self.key.folded("starts", self.replication, number)
        start = random_start(self.responses, variance, key)
        return quietly(partial(fit_cbmm, self.responses, step=step, start=start))

    def _row(
        self, step: Step, one: int, two: int, first: PointEstimate, second: PointEstimate
    ) -> Row:
        return {
            "method": step,
            "replication": self.replication,
            "variance_one": self.variances[one],
            "variance_two": self.variances[two],
            **{f"rho_{name}": float(spearman(first[name], second[name])) for name in PARAMETERS},
            "iterations": (first.iterations + second.iterations) / 2,
            "converged": float(first.converged and second.converged),
        }


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

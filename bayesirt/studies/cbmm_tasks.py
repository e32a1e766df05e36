"""The work of the cBMM study: one suite by all methods, or one pair of starts by both steps."""

import warnings
import zlib
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, product
from typing import Literal

import jax
import numpy as np
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators import fit_cbmm
from bayesirt.estimators.driver import ConvergenceWarning
from bayesirt.point_estimate import PointEstimate
from bayesirt.studies.cbmm_conditions import Condition, draw_suite
from bayesirt.studies.cbmm_measures import measure_fit, measure_review
from bayesirt.studies.cbmm_methods import fit_timed, random_start, sample_review
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.rank_correlation import spearman
from bayesirt.studies.tasks import PortableKey

Step = Literal["mm", "newton"]

STEPS: tuple[Step, ...] = ("mm", "newton")
PARAMETERS = ("theta", "a", "d")
STABILITY_COLUMNS = (
    "method", "replication", "variance_one", "variance_two",
    *(f"rho_{name}" for name in PARAMETERS), "iterations", "converged",
)  # fmt: skip


@dataclass(frozen=True)
class SuiteTask:
    """One simulated suite, and the methods to try on it."""

    number: int  # Of the condition.
    condition: Condition
    replication: int
    methods: tuple[str, ...]  # Of `POINT_METHODS` and of `POSTERIORS`.
    posteriors: tuple[str, ...]  # Of `POINT_METHODS` and of `POSTERIORS`.
    key: PortableKey  # The study's.

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        names = (*self.methods, *self.posteriors)
        return [("suites", (self.number, self.replication, name)) for name in names]

    def run(self) -> list[Row]:
        """Return a row for each method; keys depend on what is run, not on when or where."""
        place = (self.number, self.replication)
        suite = draw_suite(self.condition, np.random.default_rng([*self.key.words, *place]))
        key = _folded(self.key.key(), *place)
        head = dict(zip(("condition", "replication"), place, strict=True))
        rows: list[Row] = []
        for name in self.methods:
            fit = fit_timed(
                name, suite.responses, key=_named(key, name), temperature=suite.temperature
            )
            rows.append({**head, "method": name, **measure_fit(suite, fit)})
        for name in self.posteriors:
            row: Row = {**head, "method": name}
            try:
                posterior = sample_review(name, suite.responses, key=_named(key, name))
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
        key = _folded(self.key.key(), zlib.crc32(b"starts"), self.replication)
        rows: list[Row] = []
        for step in STEPS:
            fits = [self._fit(step, v, _folded(key, k)) for k, v in enumerate(self.variances)]
            for (one, first), (two, second) in combinations(enumerate(fits), 2):
                rows.append(self._row(step, one, two, first, second))
            for k, variance in enumerate(self.variances):
                again = self._fit(step, variance, _folded(key, len(self.variances) + k))
                rows.append(self._row(step, k, k, fits[k], again))
        return rows

    def _fit(self, step: Step, variance: float, key: Array) -> PointEstimate:
        start = random_start(self.responses, variance, key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit_cbmm(self.responses, step=step, start=start)

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


def _folded(key: Array, *numbers: int) -> Array:
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return key


def _named(key: Array, name: str) -> Array:
    return jax.random.fold_in(key, zlib.crc32(name.encode()))

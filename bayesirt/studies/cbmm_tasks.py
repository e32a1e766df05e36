"""The work of the cBMM study: one suite by all methods, or one pair of starts by both steps."""

from dataclasses import dataclass
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from typing import Literal

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators import fit_cbmm
from bayesirt.point_estimate import PointEstimate
from bayesirt.studies.cbmm_conditions import Condition, draw_suite
from bayesirt.studies.cbmm_measures import measure_fit, measure_review
from bayesirt.studies.cbmm_methods import fit_timed, random_start, sample_review
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

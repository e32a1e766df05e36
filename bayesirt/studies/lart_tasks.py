"""Simulated suites by EM with and without lengths, by SAEM, and by posterior draws."""

import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.estimators.driver import ConvergenceWarning
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.saem import fit_saem
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import LaRT
from bayesirt.point_estimate import PointEstimate
from bayesirt.studies.engine import Places, Row
from bayesirt.studies.lart_conditions import Condition, Suite, draw_suite
from bayesirt.studies.lart_measures import measure_point, measure_posterior
from bayesirt.studies.tasks import PortableKey

EM_METHODS = {"lart": "LaRT", "irt": "probit IRT"}
SAEM_METHODS = {
    "saem spectral": "SAEM, spectral start, 1/t",
    "saem burn-in": "SAEM, random start, burn-in of 20",
}
DRAWN = "lart posterior"

_BURN_IN = 20
_SAEM_OPTIONS: dict[str, dict[str, Any]] = {
    "saem spectral": {},
    "saem burn-in": {"start": "random", "burn_in": _BURN_IN},
}


@dataclass(frozen=True)
class SuiteTask:
    """Some simulated suites of one condition by one method: what it compiles serves them all."""

    number: int  # Of the condition.
    condition: Condition
    replications: tuple[int, ...]
    method: str  # Of `EM_METHODS` or `SAEM_METHODS`, or `DRAWN`.
    iterations: int  # Of SAEM.
    draws: int  # Of the posterior, by each of two chains after half as many of warm-up.
    key: PortableKey  # The study's.

    part = "suites"

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        return [(self.part, (self.number, k, self.method)) for k in self.replications]

    def run(self) -> list[Row]:
        """Return a row for each replication; suites depend on the place, not on the method."""
        rows: list[Row] = []
        for replication in self.replications:
            place = (self.number, replication)
            suite = draw_suite(self.condition, np.random.default_rng([*self.key.words, *place]))
            key = jax.random.fold_in(self.key.key(), zlib.crc32(self.method.encode()))
            for number in place:
                key = jax.random.fold_in(key, number)
            row: Row = {"part": self.part, "condition": self.number, "replication": replication}
            rows.append({**row, "method": self.method, **self._measured(suite, key)})
        return rows

    def _measured(self, suite: Suite, key: Array) -> dict[str, float]:
        if self.method == DRAWN:
            start = time.perf_counter()
            posterior = sample_blocked(
                suite.responses,
                key=key,
                model=LaRT(),
                options=RunOptions(
                    num_chains=2, num_warmup=self.draws // 2, num_samples=self.draws, thinning=1
                ),
            )
            return measure_posterior(suite, posterior, time.perf_counter() - start)
        if self.method in SAEM_METHODS:
            options = {"iterations": self.iterations, **_SAEM_OPTIONS[self.method]}
            fit = partial(fit_saem, suite.responses, key=key, **options)
            return measure_point(suite, *timed(fit))
        return measure_point(suite, *timed(partial(fit_model, self.method, suite.responses)))


def fit_model(name: str, responses: Responses) -> PointEstimate:
    """Fit LaRT or the same IRT model without lengths, by EM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit_lart(responses, lengths=name == "lart")


def timed(fit: Callable[[], PointEstimate]) -> tuple[PointEstimate, float]:
    """Return what a fit returns, and the seconds it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        point = fit()
    return point, time.perf_counter() - start

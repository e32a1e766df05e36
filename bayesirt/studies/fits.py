"""Fits and runs of many small simulations: without warnings, timed, and short."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.inference.options import RunOptions
from bayesirt.point_estimate import PointEstimate

Fitter = Callable[[], PointEstimate]


def quietly(fit: Fitter) -> PointEstimate:
    """Return an estimate, which tells itself whether it converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit()


def timed(fit: Fitter) -> tuple[PointEstimate, float]:
    """Return an estimate and the seconds it took."""
    start = time.perf_counter()
    point = quietly(fit)
    return point, time.perf_counter() - start


def two_chains(draws: int, **options: Any) -> RunOptions:
    """Return two chains, each with half as many sweeps of warm-up as it draws."""
    return RunOptions(num_chains=2, num_warmup=draws // 2, num_samples=draws, **options)


_COMPILING = frozenset(
    f"/jax/core/compile/{what}_duration" for what in ("jaxpr_to_mlir_module", "backend_compile")
)
_clocks: list["CompileClock"] = []
_listening: list[bool] = []


@dataclass(eq=False)
class CompileClock:
    """How long work took in this process, and how much of that was compiling."""

    seconds: float = 0.0
    compiling: float = 0.0


@contextmanager
def compile_clock() -> Iterator[CompileClock]:
    """Time the work within a `with` block."""
    if not _listening:
        jax.monitoring.register_event_duration_secs_listener(_hear)
        _listening.append(True)
    clock, start = CompileClock(), time.perf_counter()
    _clocks.append(clock)
    try:
        yield clock
    finally:
        clock.seconds = time.perf_counter() - start
        _clocks.remove(clock)


def _hear(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILING:
        for clock in _clocks:
            clock.compiling += duration_secs

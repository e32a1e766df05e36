"""Fits and runs of many small simulations: without warnings, timed, and short."""

import time
import warnings
from collections.abc import Callable
from typing import Any

from bayesirt.estimators.driver import ConvergenceWarning
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

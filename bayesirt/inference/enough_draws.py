"""When chains of sweeps may end: when abilities have converged, or the time is up."""

import time
from collections.abc import Callable

import numpy as np
from arviz_stats.base import array_stats

from bayesirt.inference.checkpoint import Samples
from bayesirt.posterior import FEW_TO_STANDARDISE

R_HAT, ESS = 1.01, 400.0
"""What a quantity that has converged keeps to (Vehtari et al., 2021, doi:10.1214/20-BA1221)."""

_REPORTED = ("theta", "tau", "gamma", "icc")


def within(budget: float) -> Callable[[Samples], bool]:
    """Return what ends chains once abilities have converged, or going on would take too long."""
    began = time.monotonic()

    def enough(samples: Samples) -> bool:
        so_far = time.monotonic() - began
        chains, draws = samples["theta"].shape[:2]
        return chains * draws < 2 * ESS or 2 * so_far > budget or converged(samples)

    return enough


def converged(samples: Samples) -> bool:
    """Return whether abilities have converged on the scale that is reported."""
    theta = np.asarray(samples["theta"], np.float64)
    mean, sd = theta.mean(-1, keepdims=True), 1.0
    if theta.shape[-1] >= FEW_TO_STANDARDISE:
        sd = theta.std(-1, keepdims=True)
    for name in _REPORTED:
        if name not in samples:
            continue
        draws = np.asarray(samples[name], np.float64).reshape(*theta.shape[:2], -1)
        if name in ("theta", "gamma"):
            draws = (draws - mean) / sd
        draws = draws[..., np.ptp(draws, axis=(0, 1)) > 0]
        axes = {"chain_axis": 0, "draw_axis": 1}
        if len(draws) > 1 and not (array_stats.rhat(draws, **axes) < R_HAT).all():
            return False
        for how in ({"method": "bulk"}, {"method": "tail", "prob": (0.05, 0.95)}):
            if not (array_stats.ess(draws, **how, **axes) > ESS).all():
                return False
    return True

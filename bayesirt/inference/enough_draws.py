"""Stopping rule of blocked chains: convergence, or the time budget."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesirt.convergence import convergence
from bayesirt.inference.chains import Enough
from bayesirt.inference.checkpoint import Samples
from bayesirt.posterior import LOW_MIDDLE_HIGH, standardised
from bayesirt.verdict import ABILITIES, ESS, R_HAT

_SLOWEST, _BATCH = 100, 20


def within(budget: float, usual: int, constrain: Callable[[Samples], Samples]) -> Enough:
    """Return the stopping rule of chains.

    Below the usual number of sweeps per draw, chains run until all parameters have converged;
    from then on, until abilities have converged or another round would exceed the budget.
    """
    began = time.monotonic()

    def enough(samples: Samples, thinning: int) -> bool:
        so_far = time.monotonic() - began
        n_chains, n_draws = samples["theta"].shape[:2]
        few = n_chains * n_draws < 2 * ESS
        if thinning < usual:
            return not few and converged(constrain(samples))
        return few or 2 * so_far > budget or converged(constrain(samples), ABILITIES)

    return enough


def converged(
    draws: Mapping[str, NDArray[np.floating]], names: tuple[str, ...] | None = None
) -> bool:
    """Return whether all sites but `b` (or those named) have converged on the reported scale."""
    draws = {name: np.asarray(x, np.float64) for name, x in draws.items() if name != "b"}
    if draws["theta"].ndim == 3:
        draws |= standardised(draws)
    looked_at = [name for name in draws if names is None or name in names]
    return all(
        _has_converged(draws[name].reshape(*draws["theta"].shape[:2], -1))
        for name in sorted(looked_at, key=lambda name: draws[name].size)  # the fastest first
    )


def _has_converged(draws: NDArray[np.floating]) -> bool:
    """Return whether a site has converged; of large sites only the worst candidates are checked."""
    draws = draws[..., np.ptp(draws, axis=(0, 1)) > 0]
    if draws.shape[-1] > 3 * _SLOWEST:
        low, middle, high = np.quantile(draws, LOW_MIDDLE_HIGH, axis=(0, 1))
        chosen = [_slowest(x) for x in (draws, draws <= low, draws >= high)]
        chosen += [_farthest_apart(x) for x in (draws, np.abs(draws - middle))]
        draws = draws[..., np.unique(chosen)]
    diagnostics = convergence(draws)
    mixed = (diagnostics.ess_bulk > ESS) & (diagnostics.ess_tail > ESS)
    return bool(mixed.all() and (len(draws) == 1 or (diagnostics.r_hat < R_HAT).all()))


def _slowest(draws: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices with the smallest effective sample sizes, estimated by batch means."""
    n_chains, n_draws, n = draws.shape
    n_batches = n_draws // _BATCH
    means = draws[:, : n_batches * _BATCH].reshape(n_chains, n_batches, _BATCH, n).mean(2)
    return np.argsort(-means.var((0, 1)) / draws.var((0, 1)))[:_SLOWEST]


def _farthest_apart(draws: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices whose half chains differ most, relative to their spread."""
    n_chains, n_draws, n = draws.shape
    half = draws[:, n_draws % 2 :].reshape(2 * n_chains, n_draws // 2, n)
    within_halves = np.maximum(half.var(1).mean(0), np.finfo(float).tiny)
    return np.argsort(-half.mean(1).var(0) / within_halves)[:_SLOWEST]

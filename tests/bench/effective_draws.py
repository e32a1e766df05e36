"""Effective draws per second, with and without compilation."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats

FEW = 8
Draws = dict[str, np.ndarray]


class Speed(NamedTuple):
    """Bulk ESS of some parameters, and seconds with and without compilation."""

    least: float
    median: float
    first: float
    warm: float

    def beside(self, own: "Speed") -> str:
        """Return the figures in one line, with our engine's speed as ratios."""
        return (
            f"bulk ESS least {self.least:5.0f} median {self.median:5.0f}, seconds "
            f"{self.first:6.1f}, warm {self.warm:6.1f}; warm ESS/s least "
            f"{self.least / self.warm:7.1f} median {self.median / self.warm:7.1f}; blocked is "
            f"{(own.least / own.warm) / (self.least / self.warm):5.1f} x (least), "
            f"{(own.median / own.warm) / (self.median / self.warm):5.1f} x (median), "
            f"{(own.least / own.first) / (self.least / self.first):5.1f} x with compilation"
        )


def measured(sample: Callable[[int], Draws], draws: int, names: Sequence[str]) -> Speed:
    """Time a run, and separate compilation by two runs with few draws.

    The second of these compiles only what a sampler compiles in every run.
    """
    seconds = []
    for n in (FEW, FEW, draws):
        began = time.perf_counter()
        found = sample(n)
        seconds.append(time.perf_counter() - began)
    first, again, whole = seconds
    axes = {"chain_axis": 0, "draw_axis": 1, "method": "bulk"}
    ess = np.concatenate([np.atleast_1d(array_stats.ess(found[k], **axes)) for k in names])
    return Speed(float(ess.min()), float(np.median(ess)), whole + first - again, whole - again)

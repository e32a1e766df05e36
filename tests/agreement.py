"""Compare two posteriors, in Monte Carlo standard errors."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import pandas as pd

from bayesirt import Posterior, Responses, sample_posterior
from bayesirt.inference.engines import EngineName


def largest_z(one: pd.DataFrame, other: pd.DataFrame) -> tuple[float, float]:
    """Return the largest z of means, and that of log standard deviations."""
    errors = np.hypot(*(table["sd"] / np.sqrt(table["ess_bulk"]) for table in (one, other)))
    of_means = (one["mean"] - other["mean"]) / errors
    of_log_sd = np.sqrt(1 / one["ess_tail"] + 1 / other["ess_tail"])
    of_spreads = np.log(one["sd"] / other["sd"]) / of_log_sd
    print(f"largest z of {len(of_means)} means {of_means.abs().max():.2f}, "
          f"of spreads {of_spreads.abs().max():.2f}")  # fmt: skip
    return float(of_means.abs().max()), float(of_spreads.abs().max())


def drawn_by_both(responses: Responses, **settings: Any) -> dict[EngineName, Posterior]:
    return {
        engine: sample_posterior(responses, key=jax.random.key(1), engine=engine, **settings)
        for engine in ("blocked", "nuts")
    }


def assert_engines_agree(
    draws: dict[EngineName, Posterior], names: Iterable[str], of_mean: float, of_spread: float
) -> None:
    """Bound differences of means, in posterior sds, and of log standard deviations."""
    for name in names:
        blocked, nuts = (draws[engine].dataset[name] for engine in ("blocked", "nuts"))
        sd = nuts.std(("chain", "draw"))
        away = (blocked.mean(("chain", "draw")) - nuts.mean(("chain", "draw"))) / sd
        assert float(np.abs(away).max()) < of_mean, name
        spread = np.log(blocked.std(("chain", "draw")) / sd)
        assert float(np.abs(spread).max()) < of_spread, name

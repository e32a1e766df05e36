"""How far two posteriors' tables are apart, in Monte Carlo errors."""

import numpy as np
import pandas as pd
from xarray import DataTree

from bayesirt import Posterior


def largest_z(one: pd.DataFrame, other: pd.DataFrame) -> tuple[float, float]:
    """Return the largest z of means and of log spreads."""
    errors = np.hypot(*(table["sd"] / np.sqrt(table["ess_bulk"]) for table in (one, other)))
    of_means = (one["mean"] - other["mean"]) / errors
    of_log_sd = np.sqrt(1 / one["ess_tail"] + 1 / other["ess_tail"])
    of_spreads = np.log(one["sd"] / other["sd"]) / of_log_sd
    print(f"largest z of {len(of_means)} means {of_means.abs().max():.2f}, "
          f"of spreads {of_spreads.abs().max():.2f}")  # fmt: skip
    return float(of_means.abs().max()), float(of_spreads.abs().max())


def with_log_slopes(posterior: Posterior) -> Posterior:
    """Return draws whose slopes have tails that a standard deviation can say."""
    tree = posterior.tree.copy()
    tree["posterior"] = DataTree(posterior.dataset.assign(a=np.log(posterior.dataset["a"])))
    return Posterior(tree)

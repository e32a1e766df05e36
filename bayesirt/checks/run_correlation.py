"""Correlation of several runs of a question by one subject beyond what ability explains."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from bayesirt.data.responses import Responses
from bayesirt.point_estimate import PointEstimate

_SURELY, _LITTLE = 3.0, 0.02


class RunCorrelation(NamedTuple):
    """Correlation of two runs of a question by one subject, and its standard error."""

    rho: float
    se: float

    @property
    def sure(self) -> bool:
        """Whether runs are clearly correlated, by enough to matter."""
        return self.rho > max(_LITTLE, _SURELY * self.se)

    def to_text(self) -> str:
        """Return a clause on how strongly runs are correlated."""
        return (
            f"runs of a question depend on each other (two runs correlate by {self.rho:.2f} ± "
            f"{self.se:.2f} beyond what ability explains)"
        )


def run_correlation(responses: Responses, point: PointEstimate) -> RunCorrelation:
    """Estimate the correlation from the overdispersion of successes.

    With v = p (1 - p) a cell's n runs have E (y - n p)² - n v = n (n - 1) v ρ: ρ is the ratio of
    sums over cells. p is from a point estimate on the same runs, which makes ρ too small.
    """
    if responses.cells.totals(0).trials.sum() <= responses.n_observed:
        return RunCorrelation(0.0, np.inf)
    theta, a, d = (np.nan_to_num(point[name]) for name in ("theta", "a", "d"))
    terms = []
    for part in responses.cells.parts():
        several = part.trials > 1
        subject, item, y, n = (column[several] for column in part)
        p = expit(theta[subject] * a[item] + d[item])
        y, n = y.astype(float), n.astype(float)
        terms.append(((y - n * p) ** 2 - n * p * (1 - p), n * (n - 1) * p * (1 - p)))
    beyond, pairs = (np.concatenate(column) for column in zip(*terms, strict=True))
    total = max(pairs.sum(), np.finfo(float).tiny)
    rho = float(beyond.sum() / total)
    return RunCorrelation(rho, float(np.sqrt(np.sum((beyond - rho * pairs) ** 2)) / total))

"""Whether the items point one way, and abilities agree with accuracies."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bayesirt.checks.item_rest_correlation import LEAST_SUBJECTS, rest_correlations
from bayesirt.posterior import Posterior

_MOST_NEGATIVE, _LEAST_ITEMS = 0.25, 10
_LEAST_AGREEMENT, _NEARLY_COMPLETE = 0.8, 0.95
_TAIL = 1e-12


class Direction(NamedTuple):
    """Whether right answers to some items go with right answers to the others."""

    # Estimated share of items whose true item-rest correlation is negative; nan with fewer than 10
    # items or 10 subjects.
    negative: float
    # Spearman's correlation of ability with accuracy if at least 95% of all cells were observed,
    # so that the two should hardly differ; else nan.
    agreement: float

    @property
    def is_one(self) -> bool:
        """False if over a quarter of the items point backwards, or the agreement is below .8."""
        return not (self.negative > _MOST_NEGATIVE or self.agreement < _LEAST_AGREEMENT)

    def to_text(self) -> str:
        """Return a clause on what does not point one way; empty if everything does."""
        parts = []
        if self.negative > _MOST_NEGATIVE:
            parts.append(f"about {self.negative:.0%} of the items run against the others")
        if self.agreement < _LEAST_AGREEMENT:
            parts.append(f"ability and accuracy correlate at only {self.agreement:.2f} (Spearman)")
        return " and ".join(parts)


UNKNOWN = Direction(float("nan"), float("nan"))


def check_direction(posterior: Posterior) -> Direction:
    """Compare items with the scores on the other items, and abilities with accuracies."""
    successes, trials = posterior.successes, posterior.trials
    n_subjects, n_items = trials.shape
    negative = agreement = float("nan")
    if n_subjects >= LEAST_SUBJECTS:
        p_rest = rest_correlations(successes, trials)["p_rest"].dropna().to_numpy()
        if len(p_rest) >= _LEAST_ITEMS:
            negative = _share_below_zero(ndtri(np.clip(p_rest, _TAIL, 1 - _TAIL)))
        if n_items >= _LEAST_ITEMS and np.count_nonzero(trials) >= _NEARLY_COMPLETE * trials.size:
            accuracy = successes.sum(1) / trials.sum(1)
            if np.ptp(accuracy) > 0:
                ability = pd.Series(posterior.theta.mean(0)).rank()
                agreement = float(ability.corr(pd.Series(accuracy).rank()))
    return Direction(negative, agreement)


def _share_below_zero(z: NDArray[np.float64]) -> float:
    """Return the share of true effects below zero, if they are normal and z has a unit error.

    The raw share of z below zero can reach a quarter or more by chance if subjects are few or
    alike.
    """
    spread = np.sqrt(max(float(z.var(ddof=1)) - 1, 0.0))
    return float(ndtr(-z.mean() / spread)) if spread > 0 else float(z.mean() < 0)

"""When the simple average misleads (papers/002)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from bayesirt.names import one_line
from bayesirt.posterior import Posterior

_FULL_COVERAGE = 0.95
_SMALL_GAP = 2.0


@dataclass(frozen=True)
class AverageCheck:
    """Whether ranking by accuracy is adequate.

    Attributes
    ----------
    coverage : float
        C, the share of cells that were observed.
    difficulty_gap : float
        D = max b - min b over items, from posterior medians.
    n_misplaced : int
        Subjects none of whose (perhaps tied) ranks by accuracy lies in their 90% rank interval.
    most_misplaced : str
        What happens to the worst of them, in words; empty if there is none.
    """

    coverage: float
    difficulty_gap: float
    n_misplaced: int
    most_misplaced: str

    @property
    def sparsity(self) -> float:
        """S = 1 - C."""
        return 1 - self.coverage

    @property
    def adequate(self) -> bool:
        """True if nearly all cells were observed, items are alike and no subject is misplaced."""
        alike = self.coverage > _FULL_COVERAGE and self.difficulty_gap <= _SMALL_GAP
        return alike and self.n_misplaced == 0

    def to_text(self) -> str:
        """Return the check in words."""
        figures = (
            f"coverage C = {self.coverage:.0%}, difficulty gap D = {self.difficulty_gap:.1f}, "
            f"S x D = {self.sparsity * self.difficulty_gap:.2f}"
        )
        if self.adequate:
            return f"The simple average is adequate here: {figures}."
        if self.n_misplaced == 0:
            return f"The simple average agrees with the ranking here, by its intervals: {figures}."
        misplaced = "subject" if self.n_misplaced == 1 else "subjects"
        return (
            f"The simple average misleads for {self.n_misplaced} {misplaced}: {figures}. "
            f"{self.most_misplaced}"
        )


def check_average(summary: pd.DataFrame, posterior: Posterior) -> AverageCheck:
    """Compare ranks by accuracy with ranks by ability.

    Parameters
    ----------
    summary : DataFrame
        A ranking's, with rank_by_accuracy and the rank interval.
    posterior : Posterior

    Returns
    -------
    AverageCheck
    """
    last_of_tie = rankdata(-summary["accuracy"], method="max")
    below = summary["rank_low"] - last_of_tie
    above = summary["rank_by_accuracy"] - summary["rank_high"]
    distance = np.maximum(below, above)
    words = ""
    if distance.max() > 0:
        row = summary.loc[distance.idxmax()]
        words = (
            f"Most of all {one_line(row['subject'])}: {row['rank_by_accuracy']} by accuracy, "
            f"{row['rank']} ({row['rank_low']} to {row['rank_high']}) by ability."
        )
    difficulty = np.median(posterior.draws("b"), axis=0)
    return AverageCheck(
        float(np.count_nonzero(posterior.trials) / posterior.trials.size),
        float(np.ptp(difficulty)),
        int((distance > 0).sum()),
        words,
    )

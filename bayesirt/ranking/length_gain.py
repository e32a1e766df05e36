"""What response lengths add to a ranking: the same answers ranked with and without them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayesirt.names import one_line
from bayesirt.posterior import LOW_MIDDLE_HIGH, Posterior
from bayesirt.ranking.subject_ranking import best_first, places, ranks_of_draws

_MATTERS = 0.02
"""Share by which intervals must be narrower for lengths to be said to help."""


@dataclass(frozen=True, eq=False, repr=False)
class LengthGain:
    """A ranking with lengths, compared with one without."""

    # One row per subject, best first: `subject`, posterior standard deviation `sd` and `rank`
    # of the ability with lengths, and `sd_without` and `rank_without`.
    summary: pd.DataFrame
    # Low, median and high of the correlation of ability and speed, with its 90% interval.
    rho: tuple[float, float, float]

    def __repr__(self) -> str:
        return f"<LengthGain: {self.to_text()}>"

    @property
    def narrower(self) -> float:
        """Share by which the typical interval is narrower; below 0 if it is wider."""
        return 1 - float(np.median(self.summary["sd"] / self.summary["sd_without"]))

    def to_text(self) -> str:
        """Return in words what the lengths show, and what they changed."""
        low, median, high = self.rho
        moves = (self.summary["rank"] - self.summary["rank_without"]).abs()
        moved = int((moves > 0).sum())
        text = f"Ability and speed correlate at {median:+.2f} (90%: {low:+.2f} to {high:+.2f}): "
        text += _direction(low, high)
        if self.narrower > _MATTERS:
            text += f" With lengths the typical interval is {self.narrower:.0%} narrower"
        else:
            text += " Lengths hardly narrow the intervals"
        text += f", and {moved} of {len(moves)} ranks move"
        if not moved:
            return text + "."
        first = self.summary.loc[moves.idxmax()]
        return (
            f"{text}, {one_line(str(first['subject']), 40)} farthest: from "
            f"{first['rank_without']} to {first['rank']}."
        )


def _direction(low: float, high: float) -> str:
    if high < 0:
        return "abler subjects take longer."
    if low > 0:
        return "abler subjects are quicker."
    return "the direction is uncertain."


def length_gain(posterior: Posterior, without: Posterior) -> LengthGain:
    """Compare the posterior of LaRT with that of the same answers without lengths."""
    columns: dict[str, object] = {"subject": posterior.subjects}
    for label, draws in (("", posterior.theta), ("_without", without.theta)):
        standard = (draws - draws.mean(1, keepdims=True)) / draws.std(1, keepdims=True)
        columns[f"sd{label}"] = standard.std(0, ddof=1)
        ranks = np.quantile(ranks_of_draws(draws), 0.5, axis=0, method="inverted_cdf")
        columns[f"rank{label}"] = places(ranks)
    table = pd.DataFrame(columns)[["subject", "sd", "sd_without", "rank", "rank_without"]]
    order, _ = best_first(posterior.reported.theta)  # as in rankings
    return LengthGain(table.iloc[order].reset_index(drop=True), correlation(posterior))


def correlation(posterior: Posterior) -> tuple[float, float, float]:
    """Return (low, median, high) of the correlation of ability and speed."""
    low, median, high = (float(q) for q in np.quantile(posterior.draws("rho"), LOW_MIDDLE_HIGH))
    return low, median, high

"""How many more questions, or subjects of each, it takes to tell clusters apart."""

from dataclasses import dataclass
from itertools import pairwise
from math import isinf, isnan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.errors import ResponseError
from bayesirt.names import one_line, rounded
from bayesirt.posterior import Posterior
from bayesirt.ranking.cluster_ranking import ClusterRanking, known_clusters
from bayesirt.ranking.separation import (
    SURE,
    Separation,
    amount_needed,
    difference_columns,
    differences,
    subject_information,
)

_MOST_SUBJECTS = 1e4


@dataclass(frozen=True)
class ClusterSeparation(Separation):
    """Two clusters, and what it would take to tell them apart."""

    # How many more subjects of each, with answers like the others', would do so; infinite beyond
    # ten thousand.
    more_subjects: float

    def to_text(self) -> str:
        """Return which cluster is above, with what probability, and what would make it certain."""
        if isnan(self.more_items):
            return self.unsettled
        if self.more_items == 0:
            return f"{self.now}: that is certain."
        if isinf(self.more_subjects):
            return f"{self.now}; not even ten thousand more subjects of each would tell them apart."
        subjects = f"{rounded(self.more_subjects):,} more subjects of each, such as runs,"
        if isinf(self.more_items):
            return (
                f"{self.now}; {self.seems} {subjects} would make it {SURE:.0%}; more questions "
                f"alone would not."
            )
        items = f"{rounded(self.more_items):,} more questions like these, put to all of theirs"
        return f"{self.now}; {self.seems} {items}, or {subjects} would make it {SURE:.0%}."


def separate_clusters(posterior: Posterior, one: str, other: str) -> ClusterSeparation:
    """Compare two clusters, and estimate what would make the result certain.

    Parameters
    ----------
    posterior : Posterior
        Of a model with clusters.
    one, other : str
        Names of two clusters.

    Returns
    -------
    ClusterSeparation

    Raises
    ------
    ResponseError
        If it has no clusters, a cluster is unknown, or both are the same.

    Notes
    -----
    With I_s = Σ n_sj I_j(θ_s) the information of the answers on a subject and Ī_s the mean of
    I_j(θ_s) over the items, the precision of γ_c is 1/κ + Σ 1/(1 - κ + 1/(I_s + k Ī_s)) over its
    subjects after k more items each, and the sum grows in proportion to their number. Variances of
    differences are taken to shrink like those of γ_1 - γ_2, with κ at its posterior mean.
    """
    names = known_clusters(posterior).names
    for name in (one, other):
        if name not in names:
            raise ResponseError(
                f"{one_line(name)!r} is not a cluster of this run; name one of clusters.csv"
            )
    if one == other:
        raise ResponseError(f"{one_line(one)!r} is named twice; name two clusters")
    return _Information(posterior).separation(names.index(one), names.index(other))


def separate_neighbouring_clusters(posterior: Posterior, ranking: ClusterRanking) -> pd.DataFrame:
    """Return what would tell each cluster from the next one of a ranking.

    One row per pair of neighbours, best first, with the attributes of `ClusterSeparation`.
    """
    names = known_clusters(posterior).names
    order = [names.index(name) for name in ranking.summary["cluster"]]
    information = _Information(posterior)
    rows = [information.separation(*pair) for pair in pairwise(order)]
    return pd.DataFrame(rows, columns=list(ClusterSeparation.__dataclass_fields__))


class _Information:
    """The information on clusters, and what more items and subjects would add."""

    def __init__(self, posterior: Posterior) -> None:
        self.clusters = known_clusters(posterior)
        self.posterior = posterior
        self.icc = float(posterior.draws("icc").mean())
        self.own, self.added = subject_information(posterior)

    def separation(self, one: int, other: int) -> ClusterSeparation:
        """Return two clusters, the one with the higher mean first."""
        gap = differences(self.posterior, "gamma", one, other)
        if gap.draws.mean() < 0:
            one, other = other, one
            gap = gap._replace(draws=-gap.draws)
        pair = np.array([one, other])
        now = self._variance(pair)
        more = (
            amount_needed(gap, lambda items: self._variance(pair, items=items) / now),
            amount_needed(gap, lambda n: self._variance(pair, subjects=n) / now, _MOST_SUBJECTS),
        )
        names = self.clusters.names[one], self.clusters.names[other]
        return ClusterSeparation(*names, *difference_columns(gap), *more)

    def _variance(self, pair: NDArray[np.intp], *, items: float = 0, subjects: float = 0) -> float:
        """Return the variance of γ_1 - γ_2 after so many more items, or subjects of each."""
        information = self.own + items * self.added
        of_subject = information / (1 + (1 - self.icc) * information)
        n = self.clusters.sizes
        of_cluster = np.bincount(self.clusters.codes, of_subject, len(n)) * (1 + subjects / n)
        return float((1 / (1 / self.icc + of_cluster[pair])).sum())

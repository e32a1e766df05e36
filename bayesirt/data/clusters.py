"""Clusters of subjects, such as several runs or prompts of one LLM, whose abilities are similar."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesirt.data.table_columns import first_varying, name_rows
from bayesirt.errors import ResponseError
from bayesirt.names import one_line


@dataclass(frozen=True)
class Clusters:
    """Which cluster each subject belongs to.

    >>> Clusters.of(["a", "b", "a"])
    Clusters(names=('a', 'b'), codes=(0, 1, 0))
    """

    names: tuple[str, ...]  # Names of the clusters, in order of appearance.
    codes: tuple[int, ...]  # Position of each subject's cluster.

    @classmethod
    def of(cls, cluster_of_each: Sequence[str]) -> "Clusters":
        """Make clusters from the name of each subject's cluster."""
        names = tuple(dict.fromkeys(cluster_of_each))
        positions = {name: k for k, name in enumerate(names)}
        return cls(names, tuple(positions[name] for name in cluster_of_each))

    @property
    def of_each(self) -> list[str]:
        """The name of each subject's cluster."""
        return [self.names[code] for code in self.codes]

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of subjects in each cluster."""
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def tell_apart(self) -> bool:
        """Whether clusters are informative: several, at least one with several subjects."""
        return 1 < len(self.names) < len(self.codes)

    def select(self, subjects: NDArray[np.intp]) -> "Clusters":
        """Return the clusters of some subjects."""
        of_each = self.of_each
        return Clusters.of([of_each[k] for k in subjects])


def clusters_of_rows(
    values: pd.Series, subject: NDArray[np.integer], subjects: Sequence[str]
) -> Clusters:
    """Return each subject's cluster from a column with one row per response."""
    names = pd.Series(name_rows(values, "cluster"), dtype=object)
    varying = first_varying(names, subject)
    if varying is not None:
        raise ResponseError(
            f"`{one_line(str(values.name))}` differs between the rows of subject "
            f"{one_line(subjects[varying])!r}; a subject belongs to one cluster"
        )
    first = np.unique(subject, return_index=True)[1]
    return Clusters.of(list(names.iloc[first]))


def check_clusters(clusters: Clusters, n_subjects: int) -> None:
    """Refuse clusters whose number of codes is wrong, or that have no name."""
    if len(clusters.codes) != n_subjects:
        raise ResponseError(
            f"there are {n_subjects} subjects, but {len(clusters.codes)} have a cluster; name one "
            f"for each"
        )
    for name in clusters.names:
        if not (isinstance(name, str) and name.strip()):
            raise ResponseError(f"a cluster is named {one_line(str(name))!r}; give it a name")


def refuse_useless(clusters: Clusters) -> None:
    """Refuse uninformative clusters: a single one, or one per subject."""
    if clusters.tell_apart:
        return
    one = len(clusters.names) == 1
    where = f"all subjects are in the cluster {one_line(clusters.names[0])!r}"
    raise ResponseError(
        f"{where if one else 'each subject is in a cluster of its own'}; name a column that "
        f"{'tells some of them apart' if one else 'some of them share'}, or leave out the clusters"
    )

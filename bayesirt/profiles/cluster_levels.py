"""Ability levels of clusters of subjects: what to expect of a further subject of each cluster."""

from typing import Any

import pandas as pd

from bayesirt.posterior import Posterior, mean_and_ends
from bayesirt.ranking.cluster_ranking import known_clusters


def cluster_levels(posterior: Posterior) -> pd.DataFrame:
    """Return the levels about which the subjects of each cluster are distributed.

    One row per cluster: `cluster`, `n_subjects`, and the level of each ability under its name, in
    standard deviations of the population of subjects, with its 90% interval (`NAME_low`,
    `NAME_high`).
    """
    clusters, gamma = known_clusters(posterior), posterior.draws("gamma")
    table: dict[str, Any] = {"cluster": list(clusters.names), "n_subjects": clusters.sizes}
    for k, name in enumerate(posterior.dataset["ability"].values):
        table |= mean_and_ends(str(name), gamma[..., k])
    return pd.DataFrame(table)

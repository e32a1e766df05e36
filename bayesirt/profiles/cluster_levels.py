"""Clusters of subjects by several abilities: what to expect of a further subject of each."""

from typing import Any

import numpy as np
import pandas as pd

from bayesirt.posterior import TAILS, Posterior
from bayesirt.ranking.cluster_ranking import known_clusters


def cluster_levels(posterior: Posterior) -> pd.DataFrame:
    """Return the levels about which the subjects of each cluster lie.

    One row a cluster: `cluster`, `n_subjects`, and the level of each ability under its name, in
    standard deviations of the population of subjects, with its 90% interval (`NAME_low`,
    `NAME_high`).
    """
    clusters, gamma = known_clusters(posterior), posterior.draws("gamma")
    low, high = np.quantile(gamma, TAILS, axis=0)
    table: dict[str, Any] = {"cluster": list(clusters.names), "n_subjects": clusters.sizes}
    for k, name in enumerate(posterior.dataset["ability"].values):
        of_name = (gamma[..., k].mean(0), low[:, k], high[:, k])
        table |= dict(zip((f"{name}", f"{name}_low", f"{name}_high"), of_name, strict=True))
    return pd.DataFrame(table)

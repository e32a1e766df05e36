"""Clusters of subjects, ranked by the ability expected of a new subject from each."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayesirt.data.clusters import Clusters
from bayesirt.errors import ResponseError
from bayesirt.names import in_percent, one_line
from bayesirt.posterior import TAILS, Posterior
from bayesirt.ranking.chain_bounds import supported_columns
from bayesirt.ranking.subject_ranking import (
    ability_columns,
    best_first,
    columns_of_chain,
    rank_columns,
)
from bayesirt.verdict import chains_of


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRanking:
    """A ranking of clusters of subjects, such as the several runs or prompts of an LLM."""

    # One row per cluster, best first: `cluster`, `n_subjects`, and the columns of
    # `Ranking.summary` from `ability` to `tier`, all for the ability around which the
    # cluster's subjects lie, among clusters. A cluster counts once, however many subjects
    # it has.
    summary: pd.DataFrame
    # Share of the variance of abilities that lies between clusters, with its 90% interval.
    icc: float
    icc_low: float
    icc_high: float
    spread: float  # Standard deviation of the abilities of one cluster's subjects: posterior mean.
    sound: bool = True  # As in `Ranking`.

    def __repr__(self) -> str:
        return f"<ClusterRanking of {len(self.summary)} clusters>"

    def to_text(self) -> str:
        """Return in words which cluster is best, and how much variance clusters account for."""
        first, n = self.summary.iloc[0], len(self.summary)
        if not self.sound:
            return f"Which of {n} clusters is best is not known yet: see the verdict."
        return (
            f"Of {n} clusters, {one_line(str(first['cluster']), 60)} is best with "
            f"probability {in_percent(first['p_best'])} (rank {first['rank_low']} to "
            f"{first['rank_high']}). "
            f"{shares_in_words(self.icc, self.icc_low, self.icc_high, self.spread)}"
        )


def rank_clusters(posterior: Posterior) -> ClusterRanking:
    """Rank the clusters of subjects.

    Parameters
    ----------
    posterior : Posterior
        Of a model with clusters.

    Returns
    -------
    ClusterRanking

    Raises
    ------
    ResponseError
        If it has no clusters.

    Examples
    --------
    >>> import jax
    >>> from dataclasses import replace
    >>> from bayesirt import Responses, RunOptions, sample_posterior
    >>> from bayesirt.data.clusters import Clusters
    >>> runs = Clusters.of(["x", "x", "x", "y", "y", "y"])
    >>> responses = replace(Responses.from_arrays(np.tri(6, 5)), clusters=runs)
    >>> key = jax.random.key(0)
    >>> options = RunOptions(num_warmup=50, num_samples=20)
    >>> posterior = sample_posterior(responses, key=key, options=options)
    >>> rank_clusters(posterior).summary["cluster"].to_list()
    ['y', 'x']
    """
    clusters, posterior = known_clusters(posterior), posterior.reported
    gamma, verdict = posterior.draws("gamma"), posterior.verdict
    order, ranks = best_first(gamma)
    gamma = gamma[:, order]
    chains = chains_of(posterior["gamma"][..., order])[: 0 if verdict.sound else None]
    summary = pd.DataFrame(
        {
            "cluster": np.asarray(clusters.names, object)[order],
            "n_subjects": clusters.sizes[order],
            **ability_columns(gamma),
            **rank_columns(gamma, ranks),
            **supported_columns(chains, columns_of_chain, explored=verdict.explored),
        }
    )
    return ClusterRanking(summary, *shares(posterior), verdict.sound)


def shares(posterior: Posterior) -> tuple[float, float, float, float]:
    """Return the share of variance between clusters, its interval, and the sd within one."""
    icc = posterior.draws("icc")
    low, high = np.quantile(icc, TAILS)
    return float(icc.mean()), float(low), float(high), float(np.sqrt(1 - icc).mean())


def shares_in_words(icc: float, low: float, high: float, spread: float) -> str:
    """Return the results of `shares` as a sentence."""
    return (
        f"{icc:.0%} ({low:.0%} to {high:.0%}) of the variance of abilities lies between clusters; "
        f"subjects of one cluster differ by {spread:.2f} (standard deviation)."
    )


def known_clusters(posterior: Posterior) -> Clusters:
    """Return a posterior's clusters."""
    if posterior.clusters is None:
        raise ResponseError("this posterior has no clusters of subjects; rank with --cluster")
    return posterior.clusters

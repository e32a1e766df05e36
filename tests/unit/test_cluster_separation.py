"""Separation of clusters: more items shrink subjects' uncertainty, more subjects also the rest."""

from dataclasses import replace
from math import inf, isinf

import made_posterior
import numpy as np
import pytest
from scipy.stats import norm

from bayesirt.data.clusters import Clusters
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.posterior import Posterior
from bayesirt.ranking.cluster_ranking import rank_clusters
from bayesirt.ranking.cluster_separation import (
    ClusterSeparation,
    separate_clusters,
    separate_neighbouring_clusters,
)
from bayesirt.ranking.separation import separate

SAMPLES, N_ITEMS, ICC = 4000, 10, 0.6
NAMES = ("x", "y", "z")
SIZES = (4, 4, 2)


def posterior_of(means: list[float], sd: float) -> Posterior:
    """Return draws of three clusters with exact means and spread; subjects lie near 0."""
    grid = norm.ppf((np.arange(SAMPLES) + 0.5) / SAMPLES)
    rng = np.random.default_rng(2)
    gamma = np.stack([m + sd * rng.permutation(grid) / grid.std() for m in means], 1)
    n = sum(SIZES)
    responses = Responses.from_arrays(rng.integers(0, 2, (n, N_ITEMS)))
    clusters = Clusters.of(list(np.repeat(NAMES, SIZES)))
    shape = (2, SAMPLES // 2)
    theta = np.broadcast_to(np.linspace(-1e-3, 1e-3, n), (*shape, n))
    of_clusters = {"gamma": gamma.reshape(*shape, 3), "icc": np.full(shape, ICC)}
    responses = replace(responses, clusters=clusters)
    return made_posterior.posterior_of(responses, theta=theta, a=2, b=0, **of_clusters)


def variance(items: float, n_subjects: float) -> float:
    """Return the variance of γ given answers: an item's information on a subject at 0 is 1."""
    return 1 / (1 / ICC + n_subjects / (1 - ICC + 1 / items))


def test_more_of_either_shrinks_the_difference_as_information_adds_up():
    sd, quantile = 0.3, norm.ppf(0.95)
    now = variance(N_ITEMS, 4)
    for share in (0.9, 0.7):
        mean = quantile * np.sqrt(share) * sd * np.sqrt(2)
        found = separate_clusters(posterior_of([0, mean, -2], sd), "x", "y")
        assert (found.first, found.second) == ("y", "x")
        assert found.p_above == pytest.approx(norm.cdf(quantile * np.sqrt(share)), abs=0.02)
        n = found.more_subjects
        assert variance(N_ITEMS, 4 + n) / now < share + 0.02
        assert variance(N_ITEMS, 3 + n) / now > share - 0.02
        if isinf(found.more_items):
            assert variance(1e9, 4) / now > share - 0.02
        else:
            assert variance(N_ITEMS + found.more_items, 4) / now == pytest.approx(share, abs=0.02)
    assert isinf(found.more_items)


def test_words_name_what_helps():
    found = ClusterSeparation("x", "y", 0.83, 0.31, -0.2, 0.8, 140, 3)
    assert "about 140 more questions like these, put to all of theirs, or 3 more" in found.to_text()
    assert replace(found, more_items=0).to_text().endswith("that is certain.")
    assert "more questions alone would not" in replace(found, more_items=inf).to_text()
    never = replace(found, more_items=inf, more_subjects=inf).to_text()
    assert never.endswith("not even ten thousand more subjects of each would tell them apart.")


def test_neighbours_are_pairs_of_the_ranking():
    posterior = posterior_of([0, 1, -1], 0.3)
    table = separate_neighbouring_clusters(posterior, rank_clusters(posterior))
    assert table["first"].tolist() == ["y", "x"]
    assert table["second"].tolist() == ["x", "z"]
    assert table.loc[0].to_dict() == pytest.approx(vars(separate_clusters(posterior, "x", "y")))


def test_bad_names_are_refused():
    posterior = posterior_of([0, 1, -1], 0.3)
    with pytest.raises(ResponseError, match="'w' is not a cluster of this run"):
        separate_clusters(posterior, "x", "w")
    with pytest.raises(ResponseError, match="'x' is named twice; name two clusters"):
        separate_clusters(posterior, "x", "x")
    with pytest.raises(ResponseError, match="'x' is not a subject of this run; pass --clusters"):
        separate(posterior, "x", "y")

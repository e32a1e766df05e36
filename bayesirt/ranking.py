"""Ranks with their uncertainty, from joint draws of all abilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.anchored_scale import line_through
from bayesirt.averages import AverageCheck, check_average
from bayesirt.families import FAMILIES
from bayesirt.flags import response_flags
from bayesirt.pairwise import in_threads, probability_above, surely_above
from bayesirt.posterior import LEVEL, Posterior

TOP = (3, 10)
"""Of which best few the probability to be among them is told."""
_CELL_DRAWS = 4_000_000_000
_ROWS_AT_ONCE = 128


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Who is how good, and how sure that is.

    Attributes
    ----------
    summary : DataFrame
        One row a subject, best first. `rank` is the posterior median; ``_low`` and ``_high`` bound
        90% intervals; `rank_set_low` and `rank_set_high` hold for all subjects at once; subjects
        of one `tier` cannot be told from its first. Clusters add `cluster`, an anchored scale
        `scale`, answers with lengths their mean `length`, with costs their mean `cost`, LaRT
        `speed`.
    pairwise : DataFrame
        P(row above column), in the order of the summary.
    rank_probabilities : float array, shape (subject, rank)
        P(subject has rank r), in the order of the summary.
    average : AverageCheck
        Whether the simple average would have done.
    """

    summary: pd.DataFrame
    pairwise: pd.DataFrame
    rank_probabilities: NDArray[np.float64]
    average: AverageCheck

    def __repr__(self) -> str:
        return f"<Ranking of {len(self.summary)} subjects in {self.summary['tier'].max()} tiers>"

    def to_text(self) -> str:
        """Return the ranking as plain text."""
        columns = ["rank", "rank_low", "rank_high", "subject", "ability", "accuracy", "tier"]
        return self.summary[columns].to_string(index=False)

    def to_html(self) -> str:
        """Return the ranking as an HTML table with every name escaped."""
        return str(self.summary.to_html(index=False, escape=True))


def rank_subjects(posterior: Posterior, *, scale: Mapping[str, float] | None = None) -> Ranking:
    """Rank subjects by their ability.

    Parameters
    ----------
    posterior : Posterior
    scale : mapping of str to float, optional
        Anchors: one subject or two, and the values that they have on a scale of your own.

    Returns
    -------
    Ranking

    Raises
    ------
    ResponseError
        If anchors are unknown, more than two, or cannot be told apart.
    """
    theta = posterior.theta
    order = np.argsort(-theta.mean(0), kind="stable")
    theta = theta[:, order]
    successes, trials = posterior.successes[order], posterior.trials[order]
    ranks = ranks_of_draws(theta)
    accuracy = successes.sum(1) / trials.sum(1)
    names = np.asarray(posterior.subjects, object)[order]
    summary = pd.DataFrame(
        {
            "subject": names,
            **_clusters(posterior, order),
            "accuracy": accuracy,
            "rank_by_accuracy": rankdata(-accuracy, method="min").astype(int),
            **ability_columns(theta),
            **_on_scale(posterior, order, scale),
            **_speeds(posterior, order),
            **rank_columns(theta, ranks),
            **_with_interval("expected_score", expected_scores(posterior)[:, order]),
            "n_items": np.count_nonzero(trials, 1),
            "n_trials": trials.sum(1),
            **_lengths_and_costs(posterior, order),
            "flag": response_flags(successes, trials, 1),
        }
    )
    return Ranking(
        summary,
        pd.DataFrame(probability_above(theta, ranks), index=names, columns=names),
        _rank_probabilities(ranks),
        check_average(summary, posterior),
    )


def ability_columns(theta: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
    """Return the mean, sd and interval of each ability.

    Parameters
    ----------
    theta : float array, shape (sample, subject)

    Returns
    -------
    dict of float arrays, shape (subject,)
    """
    interval = _with_interval("ability", theta)
    return {"ability": interval.pop("ability"), "ability_sd": theta.std(0, ddof=1), **interval}


def rank_columns(
    theta: NDArray[np.floating], ranks: NDArray[np.int32]
) -> dict[str, NDArray[np.generic]]:
    """Return each one's rank with its intervals, chances to be on top, and tier.

    Parameters
    ----------
    theta : float array, shape (sample, subject)
        Best first by their means.
    ranks : int array, shape (sample, subject)
        As `ranks_of_draws` tells them.

    Returns
    -------
    dict of arrays, shape (subject,)
        As `Ranking.summary` describes them.
    """
    sure = surely_above(_standardised(theta), LEVEL)
    low, rank, high = np.quantile(
        ranks, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0, method="inverted_cdf"
    )
    return {
        "rank": rank.astype(int),
        "rank_low": low.astype(int),
        "rank_high": high.astype(int),
        "rank_set_low": 1 + sure.sum(0),
        "rank_set_high": ranks.shape[1] - sure.sum(1),
        "p_best": (ranks == 1).mean(0),
        **{f"p_top{k}": (ranks <= k).mean(0) for k in TOP},
        "tier": tiers(sure),
    }


def _on_scale(
    posterior: Posterior, order: NDArray[np.intp], scale: Mapping[str, float] | None
) -> dict[str, NDArray[np.float64]]:
    """Return each subject's value on an anchored scale with its interval, where there is one."""
    if not scale:
        return {}
    line = line_through(posterior, scale)
    return _with_interval("scale", line.intercept + line.slope * posterior.theta[:, order])


def _with_interval(name: str, draws: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
    """Return means with their intervals."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return {name: draws.mean(0), f"{name}_low": low, f"{name}_high": high}


def _clusters(posterior: Posterior, order: NDArray[np.intp]) -> dict[str, NDArray[np.object_]]:
    """Return the cluster of each subject, where they come in clusters."""
    clusters = posterior.clusters
    return {} if clusters is None else {"cluster": np.asarray(clusters.of_each, object)[order]}


def _lengths_and_costs(
    posterior: Posterior, order: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    """Return the mean length and cost of each subject's answers, where they have any."""
    means = {"length": posterior.mean_lengths, "cost": posterior.mean_costs}
    return {name: mean[order] for name, mean in means.items() if mean is not None}


def _speeds(posterior: Posterior, order: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """Return each subject's speed with its interval, where the model has speeds."""
    if not posterior.has_speeds:
        return {}
    return _with_interval("speed", posterior.draws("tau")[:, order])


def _standardised(theta: NDArray[np.floating]) -> NDArray[np.floating]:
    """Take out of each draw the location and scale that no rank depends on."""
    return (theta - theta.mean(1, keepdims=True)) / theta.std(1, keepdims=True)


def ranks_of_draws(theta: NDArray[np.floating]) -> NDArray[np.int32]:
    """Return 1 + the number of subjects above, for each draw and subject.

    Parameters
    ----------
    theta : float array, shape (sample, subject)

    Returns
    -------
    int array, shape (sample, subject)

    Examples
    --------
    >>> ranks_of_draws(np.array([[0.1, 2.0, -1.0]]))
    array([[2, 1, 3]], dtype=int32)
    """
    ranks = np.empty(theta.shape, np.int32)
    places = np.arange(1, theta.shape[1] + 1, dtype=np.int32)[None]

    def of_rows(start: int) -> None:
        rows = slice(start, start + _ROWS_AT_ONCE)
        np.put_along_axis(ranks[rows], np.argsort(-theta[rows], 1), places, 1)

    in_threads(of_rows, range(0, len(theta), _ROWS_AT_ONCE))
    return ranks


def _rank_probabilities(ranks: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return P(subject has rank r), with one large array rather than three."""
    samples, n = ranks.shape
    found = np.empty((n, n))
    for row, own in zip(found, np.ascontiguousarray(ranks.T), strict=True):
        np.divide(np.bincount(own - 1, minlength=n), samples, out=row)
    return found


def tiers(sure: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return tier numbers: a tier ends before the first subject that its first is surely above.

    Parameters
    ----------
    sure : bool array, shape (subject, subject)
        Row surely above column, best subject first.

    Returns
    -------
    int array, shape (subject,)
        From 1 on.

    Examples
    --------
    >>> tiers(np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], bool))
    array([1, 1, 2])
    """
    tier = np.ones(len(sure), np.int64)
    first = 0
    for k in range(1, len(sure)):
        new = sure[first, k]
        tier[k] = tier[k - 1] + new
        first = k if new else first
    return tier


def expected_scores(posterior: Posterior) -> NDArray[np.float64]:
    """Return each subject's mean score over the whole suite: observed cells kept, others expected.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    float array, shape (sample, subject)
        Draws are thinned evenly where all of them would take over 4 billion cells.
    """
    trials = posterior.trials
    share = posterior.successes / np.maximum(trials, 1)
    observed = np.where(trials > 0, share, 0).sum(1)
    missing = trials == 0
    theta, a, d = (posterior.draws(name) for name in ("theta", "a", "d"))
    if not missing.any():
        return np.broadcast_to(observed / trials.shape[1], theta.shape)
    thin = -(-theta.size * trials.shape[1] // _CELL_DRAWS)
    draws = theta[::thin], a[::thin], d[::thin]
    expected = _expected_missing(posterior.link, jnp.asarray(missing), *draws)
    return (observed + np.asarray(expected, np.float64)) / trials.shape[1]


@partial(jax.jit, static_argnums=0)
def _expected_missing(link: str, missing: Array, theta: Array, a: Array, d: Array) -> Array:
    def of_draw(draw: tuple[Array, Array, Array]) -> Array:
        own_theta, own_a, own_d = draw
        p = FAMILIES[link].probability(own_theta[:, None] * own_a + own_d)
        return jnp.where(missing, p, 0).sum(1)

    return jax.lax.map(of_draw, (theta, a, d))

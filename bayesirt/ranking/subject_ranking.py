"""Ranks with their uncertainty, from joint draws of all abilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from markupsafe import escape
from numpy.typing import NDArray

from bayesirt.checks.extreme_scores import response_flags
from bayesirt.data.scales import Scale, score_name, shown_score
from bayesirt.names import notebook_html
from bayesirt.posterior import LEVEL, LOW_MIDDLE_HIGH, Posterior, mean_and_ends, standardised
from bayesirt.ranking.chain_bounds import supported, supported_columns
from bayesirt.ranking.linking import line_through
from bayesirt.ranking.pairwise import in_threads, probability_above, surely_above
from bayesirt.ranking.simple_averages import AverageCheck, check_average
from bayesirt.verdict import chains_of

TOP = (3, 10)
"""Values of k for which the probability of being among the best k is reported."""
SCORE_RANK = ("score_rank", "score_rank_low", "score_rank_high")
"""Columns with the rank by accuracy and its 90% interval."""
_ROWS_AT_ONCE = 128


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """A ranking of subjects, with its uncertainty.

    Attributes
    ----------
    summary : DataFrame
        One row per subject, best first. `rank` is the place by posterior median ranks, the same
        for subjects with the same answers, and lies in its interval; ``_low`` and ``_high`` bound
        90% intervals; `rank_set_low` and `rank_set_high` hold for all subjects simultaneously;
        subjects of a `tier` are statistically tied with its first. `expected_score` is the expected
        proportion correct of all items; its interval is for the score that the subject would get,
        with given answers kept and missing ones drawn. `score_rank` is the rank by the expected
        score over items like these: the ranking by accuracy, with its own intervals. Clusters add
        `cluster`, an anchored scale `scale`, lengths and costs the mean `length` and `cost` of an
        answer, and LaRT `speed`.
    pairwise : DataFrame
        P(row above column), in the order of the summary.
    rank_probabilities : float array, shape (subject, rank)
        P(subject has rank r), in the order of the summary; rows need not add up to 1 if the draws
        are not sound.
    average : AverageCheck
        Whether the simple average would have been adequate.
    warnings : tuple of str
        Sentences to show before anything else: why draws are not sound, or that one ability does
        not explain the answers.
    sound : bool
        False if the draws are not sound. Probabilities and intervals of ranks are then only what
        every chain supports (`bayesirt.ranking.chain_bounds`).
    by_score : bool
        True if rows are sorted by accuracy, because one ability does not explain the answers.
    answers : Scale or None
        Scale of the answers, if they are not right and wrong: accuracy and scores are then shares
        of the range from the lowest score to the highest, and `table` has them in their own unit.
    """

    summary: pd.DataFrame
    pairwise: pd.DataFrame
    rank_probabilities: NDArray[np.float64]
    average: AverageCheck
    warnings: tuple[str, ...] = ()
    sound: bool = True
    by_score: bool = False
    answers: Scale | None = None

    @property
    def score(self) -> str:
        """The name of the mean of a subject's answers."""
        return score_name(self.answers)

    def shown(self, share: float) -> str:
        """Return a share of the full score as text."""
        return shown_score(self.answers, share)

    @property
    def table(self) -> pd.DataFrame:
        """The summary with mean and expected scores in the scores' own unit."""
        if self.answers is None:
            return self.summary
        scores = self.summary.filter(regex=r"^(accuracy|(expected|population)_score(_low|_high)?)$")
        return self.summary.assign(**{name: self.answers.value(x) for name, x in scores.items()})

    def __repr__(self) -> str:
        if self.warnings:
            return f"<Ranking of {len(self.summary)} subjects. {self.warnings[0]}>"
        return f"<Ranking of {len(self.summary)} subjects in {self.summary['tier'].max()} tiers>"

    def _repr_html_(self) -> str:
        order = SCORE_RANK if self.by_score else ("rank", "rank_low", "rank_high")
        score = [f"expected_score{end}" for end in ("", "_low", "_high")]
        shown = [*order, "ability", "ability_low", "ability_high", "accuracy", *score, "tier"]
        table = self.table.set_index("subject")[shown]
        return notebook_html(" ".join(self.warnings) or repr(self)[1:-1], table)

    def to_text(self) -> str:
        """Return the ranking as plain text, warnings first."""
        columns = ["rank", "rank_low", "rank_high", "subject", "ability", "accuracy", "tier"]
        if self.by_score:
            columns = [*SCORE_RANK, "subject", "accuracy", "ability", "rank"]
        table = self.summary[columns].to_string(index=False)
        return "\n".join([*self.warnings, table])

    def to_html(self) -> str:
        """Return the ranking as an HTML table with every name escaped, warnings first."""
        warnings = "".join(f"<p><strong>{escape(text)}</strong></p>" for text in self.warnings)
        return warnings + str(self.summary.to_html(index=False, escape=True))


def rank_subjects(
    posterior: Posterior,
    *,
    scale: Mapping[str, float] | None = None,
    population: bool = False,
) -> Ranking:
    """Rank subjects by their ability.

    Parameters
    ----------
    posterior : Posterior
    scale : mapping of str to float, optional
        Anchors: one or two subjects, and their values on a scale of your own.
    population : bool
        Add `population_score`, the expected score over items like these, with its interval.

    Returns
    -------
    Ranking

    Raises
    ------
    ResponseError
        If anchors are unknown, more than two, or cannot be told apart.

    Notes
    -----
    Missing answers are drawn with a key that depends on the responses alone: the same posterior
    always has the same ranking.
    """
    posterior = posterior.reported
    alike = equal_answers(posterior)
    order, ranks = best_first(posterior.theta, alike)
    theta, verdict, alike = posterior.theta[:, order], posterior.verdict, alike[order]
    chains = chains_of(posterior["theta"][..., order])[: 0 if verdict.sound else None]
    successes, trials = posterior.successes[order], posterior.trials[order]
    accuracy = successes.sum(1) / trials.sum(1)
    names = np.asarray(posterior.subjects, object)[order]
    summary = pd.DataFrame(
        {
            "subject": names,
            **_clusters(posterior, order),
            "accuracy": accuracy,
            "rank_by_accuracy": places(-accuracy),
            **ability_columns(theta),
            **_on_scale(posterior, order, scale),
            **_speeds(posterior, order),
            **rank_columns(theta, ranks, alike),
            **supported_columns(
                chains, partial(columns_of_chain, alike=alike), explored=verdict.explored
            ),
            **_scores(posterior, order, alike, population=population),
            "n_items": np.count_nonzero(trials, 1),
            "n_trials": (trials if posterior.answers is None else trials > 0).sum(1),
            **_lengths_and_costs(posterior, order),
            "flag": response_flags(successes, trials, 1),
        }
    )
    return _with_pairs(summary, posterior, order, ranks)


def ranking_of(summary: pd.DataFrame, posterior: Posterior) -> Ranking:
    """Return the ranking of a posterior whose summary is known, best first."""
    posterior = posterior.reported
    order = pd.Index(posterior.subjects).get_indexer(pd.Index(summary["subject"]))
    return _with_pairs(summary, posterior, order, ranks_of_draws(posterior.theta)[:, order])


def _with_pairs(
    summary: pd.DataFrame,
    posterior: Posterior,
    order: NDArray[np.intp],
    ranks: NDArray[np.int32],
) -> Ranking:
    """Return a ranking with the probabilities of all ranks and pairs."""
    verdict, names = posterior.verdict, np.asarray(posterior.subjects, object)[order]
    if verdict.sound:
        above = probability_above(posterior.theta[:, order], ranks)
        of_ranks = _rank_probabilities(ranks)
    else:
        chains = chains_of(posterior["theta"][..., order])
        above = supported(map(probability_above, chains), of_pairs=True)
        of_ranks = supported(_rank_probabilities(ranks_of_draws(chain)) for chain in chains)
    return Ranking(
        summary,
        pd.DataFrame(above, index=names, columns=names, copy=False),
        of_ranks,
        check_average(summary, posterior),
        () if verdict.sound else (verdict.to_text(),),
        verdict.sound,
        answers=posterior.answers,
    )


def equal_answers(posterior: Posterior) -> NDArray[np.intp]:
    """Return a number for each subject, the same for subjects with the same data.

    Their posteriors are equal, and their draws differ by chance alone.
    """
    if posterior.has_speeds or posterior.clusters is not None:
        return np.arange(len(posterior.subjects))
    answers = zip(posterior.successes, posterior.trials, strict=True)
    numbers: dict[tuple[bytes, bytes], int] = {}
    return np.array(
        [numbers.setdefault((y.tobytes(), n.tobytes()), len(numbers)) for y, n in answers]
    )


def best_first(
    theta: NDArray[np.floating], alike: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Return the order by median rank, then by mean, and the ranks of draws in this order.

    Subjects that are `alike` share the mean of their medians.
    """
    ranks = ranks_of_draws(theta)
    middle = (len(ranks) - 1) // 2
    median = np.partition(ranks, middle, axis=0)[middle]
    order = np.lexsort((-theta.mean(0), _shared(median, alike)))
    return order, ranks[:, order]


def _shared(values: NDArray[np.generic], alike: NDArray[np.intp] | None) -> NDArray[np.generic]:
    """Return for each subject the mean value of those that are alike."""
    if alike is None:
        return values
    return (np.bincount(alike, values) / np.maximum(np.bincount(alike), 1))[alike]


def ability_columns(theta: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
    """Return the mean, sd and interval of each ability."""
    interval = mean_and_ends("ability", theta)
    return {"ability": interval.pop("ability"), "ability_sd": theta.std(0, ddof=1), **interval}


def rank_columns(
    theta: NDArray[np.floating], ranks: NDArray[np.int32], alike: NDArray[np.intp] | None = None
) -> dict[str, NDArray[np.generic]]:
    """Return each subject's rank with its intervals, probabilities of the top ranks, and tier.

    `Ranking.summary` describes the columns. If many subjects are tied, all have median ranks in the
    middle; their intervals are then wide enough to contain their place too.
    """
    sure = surely_above(theta, LEVEL)
    low, rank, high = np.quantile(ranks, LOW_MIDDLE_HIGH, axis=0, method="inverted_cdf")
    place = places(_shared(rank, alike))
    return {
        "rank": place,
        "rank_low": np.minimum(low, place).astype(int),
        "rank_high": np.maximum(high, place).astype(int),
        "rank_set_low": np.minimum(1 + sure.sum(0), place),
        "rank_set_high": np.maximum(ranks.shape[1] - sure.sum(1), place),
        "p_best": (ranks == 1).mean(0),
        **{f"p_top{k}": (ranks <= k).mean(0) for k in TOP},
        "tier": tiers(sure),
    }


def _scores(
    posterior: Posterior, order: NDArray[np.intp], alike: NDArray[np.intp], *, population: bool
) -> dict[str, NDArray[np.generic]]:
    """Return each subject's score with its interval, and its rank by the score."""
    from bayesirt.ranking.score_draws import ScoreDraws, draw_scores, key_of, score_ranks

    draws = ScoreDraws(*(x[:, order] for x in draw_scores(posterior, key=key_of(posterior))))
    _, low, high = mean_and_ends("", draws.realised).values()
    constant = np.ptp(draws.expected, axis=0) == 0
    mean = np.where(constant, draws.expected[0], draws.expected.mean(0))
    return {
        "expected_score": mean,
        "expected_score_low": np.minimum(low, mean),
        "expected_score_high": np.maximum(high, mean),
        **score_ranks(draws.population, alike),
        **(mean_and_ends("population_score", draws.population) if population else {}),
    }


def places(median: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return places by median ranks: subjects with the same median share the best place.

    >>> places(np.array([3, 4, 4, 6]))
    array([1, 2, 2, 4])
    """
    return pd.Series(median).rank(method="min").to_numpy(np.int64)


def columns_of_chain(
    theta: NDArray[np.floating], alike: NDArray[np.intp] | None = None
) -> dict[str, NDArray[np.generic]]:
    """Return `rank_columns` of one chain's draws."""
    with np.errstate(invalid="ignore"):  # a stuck chain may never move
        return rank_columns(theta, ranks_of_draws(theta), alike)


def _on_scale(
    posterior: Posterior, order: NDArray[np.intp], scale: Mapping[str, float] | None
) -> dict[str, NDArray[np.float64]]:
    """Return each subject's value on an anchored scale with its interval, if there is one."""
    if not scale:
        return {}
    intercept, slope = line_through(posterior, scale)
    return mean_and_ends("scale", intercept + slope * posterior.theta[:, order])


def _clusters(posterior: Posterior, order: NDArray[np.intp]) -> dict[str, NDArray[np.object_]]:
    """Return the cluster of each subject, if they come in clusters."""
    clusters = posterior.clusters
    return {} if clusters is None else {"cluster": np.asarray(clusters.of_each, object)[order]}


def _lengths_and_costs(
    posterior: Posterior, order: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    """Return the mean length and cost of each subject's answers, if recorded."""
    means = {"length": posterior.mean_lengths, "cost": posterior.mean_costs}
    return {name: mean[order] for name, mean in means.items() if mean is not None}


def _speeds(posterior: Posterior, order: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
    """Return each subject's speed with its interval, on the scale of abilities: relative to these.

    The level of all speeds together is far less certain than their differences.
    """
    if not posterior.has_speeds:
        return {}
    speed = standardised({"theta": posterior.draws("tau")[:, order]})["theta"]
    return mean_and_ends("speed", speed)


def ranks_of_draws(theta: NDArray[np.floating]) -> NDArray[np.int32]:
    """Return 1 + the number of subjects above, for each draw and subject.

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
    probabilities = np.empty((n, n))
    for row, subject_ranks in zip(probabilities, np.ascontiguousarray(ranks.T), strict=True):
        np.divide(np.bincount(subject_ranks - 1, minlength=n), samples, out=row)
    return probabilities


def tiers(sure: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return tier numbers: a tier ends before the first subject that its first is surely above.

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

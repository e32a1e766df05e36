"""Scores of subjects on the whole suite, and on items like it, draw by draw."""

from functools import partial
from typing import NamedTuple
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from bayesirt.likelihood.families import family_named
from bayesirt.posterior import LOW_MIDDLE_HIGH, Posterior
from bayesirt.random_keys import host_random
from bayesirt.ranking.residual_excess import excess_factor, typical_trials

_MOST_DRAWS = 1000
_CELL_DRAWS = 4_000_000_000
_FEWEST_TO_SHRINK, _LEAST_TRUE = 3, 1e-6
"""Subjects, and the least share of the variance of scores that is not chance."""
_LARGE = 1 << 18
"""More cells than this are computed in 32 bits."""


class ScoreDraws(NamedTuple):
    """Draws of each subject's score, shape (sample, subject); given answers count as they are."""

    # Proportion correct of all items, with probabilities in place of missing answers.
    expected: NDArray[np.float64]
    # Proportion correct of all items, with missing answers drawn: what the subject would get.
    realised: NDArray[np.float64]
    population: NDArray[np.float64]  # Expected proportion correct of items like these.


class _Missing(NamedTuple):
    """Sums over a subject's missing answers, one trial each, at each draw."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    third: NDArray[np.float64]
    weighted: NDArray[np.float64]


def draw_scores(posterior: Posterior, *, key: Array) -> ScoreDraws:
    """Draw each subject's score.

    The sum of independent answers with probabilities p is drawn at once, from its first three
    moments: μ + σ z + κ (z² - 1) / (6 σ²), rounded, with κ = Σ p (1-p) (1-2p), which is within .02
    of the exact distribution in total variation for two answers or more. An item counts the median
    number of trials. Noise of variance (φ - 1) V is added for dependence of answers beyond ability,
    where V is the variance of the sum and φ is estimated from other subjects' answers to the same
    items (`excess_factor`).

    Items like these: each draw weighs items by a Dirichlet distribution with all parameters 1 (the
    Bayesian bootstrap), with the same weights for all subjects, so that differences are paired.
    Chance in answers is part of the variance between items. Missing ones are therefore drawn here,
    too: with their expectations, 90% intervals of subjects with half of the answers cover 82%. Each
    subject has half an item more with the full score and half an item with none, so that nobody's
    next answers are certain: for right and wrong answers the score then has Jeffreys' posterior,
    Beta(y + ½, n - y + ½).

    Cornish, E. A., & Fisher, R. A. (1938). Moments and cumulants in the specification of
    distributions. doi:10.2307/1400905

    Rubin, D. B. (1981). The Bayesian bootstrap. Annals of Statistics, 9(1).
    doi:10.1214/aos/1176345338
    """
    trials = posterior.trials
    missing = trials == 0
    rows, columns = missing.any(1), missing.any(0)
    n_open = int(rows.sum()) * int(columns.sum())
    n_draws = len(posterior.theta)
    thin = max(-(-n_draws // _MOST_DRAWS), -(-n_draws * n_open // _CELL_DRAWS))
    of_weights, of_noise = jax.random.split(key)
    random = host_random(of_weights)
    share = posterior.successes / np.maximum(trials, 1)
    size = (-(-n_draws // thin), trials.shape[1])
    weights = random.standard_exponential(size, np.float32)
    weights /= weights.sum(1, keepdims=True)
    population = _product(weights, share)
    observed = np.broadcast_to(share.sum(1), population.shape)
    if not n_open:
        mean = observed / trials.shape[1]
        return ScoreDraws(mean, mean, _with_half_an_item_each(population, trials.shape[1], random))
    sums = _sums_over_missing(posterior, thin, rows, columns, weights)
    answers = _drawn_answers(posterior, rows, sums, of_noise)
    expected, realised = observed.copy(), observed.copy()
    expected[:, rows] += sums.mean
    realised[:, rows] += answers
    n = trials.shape[1]
    population[:, rows] += sums.weighted + (answers - sums.mean) / n
    population = _with_half_an_item_each(np.clip(population, 0, 1), n, random)
    return ScoreDraws(expected / n, realised / n, population)


def _with_half_an_item_each(
    score: NDArray[np.float64], n_items: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return draws of scores after half an item more with the full score and half with none."""
    full, none = random.standard_gamma(0.5, (2, *score.shape))
    weight = random.standard_gamma(n_items, (len(score), 1))
    return (weight * score + full) / (weight + full + none)


def key_of(posterior: Posterior) -> Array:
    """Return a key that depends on the responses alone, so that results are reproducible."""
    margins = [x.sum(axis) for x in (posterior.successes, posterior.trials) for axis in (0, 1)]
    return jax.random.key(crc32(np.concatenate(margins).astype("<i8").tobytes()))


def score_ranks(
    draws: NDArray[np.float64], alike: NDArray[np.intp] | None = None
) -> dict[str, NDArray[np.int64]]:
    """Return the place of each subject by its median rank by score, with its 90% interval.

    `score_rank`, `score_rank_low` and `score_rank_high`; equal scores share the best rank, and so
    do equal medians, and subjects with the same number in `alike`, who gave the same answers.
    Intervals are wide enough to contain the place.
    """
    ranks = np.empty(draws.shape, np.int32)
    for rank, draw in zip(ranks, np.round(_shrunk(draws), 6), strict=True):
        rank[:] = 1 + len(draw) - np.searchsorted(np.sort(draw), draw, "right")
    quantiles = np.quantile(ranks, LOW_MIDDLE_HIGH, axis=0, method="inverted_cdf").astype(int)
    low, median, high = quantiles
    places = pd.Series(median).rank(method="min")
    place = (places if alike is None else places.groupby(alike).transform("min")).to_numpy(int)
    return {
        "score_rank": place,
        "score_rank_low": np.minimum(low, place),
        "score_rank_high": np.maximum(high, place),
    }


def _shrunk(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return draws of scores without the chance in the scores that they are drawn around.

    Scores that were seen are spread by chance, and draws add it once more. Relative to the mean of
    all subjects, true scores are taken as normal, with a variance that is drawn from its posterior.
    Each draw has the standard deviation 1, as only ranks matter.
    """
    n = draws.shape[1]
    if n < _FEWEST_TO_SHRINK:
        return draws
    centred = draws - draws.mean(1, keepdims=True)
    mean = centred.mean(0)
    deviations = centred - mean
    chance = deviations.var(0)
    seen = (mean**2).sum() / np.random.default_rng(0).chisquare(n - 1, (len(draws), 1))
    true = np.maximum(seen - chance.mean(), _LEAST_TRUE * seen)
    share = true / np.maximum(true + chance, np.finfo(float).tiny)
    scores = share * mean + np.sqrt(share) * deviations
    return scores / np.maximum(scores.std(1, keepdims=True), np.finfo(float).tiny)


def _product(weights: NDArray[np.floating], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each draw's weighted proportion correct of the items that were answered."""
    kind = np.float32 if share.size > _LARGE else np.float64
    return (weights.astype(kind) @ share.T.astype(kind)).astype(np.float64)


def _sums_over_missing(
    posterior: Posterior,
    thin: int,
    rows: NDArray[np.bool_],
    columns: NDArray[np.bool_],
    weights: NDArray[np.floating],
) -> _Missing:
    missing = (posterior.trials == 0)[np.ix_(rows, columns)]
    kind = np.float32 if missing.size > _LARGE else None
    of_items = (posterior.draws(name)[::thin][:, columns] for name in posterior.parameters[1:])
    draws = (posterior.theta[::thin][:, rows], weights[:, columns], *of_items)
    draws = tuple(x.astype(kind or x.dtype) for x in draws)
    sums = _cumulants(posterior.link, typical_trials(posterior), missing, draws)
    first, weighted, variance, third = (np.asarray(x, np.float64) for x in sums)
    return _Missing(first, np.maximum(variance, 0), third, weighted)


@partial(jax.jit, static_argnums=0)
def _cumulants(
    link: str,
    trials: int,
    missing: Bool[Array, "subject item"],
    draws: tuple[Array, ...],
) -> tuple[Float[Array, "sample subject"], ...]:
    """Return sums over missing cells of means, weighted means, and cumulants 2 and 3, per trial.

    Draws are of θ, weights, a, d and further parameters.
    """

    def of_draw(draw: tuple[Array, ...]) -> tuple[Array, ...]:
        theta, weights, a, d, *further = draw
        shares = family_named(link).given(further).shares(theta[:, None] * a + d, trials)
        mean, variance, third = (jnp.where(missing, x, 0) for x in shares)
        return mean.sum(1), mean @ weights, variance.sum(1), third.sum(1)

    return jax.lax.map(of_draw, draws)


def _drawn_answers(
    posterior: Posterior, rows: NDArray[np.bool_], sums: _Missing, key: Array
) -> NDArray[np.float64]:
    """Return the sums of drawn answers."""
    random = host_random(key)
    factor = excess_factor(posterior, random)[rows]
    n = typical_trials(posterior)
    model = sums.variance.mean(0) / n + sums.mean.var(0)
    noise, z = random.standard_normal((2, *sums.mean.shape), np.float32)
    excess = np.sqrt((factor - 1) * model) * noise
    mean, variance, third = (n * x for x in (sums.mean, sums.variance, sums.third))
    skew = third / np.maximum(6 * variance, 1e-12)
    drawn = np.rint(mean + np.sqrt(variance) * z + skew * (z**2 - 1) + n * excess)
    most: NDArray[np.intp] = n * (posterior.trials[rows] == 0).sum(1)
    return np.clip(drawn, 0, most) / n

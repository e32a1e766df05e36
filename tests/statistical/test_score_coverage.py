"""Intervals of scores cover the full scores of subjects some of whose answers were hidden."""

from pathlib import Path

import jax
import numpy as np
import pytest
from made_posterior import of_four_chains as made
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

from bayesirt.data.responses import Responses
from bayesirt.inference.laplace import sample_laplace
from bayesirt.inference.options import RunOptions
from bayesirt.ranking.score_draws import draw_scores, score_ranks
from bayesirt.ranking.subject_ranking import rank_subjects

pytestmark = pytest.mark.statistical


def share_held(right: NDArray[np.int64], hidden: NDArray[np.bool_], seed: int) -> float:
    """Return the share of subjects with hidden answers whose full score is in its interval."""
    responses = Responses.from_arrays(np.where(hidden, 0, right), (~hidden).astype(int))
    posterior = sample_laplace(
        responses, key=jax.random.key(seed), options=RunOptions(num_samples=250)
    )
    table = rank_subjects(posterior).summary.set_index("subject").loc[list(responses.subjects)]
    score = right.mean(1)
    low, high = (table[f"expected_score_{end}"].to_numpy() for end in ("low", "high"))
    held = (low <= score + 1e-9) & (score <= high + 1e-9)
    return float(held[hidden.any(1)].mean())


def half_hidden(
    rng: np.random.Generator, shape: tuple[int, int], groups: NDArray[np.generic] | None = None
) -> NDArray[np.bool_]:
    """Hide a random half of the items, or of their groups, from each of 30% of the subjects."""
    of_items = np.arange(shape[1]) if groups is None else groups
    names = np.unique(of_items)
    hidden = np.zeros(shape, bool)
    for i in rng.permutation(shape[0])[: int(0.3 * shape[0])]:
        hidden[i] = np.isin(of_items, rng.permutation(names)[: len(names) // 2])
    return hidden


def test_realised_scores_are_held_where_the_model_is_true():
    """90% of 240 scores are covered, within 5 standard errors of 1.9% each."""
    held = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        theta, a, b = rng.normal(size=100), np.exp(0.3 * rng.normal(size=200)), rng.normal(size=200)
        right = rng.binomial(1, expit(a * (theta[:, None] - b)))
        held.append(share_held(right, half_hidden(rng, right.shape), seed))
    assert 0.8 < np.mean(held) < 0.995


def drawn_scores(right: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return draws of scores over items like these, of complete answers."""
    zeros = np.zeros((1000, right.shape[1]))
    posterior = made(np.zeros((1000, len(right))), zeros + 1, zeros, right, np.ones_like(right))
    return draw_scores(posterior, key=jax.random.key(int(rng.integers(1000)))).population


def abilities_drawn(
    right: NDArray[np.int64],
    seen: NDArray[np.bool_],
    items: tuple[NDArray[np.float64], NDArray[np.float64]],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return 1,000 exact draws of abilities from N(0, 1) given answers to known items."""
    grid = np.linspace(-5, 5, 401)
    chances = expit(grid[:, None] * items[0] + items[1])
    log_p = np.log(chances) @ (right * seen).T + np.log1p(-chances) @ ((1 - right) * seen).T
    density = np.exp(log_p - log_p.max(0)) * np.exp(-(grid**2) / 2)[:, None]
    below = density.cumsum(0) / density.sum(0)
    return np.stack([grid[np.searchsorted(x, rng.random(1000))] for x in below.T], axis=1)


@pytest.mark.parametrize("hidden", [0.3, 0.5, 0.8])
def test_scores_over_items_like_these_are_held_where_answers_are_missing(hidden: float):
    """10 subjects lack answers to 40 items, 10 do not: 5 standard errors of 1% over 120 tables."""
    of_some, of_all = [], []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        theta, a = rng.normal(size=20), np.exp(0.35 * rng.normal(size=3_040))
        d = rng.normal(rng.normal(0.5, 0.3), 1.2, 3_040)
        chances = expit(a * theta[:, None] + d)
        right, seen = rng.binomial(1, chances[:, :40]), rng.random((20, 40)) >= hidden
        seen[10:] = True
        items = a[:40], d[:40]
        draws = [abilities_drawn(right, seen, items, rng), *(np.tile(x, (1000, 1)) for x in items)]
        posterior = made(*draws, right * seen, seen.astype(int))
        found = draw_scores(posterior, key=jax.random.key(seed)).population
        low, high = np.quantile(found, [0.05, 0.95], axis=0)
        truth = chances[:, 40:].mean(1)
        held = (low <= truth) & (truth <= high)
        of_some.append(held[:10].mean())
        of_all.append(held[10:].mean())
    assert np.mean(of_some) == pytest.approx(0.9, abs=5 * 0.01)
    assert np.mean(of_all) == pytest.approx(0.9, abs=5 * 0.01)


def test_few_easy_items_leave_ranks_by_score_open():
    """Subjects who get 93% of 30 items right: 5 standard errors of 0.6% over 200 tables."""
    rank_held, score_held = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        theta, a = rng.normal(size=20), np.exp(0.4 * rng.normal(size=3_030))
        chances = expit(a * theta[:, None] + rng.normal(3, 1, 3_030))
        draws = drawn_scores(rng.binomial(1, chances[:, :30]), rng)
        found, score = score_ranks(draws), chances.mean(1)
        rank, (low, high) = rankdata(-score, "min"), np.quantile(draws, [0.05, 0.95], axis=0)
        rank_held.append((found["score_rank_low"] <= rank) & (rank <= found["score_rank_high"]))
        score_held.append((low <= score) & (score <= high))
    assert np.mean(rank_held) > 0.9 - 5 * 0.006
    assert np.mean(score_held) == pytest.approx(0.9, abs=5 * 0.006)


def test_ranks_by_score_of_nearly_equal_subjects_are_held():
    """Abilities with a standard deviation of .1 and 100 items; 5 standard errors over 60 tables."""
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        theta, a = 0.1 * rng.normal(size=24), np.exp(0.3 * rng.normal(size=3_100))
        chances = expit(a * theta[:, None] + rng.normal(0, 1.2, 3_100))
        found = score_ranks(drawn_scores(rng.binomial(1, chances[:, :100]), rng))
        rank = rankdata(-chances.mean(1), "min")
        held.append(np.mean((found["score_rank_low"] <= rank) & (rank <= found["score_rank_high"])))
    assert np.mean(held) > 0.9 - 5 * np.std(held) / np.sqrt(60)
    assert np.mean(held) == pytest.approx(0.93, abs=0.04)


def test_ranks_by_scores_over_items_like_these_are_held():
    """At least 90% of 12 x 100 ranks are covered; the bound allows 5 standard errors of .9%."""
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=100)
        a, b = np.exp(0.3 * rng.normal(size=20_200)), rng.normal(size=20_200)
        chances = expit(a * (theta[:, None] - b))
        right = rng.binomial(1, chances[:, :200])
        found = score_ranks(drawn_scores(right, rng))
        rank = rankdata(-chances.mean(1), method="min")
        held.append((found["score_rank_low"] <= rank) & (rank <= found["score_rank_high"]))
    assert np.mean(held) > 0.9 - 5 * 0.009


@pytest.mark.parametrize("whole", [True, False], ids=["benchmarks", "items"])
def test_realised_scores_are_held_on_real_benchmarks(shared: Path, whole: bool):
    """The promised coverage is .85; for 90 subjects, 2 standard errors are 6%."""
    with np.load(shared / "data" / "metabench_joint5.npz", allow_pickle=False) as data:
        answers, benchmark = np.maximum(data["Y"], 0).astype(int), data["benchmark"]
    rng = np.random.default_rng(0)
    right = answers[rng.permutation(len(answers))[:300]]
    groups = benchmark if whole else None
    assert share_held(right, half_hidden(rng, right.shape, groups), 0) > 0.85 - 0.06

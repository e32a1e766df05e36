"""Intervals of suite scores have their nominal coverage.

Subjects are independent given the items, so the standard error of coverage follows from the spread
of subjects' own coverage; a check at 4 standard errors fails by chance 6 times in 100,000.
"""

import jax
import numpy as np
import pytest
from scipy.special import expit

from bayesirt.bank.suite.suite_scores import SuiteScores, measure_excess, predict_suite
from bayesirt.data.responses import Responses
from bayesirt.estimators.anchors import choose_anchors
from bayesirt.estimators.fixed_items import KnownItems

pytestmark = pytest.mark.statistical

N_SUBJECTS, N_ITEMS, N_ANCHORS = 400, 300, 15
NAMES = tuple(f"q{j:03}" for j in range(N_ITEMS))
BENCHMARKS = ["maths", "law", "code"] * (N_ITEMS // 3)
LEVEL = 0.9


def bank(error: float) -> KnownItems:
    rng = np.random.default_rng(0)
    a = 0.6 * rng.normal(size=(N_ITEMS, 2))
    a[:, 0] += 1
    spread = np.tile(error**2 * np.eye(3), (N_ITEMS, 1, 1))
    return KnownItems(NAMES, a, rng.normal(size=N_ITEMS), spread)


def simulated(items: KnownItems, error: float, misfit: float = 0.0, seed: int = 1) -> np.ndarray:
    """Draw answers; each subject has its own true item parameters, so subjects are independent."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(N_SUBJECTS, 2))
    eta = theta @ items.a.T + items.d
    eta += error * np.sqrt((theta**2).sum(1) + 1)[:, None] * rng.normal(size=eta.shape)
    eta += misfit * rng.normal(size=(N_SUBJECTS, 1)) * (np.arange(N_ITEMS) % 3 == 0)
    return (rng.uniform(size=eta.shape) < expit(eta)).astype(int)


def anchors_of(items: KnownItems, benchmarks: tuple[str, ...]) -> dict[str, dict[str, float]]:
    found = {}
    for name in benchmarks:
        own = items.select(np.flatnonzero([x == name for x in BENCHMARKS]))
        found[name] = choose_anchors(own, N_ANCHORS, how="design", key=jax.random.key(0)).named(own)
    return found


def only_anchors(right: np.ndarray, anchors: dict[str, dict[str, float]]) -> Responses:
    names = {name for own in anchors.values() for name in own}
    kept = np.flatnonzero([name in names for name in NAMES])
    return Responses.from_arrays(right, items=NAMES).select(np.arange(N_SUBJECTS), kept)


def held(scores: SuiteScores, right: np.ndarray) -> np.ndarray:
    """Return whether each interval contains the accuracy, shape (subject, benchmark)."""
    truth = right.reshape(N_SUBJECTS, -1, 3).mean(1)
    low, high = (scores.summary[x].to_numpy().reshape(N_SUBJECTS, 3) for x in ("low", "high"))
    return (low <= truth) & (truth <= high)


def off_by(held: np.ndarray) -> float:
    """Return how many standard errors the coverage lies above its nominal level."""
    own = held.reshape(len(held), -1).mean(1)
    return float((own.mean() - LEVEL) / (own.std(ddof=1) / np.sqrt(len(own))))


@pytest.mark.parametrize("error", [0.0, 0.6])
def test_intervals_of_accuracy(error: float):
    items = bank(error)
    right = simulated(items, error)
    anchors = anchors_of(items, ("maths", "law", "code"))
    answers = only_anchors(right, anchors)
    scores = predict_suite(items, BENCHMARKS, answers, anchors=anchors, key=jax.random.key(1))
    found = held(scores, right)
    print(f"error {error}: {found.mean():.3f} of intervals hold, {off_by(found):+.1f} SE")
    assert abs(off_by(found)) < 4

    table = scores.suite.set_index("subject").loc[list(answers.subjects)]
    truth = right.mean(1)
    suite = (table["low"] <= truth) & (truth <= table["high"])
    assert abs(off_by(suite.to_numpy())) < 4
    rank = 1 + (truth[:, None] < truth).sum(1)
    ranked = (table["rank_low"] <= rank) & (rank <= table["rank_high"])
    print(f"suite {suite.mean():.3f}, rank {ranked.mean():.3f}")
    assert off_by(ranked.to_numpy()) > -4


def test_a_benchmark_without_anchors_is_predicted_from_others():
    items = bank(0.0)
    right = simulated(items, 0.0)
    anchors = anchors_of(items, ("maths", "law"))
    answers = only_anchors(right, anchors)
    scores = predict_suite(items, BENCHMARKS, answers, anchors=anchors, key=jax.random.key(1))
    assert abs(off_by(held(scores, right)[:, 2])) < 4


def test_excess_makes_up_for_what_the_model_does_not_know():
    items = bank(0.0)
    anchors = anchors_of(items, ("maths", "law", "code"))
    reference = Responses.from_arrays(simulated(items, 0.0, 1.0, seed=2), items=NAMES)
    excess = measure_excess(items, BENCHMARKS, reference, anchors=anchors, key=jax.random.key(3))
    right = simulated(items, 0.0, 1.0)
    answers = only_anchors(right, anchors)
    plain, wider = (
        held(
            predict_suite(
                items, BENCHMARKS, answers, anchors=anchors, key=jax.random.key(1), excess=own
            ),
            right,
        )
        for own in (None, excess)
    )
    print(f"excess {excess['maths'].variance:.4f}: {plain.mean(0)} hold, then {wider.mean(0)}")
    assert plain[:, 0].mean() < 0.85
    assert abs(wider.mean() - LEVEL) < 0.03
    assert off_by(wider) > -4


def test_a_model_that_fits_has_hardly_any_excess():
    items = bank(0.0)
    anchors = anchors_of(items, ("maths", "law", "code"))
    reference = Responses.from_arrays(simulated(items, 0.0), items=NAMES)
    excess = measure_excess(items, BENCHMARKS, reference, anchors=anchors, key=jax.random.key(3))
    scores = predict_suite(
        items,
        BENCHMARKS,
        only_anchors(simulated(items, 0.0), anchors),
        anchors=anchors,
        key=jax.random.key(1),
    )
    variance = scores.draws.var(0).mean()
    for own in excess.values():
        assert own.variance < 4 * np.sqrt(2 / N_SUBJECTS) * variance

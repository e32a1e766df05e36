"""False alarms of a gate, also with repeated looks, and the coverage of its intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from bayesirt.bank.gate_history import through_bank
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.data.responses import Responses
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.ranking.paired_difference import Pairs, paired_difference
from bayesirt.ranking.sequential_evidence import Evidence, look_again


def pairs_of(baseline: np.ndarray, candidate: np.ndarray, runs: np.ndarray | int) -> Pairs:
    n = len(baseline)
    trials = np.broadcast_to(runs, (2, n)).astype(np.int64)
    return Pairs(
        [str(k) for k in range(n)],
        baseline / trials[0],
        candidate / trials[1],
        trials,
        np.arange(n),
    )


def rates(rng: np.random.Generator, n: int, drop: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return two similar subjects' probabilities of answering random questions correctly."""
    logit = rng.normal(1, 1.6, n)
    own = rng.normal(0, 0.5, (2, n)) - np.array([[0], [drop]])
    one, two = 1 / (1 + np.exp(-(logit + own)))
    return one, two


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "runs"), [(40, 1), (100, 3)])
def test_alarms_and_intervals(n: int, runs: int):
    """600 comparisons: at most 5% alarms (at 4 standard errors), and coverage of 86 to 95%."""
    rng = np.random.default_rng(7)
    alarms = held = mcnemar = 0
    for k in range(600):
        before, after = (rng.binomial(runs, p) for p in rates(rng, n))
        pairs = pairs_of(before, after, runs)
        found = paired_difference(pairs, n_draws=2000, seed=k)
        alarms += found.below(0) >= 0.95
        held += found.low <= 0 <= found.high
        lost, won = ((pairs.difference * s > 0).sum() for s in (-1, 1))
        mcnemar += binom.sf(lost - 1, lost + won, 0.5) <= 0.05
    print(f"{n} x {runs}: {alarms} alarms of 600 (McNemar {mcnemar}), held {held / 600:.3f}")
    assert alarms / 600 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)
    assert 0.86 < held / 600 < 0.95
    if runs == 1:
        assert abs(alarms - mcnemar) <= 6  # the same test, up to Monte Carlo error


@pytest.mark.statistical
def test_looking_five_times_raises_no_more_alarms():
    """300 comparisons of a model with itself; a t test at each of five looks alarms more often."""
    rng, shown, naive = np.random.default_rng(1), 0, 0
    for _ in range(300):
        right, found, evidence = np.zeros((2, 80)), False, Evidence("a", "b", 0.0, 0.95)
        p = rates(rng, 80)[0]
        for look in range(1, 6):
            right += rng.binomial(1, p, (2, 80))
            pairs = pairs_of(*right, look)
            evidence = look_again(evidence, pairs)
            x = pairs.difference
            found |= bool(x.std() > 0 and x.mean() / x.std(ddof=1) * np.sqrt(80) < -1.66)
        shown += evidence.shows("drop")
        naive += found
    print(f"alarms of 300: {shown}, by t at any look {naive}")
    assert shown <= 15
    assert naive > 24


@pytest.mark.statistical
def test_evidence_grows_where_the_candidate_is_worse():
    rng, shown = np.random.default_rng(2), 0
    for _ in range(100):
        right, evidence = np.zeros((2, 200)), Evidence("a", "b", 0.0, 0.95)
        p, q = rates(rng, 200, drop=0.8)
        for look in range(1, 6):
            right += np.stack([rng.binomial(1, p), rng.binomial(1, q)])
            evidence = look_again(evidence, pairs_of(*right, look))
        shown += evidence.shows("drop")
    assert shown > 90


@pytest.mark.statistical
def test_runs_of_agents_split_at_random_are_alike(shared):
    """Compare two of an agent's five runs of each task with two others: 83 agents, four splits."""
    table = pd.read_csv(shared / "data/beds/terminalbench_repeats.csv.gz")
    wide = {
        c: table.pivot(index="model", columns="item", values=c) for c in ("successes", "trials")
    }
    right, runs = (wide[c].fillna(0).to_numpy().astype(int) for c in ("successes", "trials"))
    rng, alarms, held, n = np.random.default_rng(0), 0, 0, 0
    for k in range(4):
        for y, t in zip(right, runs, strict=True):
            half, there = t // 2, t >= 2
            one = rng.hypergeometric(y, t - y, half)
            two = rng.hypergeometric(y - one, t - half - (y - one), half)
            pairs = pairs_of(one[there], two[there], np.stack([half, half])[:, there])
            found = paired_difference(pairs, n_draws=2000, seed=k)
            alarms += found.below(0) >= 0.95
            held += found.low <= 0 <= found.high
            n += 1
    print(f"{n} splits: alarms {alarms / n:.3f}, intervals hold {held / n:.3f}")
    assert alarms / n < 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)
    assert 0.87 < held / n < 0.94


@pytest.mark.statistical
def test_intervals_through_a_bank_hold():
    """150 equal and 150 unequal pairs, 60 known items: intervals cover the expected difference."""
    rng = np.random.default_rng(3)
    a, d = np.exp(0.4 * rng.normal(size=(60, 1))), rng.normal(0.5, 1.2, 60)
    names = tuple(f"q{k}" for k in range(60))
    known = KnownItems(names, a, d, np.tile(0.01 * np.eye(2), (60, 1, 1)))
    weights = np.where(np.arange(60) % 6 == 0, 0.1, np.nan)
    items = BankItems(known, ("maths",) * 60, weights)
    through = through_bank(ItemBank(1, (BankStep("create", items),)))
    held = alarms = 0
    for k in range(300):
        theta = rng.normal() - np.array([0.0, 0.4 * (k % 2)])
        p = 1 / (1 + np.exp(-(theta[:, None] * a[:, 0] + d)))
        right = rng.binomial(2, p)
        answers = Responses.from_arrays(
            right, np.full((2, 60), 2), subjects=["a", "b"], items=names
        )
        found = through(answers, "a", "b")
        held += found.quantile(0.05) <= (p[1] - p[0]).mean() <= found.quantile(0.95)
        alarms += k % 2 == 0 and found.below(0.0) >= 0.95
    print(f"held {held / 300:.3f}, alarms {alarms / 150:.3f}")
    assert 0.85 < held / 300 < 0.95
    assert alarms / 150 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)

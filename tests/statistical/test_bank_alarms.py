"""An honest bank hardly ever raises an alarm; leaked anchors and novel benchmarks do."""

from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom

from bayesirt import Responses
from bayesirt.bank.anchor_answers import AnchorGroups, Group, group_abilities
from bayesirt.bank.anchor_drift import anchor_drift
from bayesirt.bank.benchmark_drift import benchmark_drift
from bayesirt.bank.novelty import measure_novelty, novelty_alarms
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.mirt import fit_mirt

pytestmark = pytest.mark.statistical

N_BANKS, N_REFERENCE, N_RECENT, N_ITEMS = 60, 150, 40, 60
NAMES = tuple(f"q{j:02}" for j in range(N_ITEMS))
BENCHMARKS = np.repeat(np.array(["maths", "law", "code"], object), N_ITEMS // 3)
LEVEL = 0.05
FALSE_ALARM = 1e-6
"""Probability that a check below fails by chance."""


class Simulated(NamedTuple):
    """A bank calibrated on simulated answers, and its recent subjects."""

    groups: AnchorGroups
    honest: np.ndarray

    def leaked(self, anchor: int, n_subjects: int) -> AnchorGroups:
        y = self.groups.recent.successes.copy()
        y[:n_subjects, anchor] = 1
        return self.groups._replace(recent=self.groups.recent._replace(successes=y))


def simulated(seed: int, shift: float = 0.0) -> Simulated:
    """Calibrate two abilities on reference subjects; recent subjects' mean ability is shifted."""
    rng = np.random.default_rng(seed)
    a = 0.6 * rng.normal(size=(N_ITEMS, 2))
    a[:, 0] = 1 + a[:, 0] / 2
    d = 1.3 * rng.normal(size=N_ITEMS)
    groups = []
    for n, mean in ((N_REFERENCE, 0.0), (N_RECENT, shift)):
        theta = rng.normal(size=(n, 2)) + np.array([mean, 0])
        y = (rng.random((n, N_ITEMS)) < expit(theta @ a.T + d)).astype(int)
        groups.append(Group(tuple(f"{n} {i}" for i in range(n)), y, np.ones_like(y)))
    reference, recent = groups
    point = fit_mirt(Responses.from_arrays(reference.successes, items=NAMES), n_abilities=2)
    known = KnownItems.from_estimate(point)
    return Simulated(AnchorGroups(known, BENCHMARKS, recent, reference), recent.successes.mean(0))


def alarms(groups: AnchorGroups) -> list[str]:
    table = anchor_drift(groups, group_abilities(groups.recent, groups.items))
    return table.loc[table["alarm"], "item"].tolist()


@pytest.fixture(scope="module")
def banks() -> list[Simulated]:
    return [simulated(1000 + k, shift=k % 2) for k in range(N_BANKS)]


def test_any_alarm_for_an_anchor_of_an_honest_bank_is_rare(banks: list[Simulated]):
    found = sum(bool(alarms(bank.groups)) for bank in banks)
    print(f"{found} of {N_BANKS} honest banks raise an alarm for an anchor")
    assert found <= binom.isf(FALSE_ALARM, N_BANKS, LEVEL)


def test_any_alarm_for_a_benchmark_of_an_honest_bank_is_rare(banks: list[Simulated]):
    found = sum((benchmark_drift(bank.groups)["drift_p"] <= LEVEL).any() for bank in banks)
    print(f"{found} of {N_BANKS} honest banks raise an alarm for a benchmark")
    assert found <= binom.isf(FALSE_ALARM, N_BANKS, LEVEL)


def test_leaked_anchors_are_found(banks: list[Simulated]):
    """Half of the anchors leaked to half of the subjects are found, and 95% of those leaked to all.

    Leaked anchors have an honest proportion correct below half. In 400 other banks, with recent
    subjects from the reference population, 71% and 100% were found.
    """
    power = {}
    for n_subjects in (10, 20, 40):
        hit = []
        for k, bank in enumerate(banks):
            hard = np.flatnonzero(bank.honest < 0.5)
            anchor = int(hard[k % len(hard)])
            hit.append(NAMES[anchor] in alarms(bank.leaked(anchor, n_subjects)))
        power[n_subjects] = np.mean(hit)
    print(f"found where leaked to so many of {N_RECENT} subjects: {power}")
    assert N_BANKS * power[20] >= binom.ppf(FALSE_ALARM, N_BANKS, 0.5)
    assert N_BANKS * power[40] >= binom.ppf(FALSE_ALARM, N_BANKS, 0.95)


def novel(share: float, seed: int) -> tuple[Responses, KnownItems]:
    """Draw a new benchmark with a share of its squared slopes on an ability of its own."""
    rng = np.random.default_rng(seed)
    a = 0.6 * rng.normal(size=(N_ITEMS, 2))
    a[:, 0] = 1 + a[:, 0] / 2
    unknown = np.tile(0.01 * np.eye(3), (N_ITEMS, 1, 1))
    known = KnownItems(NAMES, a, rng.normal(size=N_ITEMS), unknown)
    theta, own = rng.normal(size=(N_REFERENCE, 3)), np.zeros((30, 3))
    own[:, [0, 2]] = 1.3 * np.sqrt([1 - share, share])
    eta = np.hstack([theta[:, :2] @ a.T + known.d, theta @ own.T + rng.normal(size=30)])
    right = (rng.random(eta.shape) < expit(eta)).astype(int)
    return Responses.from_arrays(right, items=[*NAMES, *(f"new {j}" for j in range(30))]), known


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_benchmark_with_an_ability_of_its_own_is_told_from_one_without(share: float):
    n_times, found = 10, 0
    for seed in range(n_times):
        figures = measure_novelty(*novel(share, seed), key=jax.random.key(seed))
        assert figures["n_held_out"] == N_REFERENCE // 5 * (N_ITEMS + 30)
        assert figures["shared_log_score"] < 0
        found += len(novelty_alarms(pd.DataFrame(figures, ["new"])))
    print(f"{found} of {n_times} alarms where {share:.0%} of the slopes are on an own ability")
    if share:
        assert found >= binom.ppf(FALSE_ALARM, n_times, 0.9)
    else:
        assert found <= binom.isf(FALSE_ALARM, n_times, LEVEL)

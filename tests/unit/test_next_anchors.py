"""Adaptive anchors: gains against closed forms, and the report for a subject."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.next_anchors import suggest_anchors
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.bank.suite.next_items import SuiteItems, choose_adaptively, prospects
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.inference.ability_belief import Answers
from bayesirt.likelihood.cell_sums import DenseLayout

KEY = jax.random.key(3)
N_ITEMS = 24
BENCHMARKS = np.array(["maths"] * 16 + ["law"] * 8, object)


def known(k: int = 2, error: float = 0.0, seed: int = 0) -> KnownItems:
    rng = np.random.default_rng(seed)
    a = 0.8 + 0.5 * rng.normal(size=(N_ITEMS, k))
    spread = np.tile(error**2 * np.eye(k + 1), (N_ITEMS, 1, 1))
    return KnownItems(
        tuple(f"q{j:02}" for j in range(N_ITEMS)), a, rng.normal(size=N_ITEMS), spread
    )


def layout(n_subjects: int = 3, n_answered: int = 0, seed: int = 1) -> DenseLayout:
    rng = np.random.default_rng(seed)
    trials = np.zeros((n_subjects, N_ITEMS), int)
    trials[:, :n_answered] = 1
    return DenseLayout(jnp.asarray(rng.integers(0, 2, trials.shape) * trials), jnp.asarray(trials))


@pytest.mark.parametrize("error", [0.0, 0.4])
def test_gain_and_variance_are_their_formulas(error: float):
    items = known(error=error)
    suite, answers = SuiteItems.of(items, BENCHMARKS), layout(2, 5)
    found = prospects(suite, answers, key=KEY, n_draws=4)
    shares = np.where(BENCHMARKS == "maths", 1 / 32, 1 / 16)
    noise = np.asarray(jax.random.normal(KEY, (4, 2), jnp.result_type(float)))
    mean, spread = (np.asarray(x) for x in found.abilities)
    for i in range(2):
        root, one = np.linalg.cholesky(spread[i]), np.append(mean[i], 1)
        s = np.array([one @ c @ one for c in items.covariance])
        variance, gain, p_right = 0.0, np.zeros(N_ITEMS), np.zeros(N_ITEMS)
        for z in noise:
            p = expit((mean[i] + root @ z) @ items.a.T + items.d)
            w = p * (1 - p)
            g = sum(shares[j] * w[j] * items.a[j] for j in range(5, N_ITEMS))
            variance += g @ spread[i] @ g / 4
            for j in range(N_ITEMS):
                told, v = w[j] / (1 + w[j] * s[j]), spread[i] @ items.a[j]
                gain[j] += told * (g @ v) ** 2 / (1 + told * items.a[j] @ v) / 4
                gain[j] += shares[j] ** 2 * w[j] / 4
                if j >= 5:
                    variance += shares[j] ** 2 * (w[j] + w[j] ** 2 * s[j]) / 4
            p_right += p / 4
        assert found.variance[i] == pytest.approx(variance)
        assert found.gain[i, 5:] == pytest.approx(gain[5:])
        assert (found.gain[i, :5] == -1).all()
        seen = np.asarray(answers.successes)[i, :5]
        assert found.score[i] == pytest.approx(shares[:5] @ seen + shares[5:] @ p_right[5:])


def test_whoever_answered_everything_is_known_exactly():
    answers = layout(3, N_ITEMS)
    found = prospects(SuiteItems.of(known(error=0.5), BENCHMARKS), answers, key=KEY)
    shares = np.where(BENCHMARKS == "maths", 1 / 32, 1 / 16)
    assert found.score == pytest.approx(np.asarray(answers.successes) @ shares)
    assert found.variance == pytest.approx(np.zeros(3), abs=1e-15)


def test_asking_one_after_another_is_asking_for_the_best_each_time():
    suite, answers = SuiteItems.of(known(), BENCHMARKS), layout(3, N_ITEMS)
    order = np.asarray(choose_adaptively(suite, answers, 4, key=KEY))
    asked = np.zeros((3, N_ITEMS), int)
    for k in range(4):
        so_far = DenseLayout(answers.successes * asked, answers.trials * asked)
        gain = prospects(suite, so_far, key=KEY).gain
        assert order[:, k].tolist() == np.asarray(gain).argmax(1).tolist()
        asked[np.arange(3), order[:, k]] = 1


def test_only_items_that_can_be_answered_are_asked():
    order = choose_adaptively(SuiteItems.of(known(), BENCHMARKS), layout(3, 6), 6, key=KEY)
    assert np.sort(order, axis=1).tolist() == [list(range(6))] * 3


def test_adaptive_answers_tell_more_than_as_many_others():
    rng = np.random.default_rng(5)
    items = known(k=1)
    theta = rng.normal(size=(60, 1))
    right = rng.uniform(size=(60, N_ITEMS)) < expit(theta @ items.a.T + items.d)
    suite, full = SuiteItems.of(items, BENCHMARKS), np.ones(right.shape, int)
    order = choose_adaptively(suite, DenseLayout(right.astype(int), full), 8, key=KEY)
    left = {}
    for name, chosen in (
        ("adaptive", order),
        ("others", np.argsort(rng.random(right.shape))[:, :8]),
    ):
        trials = np.zeros(right.shape, int)
        np.put_along_axis(trials, np.asarray(chosen), 1, 1)
        found = prospects(
            suite, DenseLayout(jnp.asarray(right * trials), jnp.asarray(trials)), key=KEY
        )
        left[name] = float(np.mean(found.variance))
    assert left["adaptive"] < 0.8 * left["others"]


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    weights = np.full(N_ITEMS, np.nan)
    weights[[0, 1, 16]] = 0.5, 0.5, 1
    items = BankItems(known(error=0.2), tuple(BENCHMARKS), weights)
    kept = pd.DataFrame(
        {"subject": "old", "item": ["q00", "q16"], "successes": [1, 0], "trials": 1}
    )
    figures = {"variance": 0.002, "p_irt_error": 0.05, "response_variance": 0.2, "n_subjects": 90.0}
    excess = {"maths": figures, "law": figures}
    return ItemBank(2, (BankStep("create", items, answers=kept, figures=excess),))


def given(*item: int) -> Answers:
    return Answers(
        np.array(item, np.int32), np.zeros(len(item), int), np.ones(len(item), int), None
    )


def test_a_subject_that_has_not_begun_gets_a_first_item(bank: ItemBank):
    (found,) = suggest_anchors(bank, key=KEY).values()
    assert len(found.summary) == N_ITEMS
    assert found.summary["sd"].is_monotonic_increasing
    assert found.summary["anchor"].sum() == 3
    assert "before any answer" in found.so_far.to_text()
    assert found.to_text().startswith(f"Next: {found.summary['item'][0]} of ")


def test_the_error_beyond_the_model_is_in_the_interval(bank: ItemBank):
    (found,) = suggest_anchors(bank, key=KEY).values()
    plain = prospects(SuiteItems.of(bank.items, BENCHMARKS), layout(1), key=KEY)
    assert found.so_far.sd**2 == pytest.approx(float(plain.variance[0]) + 2 * 0.002 / 4)


def test_kept_answers_count_once(bank: ItemBank):
    found = suggest_anchors(bank, {"old": given(16, 3)}, key=KEY)["old"]
    assert found.so_far.n_answers == 3
    assert not found.summary["item"].isin(["q00", "q16", "q03"]).any()
    assert suggest_anchors(bank, key=KEY, subject="old")["old"].so_far.n_answers == 2


def test_enough_is_said_to_be_enough(bank: ItemBank):
    found = suggest_anchors(bank, {"x": given(*range(20))}, key=KEY)["x"]
    width = found.so_far.high - found.so_far.low
    assert "so stop" in found.so_far.to_text(width * 1.01)
    assert found.to_text(width * 1.01) == ""
    assert "continue" in found.so_far.to_text(width * 0.99)
    with pytest.raises(ResponseError, match="width"):
        found.so_far.stops(0)


def test_what_cannot_be_is_refused(bank: ItemBank):
    with pytest.raises(ResponseError, match="no answers from subject 'y'; the subjects are 'x'"):
        suggest_anchors(bank, {"x": given(1)}, key=KEY, subject="y")
    with pytest.raises(ResponseError, match="'x' has answered all 24 items"):
        suggest_anchors(bank, {"x": given(*range(N_ITEMS))}, key=KEY)
    with pytest.raises(ResponseError, match="'old' answered item 'q00' differently"):
        suggest_anchors(bank, {"old": given(0)}, key=KEY)

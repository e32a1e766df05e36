"""Review of an item bank: anchors with their own cell left out, benchmarks, and the report."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from bank_data import items_step, score_step
from scipy.special import expit
from scipy.stats import binom

from bayesirt import Responses
from bayesirt.bank.alarms import holm
from bayesirt.bank.anchor_answers import (
    AnchorGroups,
    Group,
    anchor_groups,
    group_abilities,
    group_of,
)
from bayesirt.bank.anchor_drift import anchor_alarms, anchor_drift, not_answered
from bayesirt.bank.benchmark_drift import benchmark_alarms, benchmark_drift
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.novelty import novelty, novelty_alarms
from bayesirt.bank.reference_subjects import reference_alarms, reference_subjects
from bayesirt.bank.review import BankReview, review_bank
from bayesirt.bank.saturation import saturation, saturation_alarms
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import Abilities, Items, Normal
from bayesirt.estimators.subject_scores import posterior_of
from bayesirt.likelihood.cell_sums import DenseLayout

KEY = jax.random.key(0)
N_RECENT, N_REFERENCE, N_ANCHORS, N_ABILITIES = 20, 60, 36, 2
BENCHMARKS = np.repeat(np.array(["maths", "law", "code"], object), N_ANCHORS // 3)
STANDARD = Normal(jnp.zeros(N_ABILITIES), jnp.eye(N_ABILITIES))


def items_of(error: float = 0.0, seed: int = 0) -> KnownItems:
    rng = np.random.default_rng(seed)
    a = 0.5 * rng.normal(size=(N_ANCHORS, N_ABILITIES))
    a[:, 0] += 1.2
    covariance = np.tile(error**2 * np.eye(N_ABILITIES + 1), (N_ANCHORS, 1, 1))
    return KnownItems(
        tuple(f"q{j:02}" for j in range(N_ANCHORS)), a, rng.normal(size=N_ANCHORS), covariance
    )


def group(n: int, seed: int, trials: int = 1, mean: float = 0.0) -> Group:
    rng = np.random.default_rng(seed)
    items, theta = items_of(), rng.normal(size=(n, N_ABILITIES))
    theta[:, 0] += mean
    n_ij = np.full((n, N_ANCHORS), trials)
    y = rng.binomial(n_ij, expit(theta @ items.a.T + items.d))
    return Group(tuple(f"{seed} {i}" for i in range(n)), y, n_ij)


RECENT, REFERENCE = group(N_RECENT, 1), group(N_REFERENCE, 2)


def groups_of(recent: Group = RECENT, error: float = 0.0) -> AnchorGroups:
    return AnchorGroups(items_of(error), BENCHMARKS, recent, REFERENCE)


def leaked(anchors: np.ndarray, recent: Group = RECENT) -> Group:
    y = recent.successes.copy()
    y[:, anchors] = recent.trials[:, anchors]
    return recent._replace(successes=y)


def test_holm_rejects_step_by_step():
    p = np.array([[0.012, 0.04], [np.nan, 0.5]])
    np.testing.assert_allclose(holm(p), [[0.036, 0.08], [np.nan, 0.5]])
    np.testing.assert_allclose(holm(np.array([0.5, 0.5, 0.4])), [1, 1, 1])
    assert np.isnan(holm(np.array([np.nan]))).all()


def test_expected_answers_are_those_of_a_fit_without_the_cell():
    """Compare the closed form with one refitted posterior per anchor."""
    items = items_of()
    given = Items(jnp.asarray(items.a), jnp.asarray(items.d))
    y, n = (jnp.asarray(x) for x in RECENT[1:])
    table = anchor_drift(groups_of(), posterior_of(DenseLayout(y, n), given, STANDARD))
    found = table.set_index("item").loc[list(items.names), "expected"]
    points, weights = np.polynomial.hermite_e.hermegauss(21)
    expected, with_cell = np.empty((2, N_ANCHORS))
    for j in range(N_ANCHORS):
        for into, kept in ((expected, n.at[:, j].set(0)), (with_cell, n)):
            belief = posterior_of(DenseLayout(y * (kept > 0), kept), given, STANDARD)
            mean, covariance = map(np.asarray, belief)
            sd = np.sqrt(np.einsum("k,ikl,l->i", items.a[j], covariance, items.a[j]))
            eta = (mean @ items.a[j] + items.d[j])[:, None] + sd[:, None] * points
            into[j] = (expit(eta) @ weights / weights.sum()).mean()
    np.testing.assert_allclose(found, expected, atol=0.004)
    assert np.abs(found - with_cell).max() > 0.02


def known_abilities(recent: Group, seed: int = 1) -> tuple[Abilities, np.ndarray]:
    """Return abilities that are known exactly."""
    theta = np.random.default_rng(seed).normal(size=(len(recent.subjects), N_ABILITIES))
    shape = (len(theta), N_ABILITIES, N_ABILITIES)
    return Abilities(jnp.asarray(theta), jnp.full(shape, 1e-12) * jnp.eye(N_ABILITIES)), theta


@pytest.mark.parametrize("trials", [1, 3])
def test_of_known_abilities_and_items_numbers_right_are_sums_of_binomials(trials: int):
    recent = group(N_RECENT, 1, trials)
    abilities, theta = known_abilities(recent)
    items = items_of()
    table = anchor_drift(groups_of(recent), abilities).set_index("item").loc[list(items.names)]
    p, n, y = expit(theta @ items.a.T + items.d), recent.trials, recent.successes
    np.testing.assert_allclose(table["expected"], p.mean(0), rtol=1e-6)
    sd = np.sqrt((n * p * (1 - p)).sum(0)) / n.sum(0)
    np.testing.assert_allclose(table["drift"], y.sum(0) / n.sum(0) - p.mean(0), rtol=1e-6)
    wide = np.minimum(table["drift"] + 1.6449 * sd, 1 - p.mean(0))
    np.testing.assert_allclose(table["high"], wide, rtol=1e-3)
    for j in range(3):
        chances = np.ones(1)
        for i in range(N_RECENT):
            chances = np.convolve(chances, binom.pmf(np.arange(trials + 1), trials, p[i, j]))
        s, row = y[:, j].sum(), table.iloc[j]
        assert row["p_better"] == pytest.approx(chances[s:].sum(), rel=1e-5)
        assert row["p_worse"] == pytest.approx(chances[: s + 1].sum(), rel=1e-5)


def test_errors_of_items_are_shared_by_all_subjects():
    """Compare tail probabilities with a plain average over draws of the item."""
    abilities, theta = known_abilities(RECENT)
    items = items_of(0.4)
    table = anchor_drift(groups_of(error=0.4), abilities).set_index("item")
    rng, n_draws = np.random.default_rng(0), 4000
    for j in range(3):
        off = 0.4 * rng.normal(size=(n_draws, N_ABILITIES + 1))
        p = expit(theta @ (items.a[j] + off[:, :-1]).T + items.d[j] + off[:, -1]).T
        right = (rng.random((50, *p.shape)) < p).sum(2)
        s = RECENT.successes[:, j].sum()
        error = 4 * np.sqrt(0.25 / n_draws)  # fails 6 times in 100,000 by Monte Carlo error alone
        row = table.loc[items.names[j]]
        assert row["p_better"] == pytest.approx((right >= s).mean(), abs=error)
        assert row["p_worse"] == pytest.approx((right <= s).mean(), abs=error)
        assert row["expected"] == pytest.approx(p.mean(), abs=0.01)


def test_a_leaked_anchor_is_found_and_a_changed_one_too():
    y = leaked(np.array([5])).successes
    y[:, 17] = 0
    recent = RECENT._replace(successes=y)
    table = anchor_drift(groups_of(recent), group_abilities(recent, items_of()))
    assert set(table["item"].iloc[:2]) == {"q05", "q17"}
    assert table["alarm"].sum() == 2
    alarms = {alarm.item: alarm for alarm in anchor_alarms(table)}
    assert "better than calibrated: 100% of 20 recent answers are right" in alarms["q05"].sentence
    assert "worse than calibrated: 0% of 20" in alarms["q17"].sentence
    assert alarms["q17"][:2] == ("anchor", BENCHMARKS[17])


def test_anchors_of_other_benchmarks_are_judged_without_one_that_leaked():
    law, items = BENCHMARKS == "law", items_of()
    recent = leaked(np.flatnonzero(law))
    abilities = group_abilities(recent, items)
    whole, apart = (
        anchor_drift(groups_of(recent), abilities, drifting=drifting).set_index("item")
        for drifting in ((), ("law",))
    )
    names = np.array(items.names)
    pd.testing.assert_series_equal(
        apart.loc[names[law], "p_better"], whole.loc[names[law], "p_better"]
    )
    only = recent.only(~law)
    alone = anchor_drift(groups_of(only), group_abilities(only, items)).set_index("item")
    expected = alone.loc[names[~law], "expected"]
    pd.testing.assert_series_equal(apart.loc[names[~law], "expected"], expected)
    assert (whole.loc[names[~law], "expected"] > expected).mean() > 0.9


def test_anchors_that_nobody_answered_are_not_tested():
    n = RECENT.trials.copy()
    n[:, 3] = 0
    recent = RECENT._replace(trials=n, successes=RECENT.successes * n)
    table = anchor_drift(groups_of(recent), group_abilities(recent, items_of()))
    row = table.iloc[-1]
    assert (row["item"], row["n_recent"], row["alarm"]) == ("q03", 0, False)
    assert row[["observed", "expected", "p", "p_better"]].isna().all()
    nobody = Group((), np.zeros((0, N_ANCHORS), int), np.zeros((0, N_ANCHORS), int))
    table = not_answered(groups_of(nobody))
    assert not table["alarm"].any()
    assert table["p"].isna().all()


def test_a_group_is_placed_in_a_population_of_its_own():
    able = group(N_REFERENCE, 5, mean=2.0)
    few = able.only(np.arange(N_ANCHORS) < 2)
    found = np.asarray(group_abilities(few, items_of()).mean)
    layout = DenseLayout(jnp.asarray(few.successes), jnp.asarray(few.trials))
    items = items_of()
    given = Items(jnp.asarray(items.a), jnp.asarray(items.d))
    old = np.asarray(posterior_of(layout, given, STANDARD).mean)
    assert found[:, 0].mean() > old[:, 0].mean() + 0.3
    whole = np.asarray(group_abilities(able, items).mean)
    assert whole[:, 0].mean() == pytest.approx(2, abs=4 / np.sqrt(N_REFERENCE))


def test_a_leaked_benchmark_is_found_and_the_others_are_not_blamed():
    own = np.flatnonzero((BENCHMARKS == "law") & (np.arange(N_ANCHORS) % 2 == 0))
    table = benchmark_drift(groups_of(leaked(own)))
    assert list(table.index) == ["maths", "law", "code"]
    assert table["n_compared"].tolist() == [N_RECENT] * 3
    (alarm,) = benchmark_alarms(table)
    assert alarm[:3] == ("benchmark", "law", None)
    assert "better on its anchors than their answers to other benchmarks predict" in alarm.sentence
    assert table.loc["law", "drift_low"] > 0
    assert not benchmark_alarms(benchmark_drift(groups_of()))


@pytest.mark.parametrize("kept", ["one benchmark", "two subjects"])
def test_benchmarks_that_cannot_be_compared_are_not(kept: str):
    recent = RECENT._replace(trials=RECENT.trials.copy())
    if kept == "one benchmark":
        recent = recent.only(BENCHMARKS == "law")
    else:
        recent.trials[2:, BENCHMARKS != "law"] = 0
    table = benchmark_drift(groups_of(recent))
    assert table["drift_p"].isna().all()
    assert not benchmark_alarms(table)


def bank_of(
    recent: Group | None = RECENT, *, d: float = 0.0, figures: dict[str, float] | None = None
) -> ItemBank:
    """Return a bank of two benchmarks and an added one, each with an item that is not an anchor."""
    items = items_of()
    items = KnownItems(items.names, items.a, items.d + d, items.covariance)

    def part(benchmarks: tuple[str, ...], positions: np.ndarray) -> BankItems:
        own = BENCHMARKS[positions]
        weights = np.full(len(own), np.nan)
        for name in benchmarks:
            at = np.flatnonzero(own == name)[1:]
            weights[at] = 1 / len(at)
        return BankItems(items.select(positions), tuple(own), weights)

    def answers(group: Group, positions: np.ndarray) -> pd.DataFrame:
        rows = Responses.from_arrays(
            group.successes, group.trials, subjects=group.subjects, items=items.names
        ).to_long()
        anchors = [items.names[j] for j in positions if j % (N_ANCHORS // 3)]
        return rows[rows["item"].isin(anchors)]

    first, last = np.arange(2 * N_ANCHORS // 3), np.arange(2 * N_ANCHORS // 3, N_ANCHORS)
    everything = np.append(first, last)
    steps = [
        BankStep("create", part(("maths", "law"), first), answers=answers(REFERENCE, first)),
        BankStep(
            "add",
            part(("code",), last),
            answers=answers(REFERENCE, everything),
            figures={"code": figures or {}},
        ),
    ]
    if recent is not None:
        row = {"benchmark": "maths", "accuracy": 0.5, "low": 0.4, "high": 0.6}
        scores = pd.DataFrame([{"subject": name, **row} for name in recent.subjects])
        steps.append(BankStep("score", answers=answers(recent, everything), scores=scores))
    return ItemBank(N_ABILITIES, tuple(steps))


def test_recent_subjects_are_those_that_were_scored_and_nothing_else():
    groups = anchor_groups(bank_of())
    assert set(groups.recent.subjects) == set(RECENT.subjects)
    assert set(groups.reference.subjects) == set(REFERENCE.subjects)
    assert len(groups.items.names) == N_ANCHORS - 3
    at = [items_of().names.index(name) for name in groups.items.names]
    assert groups.benchmarks.tolist() == BENCHMARKS[at].tolist()
    rows = [groups.recent.subjects.index(name) for name in RECENT.subjects]
    np.testing.assert_array_equal(groups.recent.successes[rows], RECENT.successes[:, at])
    again = BankStep("score", answers=bank_of().steps[0].answers, scores=score_step("law").scores)
    both = ItemBank(N_ABILITIES, (*bank_of(None).steps, again))
    assert not anchor_groups(both).recent.subjects


def test_reference_subjects_are_counted_where_they_answered_known_anchors_too():
    counts = reference_subjects(bank_of())["n_reference"]
    assert counts.to_dict() == {"maths": 60.0, "law": 60.0, "code": 60.0}
    assert len(reference_alarms(reference_subjects(bank_of()))) == 3
    create, add = bank_of(None).steps
    few = add.answers[
        add.answers["subject"].isin(REFERENCE.subjects[:7])
        | ~add.answers["item"].isin(create.answers["item"])
    ]
    alone = ItemBank(N_ABILITIES, (create, BankStep("add", add.items, answers=few)))
    counts = reference_subjects(alone)
    assert counts["n_reference"].to_dict() == {"maths": 60.0, "law": 60.0, "code": 7.0}
    assert reference_alarms(counts)[-1].sentence.startswith("code was calibrated with 7 reference")
    assert not reference_alarms(counts.assign(n_reference=[100.0, np.nan, 101.0]))


def test_easy_benchmarks_are_saturated_for_the_best():
    abilities = group_abilities(REFERENCE, items_of())
    table = saturation(bank_of(d=4.0), abilities, key=KEY)
    assert (table["n_best"] == 6).all()
    assert (table["p_saturated"] == 1).all()
    assert (table["easy_share"] > 0.8).all()
    alarms = saturation_alarms(table)
    assert [alarm.benchmark for alarm in alarms] == ["maths", "law", "code"]
    hard = saturation(bank_of(d=-1.0), abilities, key=KEY)
    assert not saturation_alarms(hard)
    items, theta = items_of(), np.asarray(abilities.mean)
    p = expit(theta @ items.a.T + items.d - 1).reshape(N_REFERENCE, 3, -1).mean(2)
    best = np.argsort(-p.mean(1))[:6]
    np.testing.assert_allclose(hard["best_accuracy"], p[best].mean(0), atol=0.03)


def test_novelty_is_that_of_the_step_and_needs_a_clear_lead():
    figures = {"n_held_out": 99.0, "own_ahead": 5.0, "own_ahead_se": 3.0}
    table = novelty(bank_of(figures=figures))
    assert table.loc[["maths", "law"]].isna().all(axis=None)
    (alarm,) = novelty_alarms(table)
    assert alarm.benchmark == "code"
    assert "by 5 (standard error 3)" in alarm.sentence
    assert not novelty_alarms(table.assign(own_ahead_se=4.0))
    assert not novelty_alarms(table.assign(own_ahead=0.9, own_ahead_se=0.0))


@pytest.fixture(scope="module")
def review() -> BankReview:
    return review_bank(bank_of(leaked(np.array([5]))), key=KEY)


def test_a_review_says_what_was_seen(review: BankReview):
    assert review.n_recent == N_RECENT
    kinds = [alarm.kind for alarm in review.alarms]
    assert kinds == ["anchor", "reference", "reference", "reference"]
    assert review.anchors["item"].iloc[0] == "q05"
    lines = review.to_text().splitlines()
    assert lines[0] == "4 alarms from answers of 20 recent subjects to 33 anchors."
    assert lines[1:] == [alarm.sentence for alarm in review.alarms]
    table = review.benchmarks
    assert table["benchmark"].tolist() == ["maths", "law", "code"]
    assert table["n_alarms"].tolist() == [2, 1, 1]
    assert table["n_items"].tolist() == [12] * 3
    assert table["n_anchors"].tolist() == [11] * 3
    assert table["n_compared"].tolist() == [N_RECENT] * 3
    assert "20 recent subjects, 4 alarms" in repr(review)


def test_the_same_key_gives_the_same_review(review: BankReview):
    again = review_bank(bank_of(leaked(np.array([5]))), key=KEY)
    assert again.alarms == review.alarms
    pd.testing.assert_frame_equal(again.anchors, review.anchors)
    pd.testing.assert_frame_equal(again.benchmarks, review.benchmarks)


def test_a_bank_without_recent_subjects_says_so():
    told: list[str] = []
    found = review_bank(bank_of(None), key=KEY, announce=told.append)
    assert told == ["comparing 0 recent subjects with 60 reference subjects"]
    assert found.n_recent == 0
    assert {alarm.kind for alarm in found.alarms} == {"reference"}
    assert "No recent subjects" in found.headline
    only_items = ItemBank(2, (items_step("maths", answers=None, subjects=None),))
    found = review_bank(only_items, key=KEY)
    assert found.headline.startswith("No alarm. No recent subjects")
    assert found.benchmarks.loc[0, "p_saturated":].isna().all()


def test_what_cannot_be_compared_is_said(review: BankReview):
    alone = BankReview(review.anchors, review.benchmarks.iloc[:1], 20, review.alarms[:1])
    assert alone.headline.startswith("1 alarm from")
    assert "cannot be checked without another" in alone.headline
    apart = BankReview(review.anchors, review.benchmarks.assign(drift_p=np.nan), 1, ())
    assert apart.headline.startswith("No alarm from answers of 1 recent subject to")
    assert "Too few subjects answered several benchmarks" in apart.headline


def test_answers_become_matrices():
    rows = pd.DataFrame([("b", "y", 1, 2), ("a", "x", 0, 1)],
                        columns=["subject", "item", "successes", "trials"])  # fmt: skip
    found = group_of(rows, ["x", "y"])
    assert found.subjects == ("b", "a")
    assert found.trials.tolist() == [[0, 2], [1, 0]]
    some = group_of(rows, ["x", "y"], ["a", "b", "c"])
    assert some.successes.tolist() == [[0, 0], [0, 1], [0, 0]]

"""Predicted suite scores against closed forms, and their invariances."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayesirt.bank.suite.draws import UnseenAnswers
from bayesirt.bank.suite.excess import excess_covariance
from bayesirt.bank.suite.suite_scores import Excess, SuiteScores, measure_excess, predict_suite
from bayesirt.bank.suite.summaries import Seen, accuracy_draws, more_anchors
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import Abilities
from bayesirt.estimators.subject_scores import score_subjects

KEY = jax.random.key(5)
N_SUBJECTS, N_ITEMS = 12, 48
BENCHMARKS = ["maths", "law", "code"] * 16


def bank(n_items: int = N_ITEMS, k: int = 2, error: float = 0.0, seed: int = 0) -> KnownItems:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n_items, k)) * 0.4
    a[:, 0] += 1
    names = tuple(f"q{j:03}" for j in rng.permutation(n_items))
    spread = np.tile(error**2 * np.eye(k + 1), (n_items, 1, 1))
    return KnownItems(names, a, rng.normal(size=n_items), spread)


def answers_to(items: KnownItems, n_answered: int, n_subjects: int = N_SUBJECTS) -> Responses:
    rng = np.random.default_rng(7)
    theta = rng.normal(size=(n_subjects, items.n_abilities))
    right = rng.uniform(size=(n_subjects, len(items.names))) < expit(theta @ items.a.T + items.d)
    full = Responses.from_arrays(right.astype(int), items=items.names)
    return full.select(np.arange(n_subjects), np.arange(n_answered))


ANCHORS = {
    name: {bank().names[j]: 1 / 4 for j in range(b, 12, 3)}
    for b, name in enumerate(("maths", "law", "code"))
}
MISFIT = {name: Excess(0.003, 0.05, 0.2) for name in ("maths", "law", "code")}


def predicted(items: KnownItems, answers: Responses, **options: object) -> SuiteScores:
    chosen = {"anchors": ANCHORS, "key": KEY, "n_draws": 100, **options}
    return predict_suite(items, BENCHMARKS, answers, **chosen)  # type: ignore[arg-type]


def test_what_was_answered_in_full_is_exact():
    answers = answers_to(bank(error=0.3), N_ITEMS)
    scores = predicted(bank(error=0.3), answers, excess=MISFIT)
    share = answers.cells.matrices()[0].reshape(N_SUBJECTS, -1, 3).mean(1)
    table = scores.summary
    for column in ("accuracy", "low", "high", "p_irt"):
        assert table[column].to_numpy() == pytest.approx(share.ravel(), abs=1e-12)
    assert np.ptp(scores.draws, axis=0).max() == 0
    assert (scores.suite["more_anchors"] == 0).all()
    best = share.mean(1).max()
    assert scores.suite.loc[0, "score"] == pytest.approx(best)
    assert (scores.suite["rank"] == scores.suite["rank_high"]).all()
    assert "answered everything" in scores.to_text()


@pytest.mark.parametrize("error", [0.0, 0.6])
def test_one_ability_agrees_with_quadrature(error: float):
    items, n_seen = bank(k=1, error=error), 8
    answers = answers_to(items, n_seen)
    draws = 4000
    scores = predict_suite(items, ["all"] * N_ITEMS, answers, anchors={}, key=KEY, n_draws=draws)
    theta = np.linspace(-6, 6, 401)
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    off = error * np.sqrt(theta**2 + 1)[:, None, None] * nodes
    chances = expit((np.outer(theta, items.a[:, 0]) + items.d)[:, :, None] + off)
    p = chances @ (weights / weights.sum())
    right = answers.cells.matrices()[0]
    for i in range(N_SUBJECTS):
        seen = np.where(right[i], p[:, :n_seen], 1 - p[:, :n_seen]).prod(1)
        posterior = np.exp(-(theta**2) / 2) * seen
        posterior /= posterior.sum()
        number = p[:, n_seen:].sum(1)
        mean = posterior @ number
        chance = posterior @ (p * (1 - p))[:, n_seen:].sum(1)
        variance = posterior @ (number - mean) ** 2 + chance
        row = scores.summary.iloc[i]
        sd = np.sqrt(variance) / N_ITEMS
        assert row["accuracy"] == pytest.approx(
            (right[i].sum() + mean) / N_ITEMS, abs=5 * sd / np.sqrt(draws)
        )
        found = scores.draws[:, i, 0].std()
        assert found == pytest.approx(sd, rel=5 / np.sqrt(2 * draws))


@pytest.mark.parametrize("error", [0.0, 0.2])
def test_the_order_of_subjects_items_and_benchmarks_does_not_matter(error: float):
    items, answers = bank(error=error), answers_to(bank(), 12)
    first = predicted(items, answers, excess=MISFIT)
    rng = np.random.default_rng(2)
    rows, columns, order = (rng.permutation(n) for n in (N_SUBJECTS, 12, N_ITEMS))
    moved = predict_suite(
        items.select(order),
        [BENCHMARKS[j] for j in order],
        answers.select(rows, columns),
        anchors=dict(reversed(ANCHORS.items())),
        excess=MISFIT,
        key=KEY,
        n_draws=100,
    )
    index = ["subject", "benchmark"]
    one, other = (x.summary.set_index(index).sort_index() for x in (first, moved))
    pd.testing.assert_frame_equal(one, other, rtol=1e-9)
    pd.testing.assert_frame_equal(first.suite, moved.suite, rtol=1e-9)
    places = [moved.benchmarks.index(name) for name in first.benchmarks]
    np.testing.assert_allclose(moved.draws[:, :, places], first.draws[:, rows], rtol=1e-9)
    np.testing.assert_allclose(moved.abilities.theta, first.abilities.theta[rows], atol=1e-7)


def test_point_predictions_are_the_papers():
    items, answers = bank(), answers_to(bank(), 12)
    table = predicted(items, answers, excess=MISFIT).summary
    theta = score_subjects(answers, items, how="mle").theta
    right = answers.cells.matrices()[0]
    p = expit(theta @ items.a.T + items.d)
    rest = p.reshape(N_SUBJECTS, -1, 3)[:, 4:].sum(1)
    seen = right.reshape(N_SUBJECTS, 4, 3)
    p_irt = (seen.sum(1) + rest) / 16
    lam = 0.05**2 / (0.2 / (4 * 4) + 0.05**2)
    gp_irt = lam * seen.mean(1) + (1 - lam) * p_irt
    expected = {"p_irt": p_irt, "anchor_mean": seen.mean(1), "gp_irt": gp_irt}
    for name, values in expected.items():
        np.testing.assert_allclose(table[name], values.ravel(), rtol=1e-6)
    assert (table["n_answered"] == 4).all()
    assert (table["n_items"] == 16).all()


def test_without_excess_gp_irt_is_p_irt_and_without_anchors_there_is_no_anchor_mean():
    answers = answers_to(bank(), 12)
    anchors = {"maths": ANCHORS["maths"]}
    table = predicted(bank(), answers, anchors=anchors).summary
    np.testing.assert_array_equal(table["gp_irt"], table["p_irt"])
    missing = table["anchor_mean"].isna()
    np.testing.assert_array_equal(missing, table["benchmark"] != "maths")


def test_anchor_means_are_over_answered_anchors():
    items = bank()
    anchors = {"maths": {items.names[0]: 0.5, items.names[3]: 0.1, items.names[6]: 0.4}}
    right = np.array([[1, 0, 1], [0, 1, np.nan]])
    answers = Responses.from_arrays(right, items=[items.names[j] for j in (0, 1, 3)])
    table = predicted(items, answers, anchors=anchors).summary
    own = table.loc[table["benchmark"] == "maths", "anchor_mean"]
    assert own.tolist() == pytest.approx([1.0, 0.0])


def test_answers_to_unknown_items_change_nothing():
    items, answers = bank(), answers_to(bank(), 12)
    noisy = answers.to_long().assign(score=lambda t: t["successes"])[["subject", "item", "score"]]
    other = pd.DataFrame({"subject": answers.subjects, "item": "new", "score": 1})
    more = Responses.from_long(pd.concat([other, noisy]))
    one, two = predicted(items, answers), predicted(items, more)
    pd.testing.assert_frame_equal(one.summary, two.summary)


def test_excess_counts_by_the_share_that_is_unseen():
    seen = Seen(np.full((1, 2), 10.0), np.full((1, 2), 25.0), np.full(2, 100.0))
    abilities = Abilities(np.zeros((1, 1)), np.ones((1, 1, 1)))  # type: ignore[arg-type]
    shape = 40_000, 1, 2
    unseen = UnseenAnswers(np.full(shape, 40.0), np.full(shape, 10.0), abilities, 1.0)
    beyond = np.array([[0.001, 0.0005], [0.0005, 0.002]])
    draws = accuracy_draws(seen, unseen, beyond, KEY)[:, 0]
    expected = 10 / 100**2 * np.eye(2) + 0.75**2 * beyond
    np.testing.assert_allclose(draws.mean(0), 0.5, atol=1e-3)
    np.testing.assert_allclose(np.cov(draws.T), expected, rtol=0.06)
    wild = accuracy_draws(seen, unseen, 100 * beyond, KEY)
    assert wild.min() == pytest.approx(0.1)
    assert wild.max() == pytest.approx(0.85)


def test_ranks_count_subjects_above():
    items, answers = bank(), answers_to(bank(), 12)
    scores = predicted(items, answers)
    suite = scores.draws.mean(2)
    ranks = 1 + (suite[:, :, None] < suite[:, None, :]).sum(2)
    table = scores.suite.set_index("subject").loc[list(answers.subjects)]
    bounds = np.quantile(ranks, [0.05, 0.95], axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(table[["rank_low", "rank_high"]].T, bounds)
    assert scores.suite["score"].is_monotonic_decreasing


def test_more_anchors_solves_its_formula():
    rng = np.random.default_rng(0)
    seen = Seen(np.zeros((1, 1)), np.full((1, 1), 40.0), np.array([640.0]))
    off = rng.normal(size=(500, 1, 1))
    sd, chance = 25.0, 100.0
    expected = 300 + sd * (off - off.mean()) / off.std(ddof=1)
    abilities = Abilities(np.zeros((1, 1)), np.ones((1, 1, 1)))  # type: ignore[arg-type]
    unseen = UnseenAnswers(expected, np.full((500, 1, 1), chance), abilities, 1.0)
    problem = type("Exact", (), {"roots": None})()

    def left(m: int, rest: float) -> float:
        s = 1 - m / 600
        return sd**2 * s**2 * 40 / (40 + m) + chance * s + rest

    for share in (0.0, 0.1):
        rest = share * (sd**2 + chance)
        beyond = np.array([[rest / 600**2]])
        m = int(more_anchors(seen, unseen, problem, beyond)[0])
        target = (sd**2 + chance + rest) / 4
        assert left(m, rest) <= target < left(m - 1, rest)
    large = np.array([[(sd**2 + chance) / 600**2]])
    assert pd.isna(more_anchors(seen, unseen, problem, large)[0])


def test_so_many_more_anchors_do_halve_intervals():
    items = bank(400)
    full = answers_to(items, 400, 40)
    rows = np.arange(40)

    def suite(n: int) -> pd.DataFrame:
        answers = full.select(rows, np.arange(n))
        found = predict_suite(items, ["all"] * 400, answers, anchors={}, key=KEY, n_draws=200)
        return found.suite.set_index("subject")

    before = suite(20)
    more = int(before["more_anchors"].median())
    ratio = (suite(20 + more)["sd"] / before["sd"]).median()
    assert 0.4 < ratio < 0.6


def test_items_that_are_hardly_known_leave_no_number_of_anchors():
    answers = answers_to(bank(), 24)
    scores = predicted(bank(error=0.1), answers, excess={n: Excess(0.1, 0.1, 0.2) for n in ANCHORS})
    assert scores.suite["more_anchors"].isna().all()
    assert "would not halve" in scores.to_text()


def test_excess_covariances_keep_variances_and_are_possible():
    excess = {
        "a": Excess(0.01, 0.1, 0.2, {"b": 0.02, "c": -0.009}),
        "b": Excess(0.04, 0.1, 0.2, {"a": 0.02, "c": 0.02}),
        "c": Excess(0.01, 0.1, 0.2),
    }
    found = excess_covariance(excess, ["a", "b", "c", "d"])
    np.testing.assert_allclose(np.diag(found), [0.01, 0.04, 0.01, 0])
    assert np.linalg.eigvalsh(found).min() > -1e-12
    assert found[0, 1] > 0 > found[0, 2]
    easy = {"a": Excess(0.01, 0.1, 0.2, {"b": 0.005}), "b": Excess(0.04, 0.1, 0.2, {"a": 0.005})}
    np.testing.assert_allclose(
        excess_covariance(easy, ["a", "b"]), [[0.01, 0.005], [0.005, 0.04]], rtol=1e-9
    )


def test_measured_excess_counts_what_reference_subjects_show():
    full = answers_to(bank(), N_ITEMS, 20)
    found = measure_excess(bank(), BENCHMARKS, full, anchors=ANCHORS, key=KEY, n_draws=50)
    right = full.cells.matrices()[0].reshape(20, -1, 3)
    accuracy = right.mean(1)
    variance = (accuracy * (1 - accuracy)).mean(0)
    theta = score_subjects(full.select(np.arange(20), np.arange(12)), bank(), how="mle").theta
    off = (expit(theta @ bank().a.T + bank().d) - right.reshape(20, -1))[:, 12:]
    errors = np.abs(off.reshape(20, -1, 3).sum(1) / 16).mean(0)
    for b, name in enumerate(("maths", "law", "code")):
        assert found[name].response_variance == pytest.approx(variance[b])
        assert found[name].n_subjects == 20
        assert found[name].variance >= 0
        assert found[name].p_irt_error == pytest.approx(errors[b], rel=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"anchors": {"sport": {}}}, "'sport', which has no known"),
        ({"anchors": {"law": {bank().names[0]: 1.0}}}, "not a known item of the benchmark 'law'"),
    ],
)
def test_bad_choices_are_refused(change: dict[str, object], says: str):
    with pytest.raises(ResponseError, match=says):
        predicted(bank(), answers_to(bank(), 12), **change)


def test_bad_answers_are_refused():
    items = bank()
    strangers = Responses.from_arrays([[1, 0], [0, 1]], items=["x", "y"])
    with pytest.raises(ResponseError, match="none of the 48 known items"):
        predicted(items, strangers)
    names = [*items.names[:2], "x"]
    partly = Responses.from_arrays(
        [[1, 0, np.nan], [np.nan, np.nan, 1]], items=names, subjects=["old", "lost"]
    )
    with pytest.raises(ResponseError, match="'lost' answered none"):
        predicted(items, partly)
    with pytest.raises(ResponseError, match="give one per item"):
        predict_suite(items, ["maths"], answers_to(items, 12), anchors={}, key=KEY)
    with pytest.raises(ResponseError, match="answered no anchor"):
        measure_excess(items, BENCHMARKS, answers_to(items, 12), anchors={}, key=KEY)

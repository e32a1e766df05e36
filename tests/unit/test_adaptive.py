"""Adaptive testing: beliefs and expected gains match brute force; files are read correctly."""

import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from bayesirt.bank.adaptive import ability_so_far, intervals, rank_next_items, suggest_items
from bayesirt.bank.new_answers import NAMELESS, answers_of, read_answers
from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale
from bayesirt.errors import ResponseError
from bayesirt.inference.ability_belief import Answers, Belief, ItemDraws, LengthDraws, believe
from bayesirt.likelihood.graded import grade_probabilities
from bayesirt.likelihood.latencies import SpeedEvidence
from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.item_information import (
    expected_information,
    expected_variance,
    item_information,
    length_information,
)

NAMES = ("q1", "q2", "q3", "q4", "q5", "q6")
THETA = np.linspace(-9, 9, 6001)
SHARES = {"logit": expit, "probit": norm.cdf, "guessing": expit}


def made_items(n_draws: int = 3, n_items: int = 6, *, lengths: bool = False) -> ItemDraws:
    rng = np.random.default_rng(4)
    a = 1.2 + 0.3 * rng.normal(size=n_items) + 0.1 * rng.normal(size=(n_draws, n_items))
    d = rng.normal(size=n_items) + 0.2 * rng.normal(size=(n_draws, n_items))
    phi, omega = 1 + 0.1 * rng.normal(size=a.shape), 5 + 0.2 * rng.normal(size=a.shape)
    timed = LengthDraws(phi, omega, np.exp(0.2 * d), np.linspace(-0.8, -0.6, n_draws))
    items = ItemDraws(a, d, timed if lengths else None)
    return jax.tree.map(jnp.asarray, items)


def made_posterior(items: ItemDraws, link: str = "logit") -> Posterior:
    n_draws, n_items = items.a.shape
    sites = {"theta": np.zeros((n_draws, 2)), "a": items.a, "d": items.d}
    if items.lengths is not None:
        sites |= {name: x for name, x in items.lengths._asdict().items() if x is not None}
        sites["tau"] = np.zeros((n_draws, 2))
    samples = {name: np.asarray(values)[None] for name, values in sites.items()}
    responses = Responses.from_arrays(np.indices((2, n_items)).sum(0) % 2, items=NAMES[:n_items])
    return Posterior.from_samples(samples, {}, responses, {"link": link})


def made_answers(*right: int, log_latency: tuple[float, ...] = ()) -> Answers:
    n = len(right)
    lengths = np.array(log_latency or (np.nan,) * n)
    return Answers(np.arange(n), np.array(right), np.ones(n, int), lengths)


def brute(items: ItemDraws, answers: Answers, link: str) -> tuple[np.ndarray, np.ndarray]:
    """Return p(answers and lengths, θ | item draw) on a fine grid, shape (draw, θ), and p(right).

    θ and τ are jointly normal, and so are lengths given θ; their full covariance matrix is used.
    """
    a, d, *floor = (np.asarray(x)[:, :, None] for x in (*items[:2], *items.further))
    p = SHARES[link](a * THETA + d)  # (draw, item, θ)
    p = floor[0] + (1 - floor[0]) * p if floor else p
    joint = np.tile(norm.pdf(THETA), (len(a), 1))
    for k, j in enumerate(answers.item):
        joint *= p[:, j] ** answers.successes[k] * (1 - p[:, j]) ** (
            answers.trials[k] - answers.successes[k]
        )
    if items.lengths is not None:
        seen = np.isfinite(answers.log_latency)
        for s, row in enumerate(joint):
            row *= density_of_lengths(items, s, answers.item[seen], answers.log_latency[seen])
    return joint, p


def density_of_lengths(items: ItemDraws, s: int, item: np.ndarray, x: np.ndarray) -> np.ndarray:
    phi, omega, lam = (np.asarray(values)[s, item] for values in items.lengths[:3])
    rho = float(items.lengths.rho[s])
    covariance = (1 - rho**2) * np.outer(phi, phi) + np.diag(lam)
    away = (x - omega)[:, None] + np.outer(phi, rho * THETA)
    squares = (away * np.linalg.solve(covariance, away)).sum(0)
    return np.exp(-squares / 2) / np.sqrt(np.linalg.det(2 * np.pi * covariance))


def moments(joint: np.ndarray) -> tuple[float, float, float]:
    """Return probability, mean and variance of θ over draws and grid."""
    total = joint.sum(0)
    share = total / total.sum()
    mean = share @ THETA
    return total.sum() * (THETA[1] - THETA[0]) / len(joint), mean, share @ (THETA - mean) ** 2


@pytest.mark.parametrize("link", SHARES)
@pytest.mark.parametrize("right", [(), (1, 0, 1, 1)])
def test_the_belief_is_that_of_brute_force(link, right):
    items, answers = made_items(), made_answers(*right)
    error = 5e-6
    if link == "guessing":
        items, error = items._replace(further=(jnp.full(items.a.shape, 0.2),)), 2e-5
    belief = believe(items, answers.padded(), link=link)
    joint, _ = brute(items, answers, link)
    _, mean, variance = moments(joint)
    np.testing.assert_allclose([belief.mean, belief.variance], [mean, variance], atol=error)
    assert float(belief.weight.sum()) == pytest.approx(1)
    of_draws = joint.sum(1) / joint.sum()
    np.testing.assert_allclose(belief.weight.sum(1), of_draws, rtol=1e-5)


def test_lengths_are_used_where_answers_have_them():
    items = made_items(lengths=True)
    answers = made_answers(1, 0, 1, log_latency=(6.5, np.nan, 5.8))
    belief = believe(items, answers.padded(), link="probit")
    joint, _ = brute(items, answers, "probit")
    _, mean, variance = moments(joint)
    np.testing.assert_allclose([belief.mean, belief.variance], [mean, variance], atol=5e-6)
    np.testing.assert_allclose(belief.weight.sum(1), joint.sum(1) / joint.sum(), rtol=1e-5)
    assert float(belief.mean) > float(
        believe(items, made_answers(1, 0, 1).padded(), link="probit").mean
    )


@pytest.mark.parametrize("n_trials", [1, 30_000])
def test_the_grid_follows_the_answers_wherever_they_lead(n_trials):
    """After thirty thousand trials the ability is known to a hundredth; the grid adapts to it."""
    items = made_items(1)
    answers = Answers(np.arange(2), np.array([1, 1]) * n_trials // 2, *np.full((1, 2), n_trials),
                      np.full(2, np.nan))  # fmt: skip
    belief = believe(items, answers.padded(), link="logit")
    a, d = (np.asarray(x)[0, :2] for x in items[:2])

    def log_density(theta: float) -> float:
        eta = a * theta + d
        return (
            float((answers.successes * eta - n_trials * np.logaddexp(0, eta)).sum()) - theta**2 / 2
        )

    mean, sd = float(belief.mean), float(np.sqrt(belief.variance))
    ends = (mean - 8 * sd, mean + 8 * sd)
    top = log_density(mean)
    powers = [quad(lambda t, k=k: (t - mean) ** k * np.exp(log_density(t) - top), *ends)[0]
              for k in range(3)]  # fmt: skip
    assert powers[1] / powers[0] == pytest.approx(0, abs=1e-5 * sd)
    assert np.sqrt(powers[2] / powers[0]) == pytest.approx(sd, rel=1e-5)
    assert sd < (1 if n_trials == 1 else 0.01)


def test_many_answers_leave_a_quarter_of_the_draws_in_play():
    rng = np.random.default_rng(0)
    items = ItemDraws(jnp.ones((40, 2)), jnp.asarray(rng.normal(size=(40, 2))))
    few, many = (
        Answers(np.arange(2), np.array([n, 0]), np.array([n, n]), np.full(2, np.nan))
        for n in (0, 500)
    )
    assert float(believe(items, few.padded(), link="logit").effective_draws) == pytest.approx(40)
    assert float(believe(items, many.padded(), link="logit").effective_draws) == pytest.approx(
        10, rel=1e-3
    )


def test_information_is_the_closed_form():
    theta, a, d = jnp.linspace(-3, 3, 7), 1.7, -0.4
    p, eta = expit(a * theta + d), a * theta + d
    found = item_information(theta, a, d, link="logit")
    np.testing.assert_allclose(found, a**2 * p * (1 - p), rtol=1e-10)
    found = item_information(theta, a, d, link="probit")
    ends = norm.cdf(eta) * norm.cdf(-eta)
    np.testing.assert_allclose(found, (a * norm.pdf(eta)) ** 2 / ends, rtol=1e-10)


def test_a_length_raises_the_precision_of_ability_through_the_correlation():
    items = made_items(2, 1, lengths=True)
    precision = jnp.array([0.0, 2.5])
    found = length_information(items.lengths, SpeedEvidence(precision, 0 * precision))
    for s in range(2):
        rho = float(items.lengths.rho[s])
        prior = np.linalg.inv([[1, rho], [rho, 1]])
        told = float(items.lengths.phi[s, 0] ** 2 / items.lengths.lam[s, 0])
        before, after = (
            1 / np.linalg.inv(prior + np.diag([0, p]))[0, 0]
            for p in (float(precision[s]), float(precision[s]) + told)
        )
        assert float(found[s, 0]) == pytest.approx(after - before, rel=1e-10)


def test_guessing_takes_information_from_right_answers():
    eta, c = np.linspace(-4, 4, 9), 0.25
    s = expit(eta)
    p = c + (1 - c) * s
    expected = (1.5 * (1 - c) * s * (1 - s)) ** 2 / (p * (1 - p))
    found = item_information(jnp.asarray(eta / 1.5), 1.5, 0.0, c, link="guessing")
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_grade_takes_off_what_the_best_straight_line_takes():
    """Compare with sums over abilities, four grades and draws of items."""
    items, rng = made_items(), np.random.default_rng(0)
    gaps = tuple(jnp.asarray(rng.uniform(0.8, 2, items.a.shape)) for _ in range(2))
    items = items._replace(further=gaps)
    belief = believe(items, Answers.none().padded(), link="graded 3")
    mean, variance = expected_variance(items, belief, link="graded 3", steps=3)
    weight, theta = np.asarray(belief.weight), np.asarray(belief.nodes)
    eta = np.asarray(items.a)[:, None] * theta[:, None] + np.asarray(items.d)[:, None]
    p = grade_probabilities(eta, *(np.asarray(x)[:, None] for x in gaps))
    joint = np.stack(p) * weight[:, :, None]  # grade, draw, node, item
    grade, at = np.arange(4)[:, None, None] / 3, theta[:, None]
    expected = (grade[..., None] * joint).sum((0, 1, 2))
    away = grade[..., None] - expected
    covariance = (away * (at - weight.sum(0) @ theta) * joint).sum((0, 1, 2))
    left = float(belief.variance) - covariance**2 / (away**2 * joint).sum((0, 1, 2))
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    np.testing.assert_allclose(variance, left, rtol=1e-9)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_expected_information_and_variance_are_those_of_brute_force(link):
    items, answers = made_items(), made_answers(1, 0)
    belief = believe(items, answers.padded(), link=link)
    joint, p = brute(items, answers, link)
    share = joint / joint.sum()
    information, of_length = expected_information(items, belief, link=link)
    p_right, variance = expected_variance(items, belief, link=link)
    np.testing.assert_array_equal(of_length, 0)
    for j in range(2, 6):
        a, d = (np.asarray(x)[:, [j]] for x in items[:2])
        slope = np.gradient(SHARES[link](a * THETA + d), THETA, axis=1)
        fisher = slope**2 / (p[:, j] * (1 - p[:, j])).clip(1e-300)
        inner = np.abs(THETA) < 4
        expected = (share * fisher)[:, inner].sum()
        assert float(information[j]) == pytest.approx(expected, abs=1e-3)
        ways = [moments(joint * p[:, j]), moments(joint * (1 - p[:, j]))]
        total = sum(chance for chance, _, _ in ways)
        assert float(p_right[j]) == pytest.approx(ways[0][0] / total, abs=5e-6)
        after = sum(chance * var for chance, _, var in ways) / total
        assert float(variance[j]) == pytest.approx(after, abs=5e-6)


def test_expected_variance_over_lengths_is_nearly_that_of_brute_force():
    """Integrate over a grid of lengths too; the linear approximation loses 1% of the gain."""
    items = made_items(lengths=True)
    answers = made_answers(1, 0, log_latency=(5.5, 6.0))
    belief = believe(items, answers.padded(), link="probit")
    joint, p = brute(items, answers, "probit")
    _, _, now = moments(joint)
    _, variance = expected_variance(items, belief, link="probit")
    _, without = expected_variance(items._replace(lengths=None), belief, link="probit")
    known = [density_of_lengths(items, s, answers.item, answers.log_latency) for s in range(3)]
    for j in (2, 4):
        total = after = 0.0
        for x in np.linspace(-3, 13, 161):
            item, lengths = np.append(answers.item, j), np.append(answers.log_latency, x)
            told = np.array(
                [density_of_lengths(items, s, item, lengths) / known[s] for s in range(3)]
            )
            for way in (p[:, j], 1 - p[:, j]):
                chance, _, var = moments(joint * told * way)
                total, after = total + chance, after + chance * var
        expected = after / total
        assert now > float(without[j]) > float(variance[j]) + 1e-3
        assert expected <= float(variance[j]) < expected + 0.01 * (now - expected)


def test_intervals_are_those_of_the_normal():
    sd = np.array([[0.2], [1.5]])
    nodes = 0.3 + sd * np.linspace(-6, 6, 61)
    found = intervals(nodes, norm.pdf(nodes, 0.3, sd))
    np.testing.assert_allclose(found, 0.3 + sd * norm.ppf([0.05, 0.95]), atol=1e-4)


def test_speed_so_far_is_the_normal_s_own():
    """With one item draw and uninformative answers, θ and τ are jointly normal."""
    items = made_items(1, lengths=True)
    items = items._replace(a=0 * items.a)
    so_far = ability_so_far(
        made_posterior(items, "probit"), made_answers(1, 0, log_latency=(6.0, 6.5))
    )
    phi, omega, lam = (np.asarray(x)[0, :2] for x in items.lengths[:3])
    rho = float(items.lengths.rho[0])
    precision = (phi**2 / lam).sum()
    covariance = np.linalg.inv(np.linalg.inv([[1, rho], [rho, 1]]) + np.diag([0, precision]))
    mean = covariance @ [0, -(phi / lam * (np.array([6.0, 6.5]) - omega)).sum()]
    for found, k in ((so_far.ability, 0), (so_far.speed, 1)):
        sd = np.sqrt(covariance[k, k])
        expected = [mean[k], sd, *(mean[k] + sd * norm.ppf([0.05, 0.95]))]
        np.testing.assert_allclose(found, expected, atol=2e-4)
    assert (so_far.n_answers, so_far.n_lengths) == (2, 2)
    assert "Speed -" in so_far.to_text()


def test_items_are_ranked_by_either_criterion_and_answered_ones_are_left_out():
    posterior, answers = made_posterior(made_items()), made_answers(1, 0)
    by_information = rank_next_items(posterior, answers).summary
    by_variance = rank_next_items(posterior, answers, criterion="variance").summary
    assert sorted(by_information["item"]) == ["q3", "q4", "q5", "q6"]
    assert by_information["information"].is_monotonic_decreasing
    assert by_variance["variance"].is_monotonic_increasing
    one, other = (t.set_index("item").sort_index() for t in (by_information, by_variance))
    np.testing.assert_allclose(one, other)
    with pytest.raises(ResponseError, match="all 6 items were answered"):
        rank_next_items(posterior, made_answers(1, 0, 1, 0, 1, 0))
    with pytest.raises(ValueError, match="`criterion` must be one of information, variance"):
        rank_next_items(posterior, criterion="best")


def test_an_answer_without_trials_is_none():
    posterior = made_posterior(made_items())
    nothing = made_answers(1, 0)._replace(successes=np.zeros(2, int), trials=np.zeros(2, int))
    one, other = rank_next_items(posterior), rank_next_items(posterior, nothing)
    assert one.so_far.n_answers == other.so_far.n_answers == 0
    np.testing.assert_allclose(one.so_far.ability, other.so_far.ability)
    assert list(one.summary["item"]) == list(other.summary["item"])


def test_lengths_are_expected_unless_none_came():
    posterior = made_posterior(made_items(lengths=True), "probit")
    for answers, some in (
        (None, True),
        (made_answers(1, 0), False),
        (made_answers(1, 0, log_latency=(5.0, np.nan)), True),
    ):
        table = rank_next_items(posterior, answers).summary
        assert (table["of_length"] > 0).all() == some


def test_the_rule_to_stop_is_said_in_words():
    so_far = ability_so_far(made_posterior(made_items()), made_answers(1))
    width = so_far.ability.width
    assert so_far.stops(width + 1e-6)
    assert not so_far.stops(width)
    assert "after 1 answer. The interval of ability is" in so_far.to_text(9)
    assert so_far.to_text(9).endswith("wide, shorter than 9: precise enough, so stop.")
    assert so_far.to_text(0.1).endswith("wide, not yet shorter than 0.1: continue.")
    for bad in (0, -1, float("nan")):
        with pytest.raises(ResponseError, match="the width to stop at must be above 0"):
            so_far.stops(bad)


def test_suggestions_are_made_for_each_subject_or_one():
    posterior = made_posterior(made_items())
    answers = {"x": made_answers(1), "y": made_answers(0, 0), "z": made_answers(1, 1, 1, 1, 1, 1)}
    both = suggest_items(posterior, {k: answers[k] for k in "xy"})
    assert both["x"].so_far.ability.mean > 0 > both["y"].so_far.ability.mean
    assert list(suggest_items(posterior, answers, subject="y")) == ["y"]
    assert list(suggest_items(posterior)) == ["a new subject"]
    with pytest.raises(
        ResponseError, match="no answers from subject 'w'; the subjects are 'x', 'y'"
    ):
        suggest_items(posterior, answers, subject="w")
    with pytest.raises(ResponseError, match="subject 'z': all 6 items were answered"):
        suggest_items(posterior, answers)


def test_draws_are_taken_evenly_from_all_chains(small_run: Run):
    posterior = small_run.posterior
    items = ItemDraws.of(posterior, 7)
    n = len(posterior.theta)
    np.testing.assert_array_equal(items.a[0], posterior.draws("a")[0])
    np.testing.assert_array_equal(items.d[-1], posterior.draws("d")[n - 1])
    np.testing.assert_array_equal(items.a[3], posterior.draws("a")[round((n - 1) / 2)])
    assert ItemDraws.of(posterior, 10 * n).a.shape[0] == n


def test_a_subject_of_the_run_is_placed_where_the_run_placed_it(small_run: Run):
    """The items were estimated from the same answers, so results differ only a little."""
    posterior = small_run.posterior
    n = len(posterior.items)
    for i in (0, 7):
        answers = Answers(np.arange(n), posterior.successes[i], posterior.trials[i],
                          np.full(n, np.nan))  # fmt: skip
        found = ability_so_far(posterior, answers).ability
        own = posterior.theta[:, i]
        assert found.mean == pytest.approx(own.mean(), abs=0.25 * own.std())
        assert found.sd == pytest.approx(own.std(), rel=0.2)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def as_table(answers: Answers) -> list[tuple[int, int, int]]:
    return list(zip(*(np.asarray(x).tolist() for x in answers[:3]), strict=True))


def test_long_files_are_read(tmp_path: Path):
    text = "model,item,correct,trials,tokens\nx,q3,1,1,20\ny,q1,2,3,\nx,q1,0,1,0\nx,q2,0,0,5\n"
    found = read_answers(written(tmp_path / "r.csv", text), NAMES)
    assert list(found) == ["x", "y"]
    assert as_table(found["x"]) == [(0, 0, 1), (2, 1, 1)]
    assert as_table(found["y"]) == [(0, 2, 3)]
    np.testing.assert_allclose(found["x"].log_latency, [np.nan, np.log(20)])
    assert np.isnan(found["y"].log_latency).all()


def test_a_file_without_subjects_holds_one(tmp_path: Path):
    found = read_answers(written(tmp_path / "r.csv", "item,score\nq2,1\n"), NAMES)
    assert {k: as_table(v) for k, v in found.items()} == {NAMELESS: [(1, 1, 1)]}


@pytest.mark.parametrize(
    "text", ["model,q1,q4\nx,1,\ny,,\n", "item,x,y\nq1,1,NA\nq4,,\n"], ids=["columns", "rows"]
)
def test_wide_files_are_read_and_who_answered_nothing_is_kept(tmp_path: Path, text: str):
    found = read_answers(written(tmp_path / "r.csv", text), NAMES)
    assert {k: as_table(v) for k, v in found.items()} == {"x": [(0, 1, 1)], "y": []}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("item,score\nq9,1\nq8,1\nq1,1\n", "items that were not calibrated: 'q9', 'q8'; leave"),
        ("item,score\nq1,1\nq1,0\n", "1 rows repeat a subject and item"),
        ("item,score\nq1,.5\n", "`score` must be 0 or 1"),
        ("item,score\nq1,\n", "`score` is missing"),
        ("who,what\nq1,1\n", "has no columns for item and score"),
        ("item,score,tokens\nq1,1,-3\n", "`tokens` must not be negative"),
    ],
)
def test_bad_answers_are_one_sentence(tmp_path: Path, text: str, sentence: str):
    with pytest.raises(ResponseError, match=sentence):
        read_answers(written(tmp_path / "r.csv", text), NAMES)


def test_duplicates_and_thresholds_are_as_in_a_ranking(tmp_path: Path):
    path = written(tmp_path / "r.csv", "item,score\nq1,.7\nq1,.2\n")
    found = read_answers(path, NAMES, duplicates="trials", threshold=0.5)
    assert as_table(found[NAMELESS]) == [(0, 1, 2)]


def test_answers_are_taken_by_name():
    found = answers_of({"q3": 1, "q1": 0}, NAMES, {"q3": 20.0})
    assert as_table(found) == [(0, 0, 1), (2, 1, 1)]
    np.testing.assert_allclose(found.log_latency, [np.nan, np.log(20)])
    assert len(answers_of({}, NAMES).item) == 0
    with pytest.raises(ResponseError, match="not calibrated: 'q7'"):
        answers_of({"q7": 1}, NAMES)


def test_a_large_bank_takes_little_time():
    """500 items, 200 draws and 41 abilities, after compilation, stay far below three seconds."""
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.normal(size=(2, 200, 500))
    items = ItemDraws(jnp.asarray(np.exp(noise[0])), jnp.asarray(rng.normal(size=500) + noise[1]))
    answers = made_answers(*rng.integers(0, 2, 30))

    def prospects() -> tuple[Belief, jax.Array, jax.Array]:
        belief = believe(items, answers.padded(), link="logit")
        information, _ = expected_information(items, belief, link="logit")
        return jax.block_until_ready(
            (belief, information, expected_variance(items, belief, link="logit")[1])
        )

    prospects()
    began = time.perf_counter()
    belief, information, variance = prospects()
    assert time.perf_counter() - began < 3
    assert (variance < belief.variance).all()
    assert np.corrcoef(information, variance)[0, 1] < -0.8


def test_expected_grades_are_in_grades(small_run: Run):
    table = pd.DataFrame({"item": ["x", "y"], "expected": [0.61, 0.25]})
    of_shares = replace(rank_next_items(small_run.posterior), summary=table)
    of_grades = replace(of_shares, scale=Scale("graded", ("0", "1", "2", "3", "4")))
    assert of_grades.best(1)["expected"].to_list() == pytest.approx([2.44])
    assert of_shares.best(2)["expected"].to_list() == [0.61, 0.25]

"""The gate: its verdicts, its refusals and its sentences."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from bayesirt import Gate, ResponseError, Responses, Scale, gate
from bayesirt.ranking.gate import gate_all
from bayesirt.ranking.paired_difference import Pairs, needed, paired_difference
from bayesirt.ranking.sequential_evidence import Evidence, load_evidence, look_again
from bayesirt.report.gate_html import render_gate_report
from bayesirt.report.gate_junit import gate_as_junit


def pairs_of(baseline, candidate, trials=1, group=None) -> Pairs:
    n = len(baseline)
    names = [f"q{k}" for k in range(n)]
    runs = np.broadcast_to(trials, (2, n)).astype(np.int64)
    return Pairs(
        names, np.asarray(baseline, float), np.asarray(candidate, float), runs,
        np.arange(n) if group is None else np.asarray(group),
    )  # fmt: skip


def discordant(lost: int, won: int, same: int) -> Pairs:
    before = np.r_[np.ones(lost), np.zeros(won), np.ones(same)]
    return pairs_of(before, np.r_[np.zeros(lost), np.ones(won), np.ones(same)])


def responses_of(pairs: Pairs, **more) -> Responses:
    right = np.rint(np.stack([pairs.baseline, pairs.candidate]) * pairs.trials)
    return Responses.from_arrays(
        right, pairs.trials, subjects=["old", "new"], items=pairs.items, **more
    )


@pytest.mark.parametrize(("lost", "won"), [(16, 9), (4, 0), (3, 1), (0, 5), (40, 20)])
def test_with_one_run_and_no_margin_it_is_the_exact_mcnemar_test(lost, won):
    found = paired_difference(discordant(lost, won, 30), n_draws=200_000)
    worse, better = (1 - binom.sf(k - 1, lost + won, 0.5) for k in (lost, won))
    assert found.below(0) == pytest.approx(worse, abs=0.005)
    assert found.above(0) == pytest.approx(better, abs=0.005)


def test_questions_of_one_group_tell_as_much_as_one():
    """Twenty copies of each of 12 questions are as informative as the 12."""
    few = discordant(7, 2, 3)
    copies = pairs_of(
        np.repeat(few.baseline, 20),
        np.repeat(few.candidate, 20),
        group=np.repeat(np.arange(12), 20),
    )
    one, many = paired_difference(few), paired_difference(copies)
    assert many.below(0) == one.below(0)
    assert (many.low, many.high) == pytest.approx((one.low, one.high))
    assert paired_difference(pairs_of(copies.baseline, copies.candidate)).below(0) > 0.99


def test_verdicts_follow_the_probabilities():
    claims = {
        "regression": (discordant(12, 1, 60), 0.0),
        "improvement": (discordant(1, 12, 60), 0.0),
        "equivalent": (discordant(3, 3, 400), 0.03),
        "no regression": (discordant(4, 7, 90), 0.05),
        "undecided": (discordant(5, 3, 60), 0.0),
    }
    for verdict, (pairs, margin) in claims.items():
        found = gate(responses_of(pairs), baseline="old", candidate="new", margin=margin)
        assert found.verdict == verdict
        assert found.passes is {"regression": False, "undecided": None}.get(verdict, True)
        assert verdict in found.to_text() or verdict == "undecided"
        told = found.as_dict()
        assert json.loads(json.dumps(told))["verdict"] == verdict
        assert found.summary.loc[0, "n_questions"] == len(pairs.items)


def test_margin_is_told_apart_from_zero():
    """30 of 300 lost and 15 won: 5 points worse, credibly below 0, not credibly beyond 4 points."""
    found = gate(
        responses_of(discordant(30, 15, 255)), baseline="old", candidate="new", margin=0.04
    )
    assert found.p_worse > 0.95 > found.p_regression > 0.5
    assert found.verdict == "undecided"
    assert "5 points below" in found.sentence
    assert "4 points" in found.sentence


def test_what_would_decide_does():
    """With that many more questions of the same kind, the claim has the requested probability."""
    pairs = discordant(12, 6, 42)
    more = needed(pairs, 0.0, 0.95)
    assert np.isnan(more.runs)
    times = (60 + more.questions) / 60
    counts = [round(times * n) for n in (12, 6, 42)]
    assert paired_difference(discordant(*counts)).below(0) == pytest.approx(0.95, abs=0.025)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_five_questions_that_all_got_worse_decide(n: int):
    """The probability of a drop is 1 - 2⁻ⁿ, above 95% from five questions on."""
    assert needed(discordant(n, 0, 0), 0.0, 0.95).questions == 5 - n


def test_questions_in_few_groups_do_not_decide():
    pairs = discordant(40, 0, 0)
    pairs = replace(pairs, group=np.arange(40) % 2)
    assert needed(pairs, 0.0, 0.95).to_text() == "about 60 more questions in new groups"


def test_the_worst_of_many_parts_is_no_surprise():
    """Nothing differs, so intervals of the worst of 10 parts exclude 0 in 5% of data at most."""
    rng, excluded = np.random.default_rng(0), []
    topics = np.repeat(np.arange(10), 20)
    for _ in range(60):
        pairs = pairs_of(*rng.binomial(1, 0.7, (2, 200)))
        made = responses_of(pairs)
        table = pd.DataFrame({"benchmark": topics}, index=pairs.items)
        responses = Responses(made.subjects, made.items, made.cells, item_metadata=table)
        found = gate(responses, baseline="old", candidate="new")
        worst = found.parts.iloc[0]
        excluded.append(worst["high_of_all"] < 0)
        assert worst["high"] <= worst["high_of_all"]
    assert np.sum(excluded) <= 8  # more than that has a probability of .3%
    assert "90% for all 10 parts together" in found.to_text()


def test_more_runs_decide_where_only_runs_differ():
    """A subject's rate is the same on all 40 questions, so only its two runs of each vary."""
    before = np.repeat([0, 0.5, 1], [10, 20, 10])
    after = np.random.default_rng(1).permutation(np.repeat([0, 0.5, 1], [14, 19, 7]))
    more = needed(pairs_of(before, after, trials=2), 0.0, 0.95)
    gap, noise = before.mean() - after.mean(), 0.5 * 0.5 + 0.4 * 0.6
    against = np.sqrt(np.mean((after - before)[after != before] ** 2))
    expected = noise / (40 * ((gap - against / 40) / 1.645) ** 2) - 2
    assert abs(more.runs - expected) < 3
    assert "more runs of each" in more.to_text()
    assert "more questions" in more.to_text()


def test_flips_and_parts_are_named():
    pairs = discordant(3, 1, 8)
    topics = pd.DataFrame({"benchmark": ["x"] * 6 + ["y"] * 6}, index=pairs.items)
    made = responses_of(pairs)
    responses = Responses(made.subjects, made.items, made.cells, item_metadata=topics)
    found = gate(responses, baseline="old", candidate="new", group="benchmark")
    assert found.flipped["item"].to_list() == ["q0", "q1", "q2", "q3"]
    assert found.parts["part"].to_list() == ["x", "y"]
    assert found.parts["difference"].to_list() == pytest.approx([-2 / 6, 0])
    assert found.pairs.n_groups == 2
    text, markdown = found.to_text(), found.to_markdown()
    assert "q0, q1, q2" in text
    assert "in 2 groups" in text
    assert "| x | 6 |" in markdown
    assert "q3" in markdown


@pytest.mark.parametrize(("prices", "said"), [((2.0, 1.0), "cheaper"), ((1.0, 2.0), "100% more")])
def test_costs_are_compared(prices, said):
    made = responses_of(discordant(3, 3, 400))
    responses = Responses(made.subjects, made.items, made.cells, costs=np.array(prices))
    found = gate(responses, baseline="old", candidate="new", margin=0.05)
    assert said in found.to_text()
    assert found.cheaper == (prices[1] < prices[0])


def test_lengths_are_compared():
    frame = pd.DataFrame(
        {"subject": ["old"] * 3 + ["new"] * 3, "item": ["x", "y", "z"] * 2, "score": [1, 0, 1] * 2}
    ).assign(tokens=[10, 20, 30, 15, 30, 45])
    found = gate(Responses.from_long(frame, latency="tokens"), baseline="old", candidate="new")
    assert "50% longer (30 against 20)" in found.to_text()


def test_several_candidates_share_one_in_twenty():
    worse = discordant(9, 2, 40)
    right = np.stack([worse.baseline, worse.candidate, worse.candidate])
    responses = Responses.from_arrays(right, subjects=["old", "new", "other"])
    alone = gate(responses, baseline="old", candidate="new")
    both = gate_all(responses, baseline="old", candidates=["new", "other"])
    assert 0.95 <= alone.p_regression < 0.975
    assert alone.verdict == "regression"
    assert [found.verdict for found in both] == ["undecided"] * 2
    assert both[0].sure == pytest.approx(0.975)


def test_history_sharpens_and_must_be_of_this_suite(small_run):
    posterior = small_run.posterior
    n = len(posterior.items)
    rng = np.random.default_rng(1)
    right = (rng.uniform(size=(2, n)) < [[0.7], [0.5]]).astype(float)
    names = list(posterior.items)
    responses = Responses.from_arrays(right, subjects=["old", "new"], items=names)
    found = gate(responses, baseline="old", candidate="new", history=posterior)
    there = found.calibrated
    assert there.n_questions == n
    assert there.weights.sum() == pytest.approx(1)
    assert (np.diff(there.values) >= 0).all()
    assert there.quantile(0.05) < there.mean < there.quantile(0.95)
    assert there.below(0) + there.above(0) == pytest.approx(1, abs=0.02)
    assert "calibrated before" in found.to_text()
    assert found.as_dict()["history_n_questions"] == n
    with pytest.raises(ResponseError, match="of this suite"):
        gate(SMALL, baseline="old", candidate="new", history=posterior)
    graded = posterior.with_attrs(
        answers='{"kind": "graded", "labels": ["1", "2", "3"], "full": 1}'
    )
    with pytest.raises(ResponseError, match="a history is for right and wrong answers"):
        gate(responses, baseline="old", candidate="new", history=graded)


def test_history_uses_questions_that_one_of_them_answered(small_run):
    """The candidate answered 10 of 20 questions; its score is predicted on all 20."""
    posterior, rng = small_run.posterior, np.random.default_rng(2)
    right = (rng.uniform(size=(2, 20)) < 0.6).astype(float)
    trials = np.ones((2, 20))
    trials[1, 10:] = 0
    names = list(posterior.items)
    some = Responses.from_arrays(right * trials, trials, subjects=["old", "new"], items=names)
    found = gate(some, baseline="old", candidate="new", history=posterior)
    assert len(found.pairs.items) == 10
    assert found.calibrated.n_questions == 20


def test_evidence_counts_each_answer_once(tmp_path):
    first = pairs_of([1, 1, 0, 1], [0, 1, 0, 0])
    state = tmp_path / "state.json"
    start = load_evidence(state, "old", "new", 0.0, 0.95)
    once = look_again(start, first)
    assert (once.looks, once.new) == (1, 4)
    once.save(state)
    again = look_again(load_evidence(state, "old", "new", 0.0, 0.95), first)
    assert (again.looks, again.new) == (1, 0)
    assert again.log_capital == once.log_capital
    assert again.peak == once.peak
    # Both get a second run of the first two questions: [1, 1] and [0, 0].
    grown = pairs_of([1, 1, 0, 1], [0, 0.5, 0, 0], trials=[[2, 2, 1, 1]] * 2)
    later = look_again(once, grown)
    assert (later.looks, later.new) == (2, 2)
    stakes = np.array([0.02, 0.05, 0.1, 0.2, 0.4])
    lost = 4 * np.log1p(stakes)  # two at each look
    np.testing.assert_allclose(later.log_capital["drop"], lost)
    np.testing.assert_allclose(later.log_capital["gain"], 4 * np.log1p(-stakes))


def test_new_runs_of_the_candidate_alone_are_not_bet_on():
    once = look_again(Evidence("old", "new", 0.0, 0.95), pairs_of([1, 0], [0, 0]))
    later = look_again(once, pairs_of([1, 0], [0, 0], trials=[[1, 1], [2, 2]]))
    assert later.new == 0
    assert later.log_capital == once.log_capital


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("nonsense", "is not a state file"),
        ("[]", "is not a state file"),
        ('{"format": 1}', "is not a state file"),
        (None, "belongs to another comparison"),
    ],
)
def test_other_state_files_are_refused(tmp_path, content, named):
    state = tmp_path / "state.json"
    if content is None:
        Evidence("old", "third", 0.0, 0.95).save(state)
    else:
        state.write_text(content)
    with pytest.raises(ResponseError, match=named):
        load_evidence(state, "old", "new", 0.0, 0.95)


def test_answers_that_vanish_are_noticed():
    once = look_again(Evidence("old", "new", 0.0, 0.95), pairs_of([1, 0, 1], [0, 0, 1]))
    with pytest.raises(ResponseError, match="not in these results"):
        look_again(once, pairs_of([1, 0], [0, 0]))


SMALL = responses_of(discordant(3, 1, 8))


def test_too_few_questions_in_common_are_refused():
    trials = np.array([[1, 1, 1, 0], [0, 0, 1, 1]])
    responses = Responses.from_arrays(trials, trials, subjects=["old", "new"])
    with pytest.raises(ResponseError, match="1 question in common"):
        gate(responses, baseline="old", candidate="new")


def test_reports_say_what_the_gate_says():
    names = ["old", "<new> & co"]
    right = np.stack([discordant(12, 1, 20).baseline, discordant(12, 1, 20).candidate])
    found = gate(
        Responses.from_arrays(right, subjects=names), baseline=names[0], candidate=names[1]
    )
    assert isinstance(found, Gate)
    page = render_gate_report([found])
    assert "regression" in page
    assert "<new>" not in page
    case = ElementTree.fromstring(gate_as_junit([found])).find("testsuite/testcase")
    assert case.find("failure").get("message") == found.sentence
    assert "<new>" not in found.to_markdown()


def test_grades_are_held_against_each_other_in_their_own_unit():
    rng = np.random.default_rng(0)
    old = rng.integers(2, 5, 60)
    grades = np.stack([old, np.clip(old - (rng.uniform(size=60) < 0.5), 0, 4)])
    responses = Responses.from_arrays(grades, subjects=["old", "new"], scale=Scale("graded"))
    found = gate(responses, baseline="old", candidate="new", margin=0.2)
    mean = (grades[1] - grades[0]).mean()
    told = found.as_dict()
    assert found.verdict == "regression"
    assert told["difference"] == pytest.approx(mean)
    assert told["score_baseline"] == pytest.approx(old.mean())
    assert told["margin"] == pytest.approx(0.2)
    assert f"new scores {abs(mean):.2f} grades below old" in found.to_text()
    assert "your margin of 0.20 grades" in found.to_text()
    assert np.isnan(found.needed.runs)
    assert (found.flipped["difference"].abs() >= 0.25).all()
    first = look_again(load_evidence(Path("none.json"), "old", "new", 0.0, 0.95), found.pairs)
    assert first.new == 60
    assert look_again(first, found.pairs).new == 0
    with pytest.raises(ResponseError, match="in the scores' own unit, from 0 to below 3"):
        gate(responses, baseline="old", candidate="new", margin=3)

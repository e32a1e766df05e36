"""The summary of a ranking in a few sentences agrees with its table."""

from dataclasses import replace

import numpy as np

from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.score_order import led_by_score
from bayesirt.report.in_short import in_short


def with_columns(run: Run, **columns: object) -> Run:
    """Return the run with these columns, marked as sound."""
    summary = run.ranking.summary.assign(**columns)
    return replace(run, ranking=replace(run.ranking, summary=summary, warnings=(), sound=True))


def test_a_sure_best_is_named_alone(small_run: Run):
    p = np.array([0.97, 0.02, 0.01, *[0.0] * 27])
    best, tiers, apart, average = in_short(with_columns(small_run, p_best=p))
    assert best == f"{small_run.ranking.summary['subject'][0]} is best, with a probability of 97%."
    assert "tier" in tiers
    assert "with 80% power" in apart
    assert average.startswith("The simple average ")
    assert average.endswith(small_run.ranking.average.advice)


def test_those_who_may_be_best_are_named_likeliest_first(small_run: Run):
    p = np.array([0.2, 0.4, 0.1, 0.09, 0.08, 0.07, *[0.06 / 24] * 24])
    names = list(small_run.ranking.summary["subject"])
    best = in_short(with_columns(small_run, p_best=p))[0]
    assert best == (
        f"Who is best is not settled: {names[1]} may be, with a probability of 40%; so may "
        f"{names[0]} (20%), {names[2]} (10%), {names[3]} (9%) and 2 more."
    )


def test_tiers_are_counted(small_run: Run):
    alone = in_short(with_columns(small_run, tier=np.repeat([1, 2], [1, 29])))[1]
    assert alone == "The 30 subjects form 2 tiers; tier 1 holds one subject alone."
    together = in_short(with_columns(small_run, tier=1))[1]
    assert together.startswith("The 30 subjects form 1 tier: the 30 in tier 1 are statistically")


def test_nothing_is_called_certain(small_run: Run):
    p = np.array([1.0, *[0.0] * 29])
    assert "over 99%" in in_short(with_columns(small_run, p_best=p))[0]


def test_a_void_ranking_says_so_first_and_names_nobody(small_run: Run):
    run = with_columns(small_run, p_best=np.array([1.0, *[0.0] * 29]))
    void = replace(run, ranking=replace(run.ranking, warnings=("Void.",), sound=False))
    assert in_short(void) == ["Void.", "It is too early to say who is best."]


def test_accuracy_leads_where_one_ability_does_not_explain_the_answers(small_run: Run):
    ranks = {"score_rank": range(30, 0, -1), "score_rank_low": 1, "score_rank_high": 30}
    run = with_columns(small_run, **ranks)
    led = replace(run, ranking=led_by_score(run.ranking, "No."))
    last = run.ranking.summary["subject"].iloc[-1]
    assert in_short(led) == [
        "No.",
        f"By accuracy, {last} ranks number 1 (90% interval: 1 to 30). "
        "The intervals of 30 of 30 include rank 1.",
    ]

"""A ranking in a few sentences: they say what the table says."""

from dataclasses import replace

import numpy as np

from bayesirt.report.in_short import in_short
from bayesirt.run import Run


def with_columns(run: Run, **columns: object) -> Run:
    summary = run.ranking.summary.assign(**columns)
    return replace(run, ranking=replace(run.ranking, summary=summary))


def test_a_sure_best_is_named_alone(small_run: Run):
    p = np.array([0.97, 0.02, 0.01, *[0.0] * 27])
    best, tiers, apart, average = in_short(with_columns(small_run, p_best=p))
    assert best == f"{small_run.ranking.summary['subject'][0]} is best, with a probability of 97%."
    assert "tier" in tiers
    assert "4 times out of 5" in apart
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
    assert alone == "The 30 subjects form 2 tiers; the first holds one subject alone."
    together = in_short(with_columns(small_run, tier=1))[1]
    assert together.startswith("The 30 subjects form 1 tier: the 30 of the first cannot be told")


def test_nothing_is_called_certain(small_run: Run):
    p = np.array([1.0, *[0.0] * 29])
    assert "over 99%" in in_short(with_columns(small_run, p_best=p))[0]

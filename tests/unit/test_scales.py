"""Grades and scores are recognised, distinguished from mistakes, and kept; errors give advice."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesirt import Responses
from bayesirt.data.readers import read_responses
from bayesirt.data.scales import PARTS, Scale, shown_score
from bayesirt.errors import ResponseError

GRADES = [1, 3, 2, 5, 4, 5]
SHARES = [0, 0.25, 1, 0.5, 0.00001, 0.7]


def long(scores: list) -> pd.DataFrame:
    return pd.DataFrame({"subject": [*"aabbcc"], "item": [*"xyxyxy"], "score": scores})


def read(folder: Path, scores: list, **told) -> Responses:
    path = folder / "r.csv"
    long(scores).to_csv(path, index=False)
    return read_responses(path, **told)


@pytest.mark.parametrize("scores", [GRADES, [float(x) for x in GRADES], [str(x) for x in GRADES]])
def test_whole_numbers_on_a_short_scale_are_grades(scores):
    responses = Responses.from_long(long(scores))
    assert responses.scale == Scale("graded", ("1", "2", "3", "4", "5"))
    np.testing.assert_array_equal(responses.cells.matrices()[0], [[0, 2], [1, 4], [3, 4]])
    assert (responses.cells.matrices()[1] == 4).all()


def test_scores_between_the_ends_stay_between_them():
    responses = Responses.from_long(long(SHARES))
    assert responses.scale == Scale("continuous")
    parts = responses.cells.matrices()[0].ravel().tolist()
    assert parts == [0, 2500, PARTS, 5000, 1, 7000]


def test_scores_without_bounds_are_parts_of_their_range():
    responses = Responses.from_long(long([-3.0, 0, 1e-3, 5, 5, 1]), scale=Scale("unbounded"))
    assert responses.scale == Scale("unbounded", low=-3.0, full=5.0)
    parts = responses.cells.matrices()[0].ravel()
    np.testing.assert_allclose(
        responses.scale.value(parts / PARTS), [-3.0, 0, 1e-3, 5, 5, 1], atol=4e-4
    )
    facts = responses.summary["value"]
    assert facts["mean score"] == pytest.approx(8.001 / 6, abs=4e-4)
    assert facts[["lowest score", "highest score"]].tolist() == [-3, 5]


def test_one_score_far_away_is_refused():
    scores = np.random.default_rng(0).normal(size=(40, 30))
    scores[3, 4] = 1e6
    with pytest.raises(ResponseError, match=r"1e.06, so far from all other scores.*logarithms"):
        Responses.from_arrays(scores, scale=Scale("unbounded"))


def test_wide_tables_and_matrices_have_kinds_too():
    matrix = np.array(GRADES).reshape(3, 2)
    wide = Responses.from_wide(pd.DataFrame(matrix, index=[*"abc"], columns=[*"xy"]))
    given = Responses.from_arrays(matrix, scale=Scale("graded"))
    assert wide.scale == given.scale == Scale("graded", ("1", "2", "3", "4", "5"))
    np.testing.assert_array_equal(wide.cells.matrices()[0], given.cells.matrices()[0])


@pytest.mark.parametrize(
    ("scores", "told", "labels"),
    [
        (["Good", "poor", "FAIR", "fair", "good", "poor"], {"order": ["poor,fair,good"]}, 3),
        (["agree", "Disagree", "neutral", "agree", "Strongly agree", "agree"], {}, 4),
        ([0, 1, 1, 2, 0, 2], {"kind": "graded"}, 3),
    ],
)
def test_labels_are_in_the_order_that_is_given_or_known(tmp_path, scores, told, labels):
    responses = read(tmp_path, scores, **told)
    assert responses.scale.kind == "graded"
    assert len(responses.scale.labels) == labels
    assert responses.cells.listed().successes.max() == responses.scale.steps


@pytest.mark.parametrize(
    ("scores", "told", "expected"),
    [
        ([10, 55.5, 100, 0, 70, 2], {"full": 100.0}, 0.1),
        (["10%", "20%", "0%", "5%", "100%", "7%"], {"kind": "continuous"}, 0.1),
    ],
)
def test_full_scores_and_percentages_are_shares(tmp_path, scores, told, expected):
    responses = read(tmp_path, scores, **told)
    assert responses.cells.matrices()[0][0, 0] == round(expected * PARTS)


def test_a_threshold_and_binary_leave_answers_right_and_wrong(tmp_path):
    assert read(tmp_path, GRADES, threshold=3).scale is None
    assert read(tmp_path, [0, 1, 1, 0, 1, 0], kind="binary").scale is None


@pytest.mark.parametrize(
    ("scores", "told", "said"),
    [
        ([0, 1, 1, 0, 2, 1], {}, "must be 0 or 1.*got 2.*--threshold.*--kind graded.*--scale 100"),
        ([0, 1, 1, 0, 0.5, 1], {}, "must be 0 or 1.*got 0.5.*--threshold"),
        (
            [*GRADES[:5], 5.8],
            {"kind": "graded"},
            "grades from 1 to 5, but also 5.8 at subject .c., item .y.; correct it",
        ),
        ([2, 2, 2, 2, 2, 2], {"kind": "graded"}, "only one grade"),
        ([0, 1, 1, 0, 1, 0], {"kind": "graded"}, "only two grades"),
        ([0, 1, 1, 0, 1, 0], {"kind": "continuous"}, "right or wrong; leave out --kind continuous"),
        ([10, 55.5, 100, 0, 70, 2], {"kind": "continuous"}, "got 10; pass --scale 100"),
        ([10, 55, 100, 0, 70, 2], {"kind": "graded"}, "too many for grades; pass --scale 100"),
        ([-1, 0.5, 1, 0, 0.3, 0.2], {"kind": "continuous"}, "got -1; shift the scores"),
        (["poor", "fair", "good", "fair", "poor", "ok"], {}, "poor, fair, good, ok.*pass --order"),
        (["1", "2", "ok", "3", "2", "1"], {"order": ["1,2,3"]}, "'ok', which is not one of 1, 2"),
        ([2.5] * 6, {"kind": "unbounded"}, "holds only 2.5"),
        ([1, 2, 3, 1, "x", 2], {"kind": "unbounded"}, "must be a finite number, got 'x'"),
        ([-3.5, 2.5, 1, 0, 12, 2], {}, "got -3.5.*--kind unbounded"),
        (["good"] * 6, {"order": ["poor,fair,good"]}, "only 'good'"),
        (GRADES, {"order": ["poor,fair"]}, "3 to 21 grades, got 2"),
        (GRADES, {"order": ["a,b,A"]}, "each grade once"),
        (GRADES, {"full": 0.0}, "positive full score, got 0"),
        (GRADES, {"kind": "binary", "full": 5.0}, "leave out --kind binary"),
        (GRADES, {"kind": "graded", "threshold": 3}, "--threshold makes answers right or wrong"),
    ],
)
def test_what_is_wrong_has_a_way_out(tmp_path, scores, told, said):
    with pytest.raises(ResponseError, match=said) as caught:
        read(tmp_path, scores, **told)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scores", [GRADES, SHARES])
def test_parquet_keeps_kinds(tmp_path, scores):
    responses = Responses.from_long(long(scores))
    responses.to_parquet(tmp_path / "r.parquet")
    again = read_responses(tmp_path / "r.parquet")
    assert again.scale == responses.scale
    np.testing.assert_array_equal(again.cells.matrices()[0], responses.cells.matrices()[0])
    long(scores).to_parquet(tmp_path / "foreign.parquet")
    assert read_responses(tmp_path / "foreign.parquet").scale == responses.scale


def test_a_summary_counts_grades_and_ends():
    facts = Responses.from_long(long(GRADES)).summary["value"]
    assert facts[[f"grade {k}" for k in range(1, 6)]].tolist() == [1, 1, 1, 1, 2]
    facts = Responses.from_long(long(SHARES)).summary["value"]
    assert facts["scores of 0"] == facts["scores of 1"] == pytest.approx(1 / 6)


def test_scores_are_shown_as_they_came():
    assert shown_score(Scale("graded", ("1", "2", "3")), 0.25) == "1.50"
    assert shown_score(Scale("graded", ("poor", "fair", "good")), 0.25) == "25.0%"
    assert shown_score(Scale("continuous", full=100.0), 0.25) == "25.0"
    assert shown_score(Scale("unbounded", low=-200.0, full=1800.0), 0.5) == "800"
    assert shown_score(Scale("unbounded", low=-2.0, full=2.5), 0.5) == "0.25"

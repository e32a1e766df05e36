"""Grades that are never the most probable, and items on which abler subjects get worse grades."""

from dataclasses import replace

import numpy as np
import pytest
from made_posterior import posterior_of
from scipy.special import expit

from bayesirt import Graded, Posterior, Responses, Scale, review_items
from bayesirt.checks.grade_review import grades_by_item, idle_grades, nowhere_probable
from bayesirt.report.item_part import _note, _row

N, J, LABELS = 120, 10, ("1", "2", "3", "4", "5")
GAP = 1.6


def graded(
    gaps: np.ndarray, y: np.ndarray | None = None, *, a: np.ndarray | None = None
) -> Posterior:
    """Return draws around gaps of shape (item, 3), with grades drawn from them unless given."""
    rng = np.random.default_rng(0)
    theta, a = rng.normal(size=N), np.ones(J) if a is None else a
    eta = theta[:, None] * a
    if y is None:
        offsets = np.stack([gaps[:, 0], 0 * gaps[:, 0], -gaps[:, 1], -gaps[:, 1:].sum(1)], 1)
        y = (rng.uniform(size=(N, J, 1)) < expit(eta[..., None] + offsets)).sum(-1)
    responses = Responses.from_arrays(y, np.full((N, J), 4))
    responses = replace(responses, scale=Scale("graded", LABELS))
    truth = {"theta": theta, "a": a, "d": np.zeros(J)}
    truth |= {f"gap_{m}": gaps[:, m - 2] for m in (2, 3, 4)}
    samples = {k: x + 0.01 * rng.normal(size=(2, 50, len(x))) for k, x in truth.items()}
    samples |= {k: np.abs(samples[k]) for k in samples if k.startswith("gap")}
    dims = {**Graded(n=4).dims, "theta": ["subject"]}
    return Posterior.from_samples(samples, {}, responses, {"link": "graded 4"}, dims=dims)


def test_a_grade_whose_thresholds_meet_is_nowhere_the_most_probable():
    gaps = np.full((J, 3), GAP)
    gaps[2, 1] = 0.05
    posterior = graded(gaps)
    nowhere = nowhere_probable(posterior)
    assert nowhere[2].tolist() == [0, 0, 1, 0, 0]
    assert not np.delete(nowhere, 2, 0).any()
    review = review_items(posterior)
    assert review.merged == ["item 3"]
    assert "A grade in the middle is nowhere the most probable" in review.to_text()
    row = review.listed.set_index("item").loc["item 3"]
    assert (row["merged_grades"], row["p_merged"]) == ("3", 1)
    assert "at no ability is grade 3 the most probable (probability over 99%)" in row["evidence"]
    assert "grade nowhere probable" in _row(review.listed.iloc[0].to_dict())["reasons"]


@pytest.mark.parametrize(("gap", "least"), [(1.05, 0), (1.15, 1)])
def test_grades_of_equal_gaps_are_the_most_probable_from_log_3_on(gap, least):
    """Of five grades, the second and the fourth then overtake the extremes."""
    found = nowhere_probable(graded(np.full((J, 3), gap)))
    assert (found[:, [1, 3]].mean() < 0.5) == bool(least)


def test_what_most_items_share_is_said_of_the_scale():
    posterior = graded(np.full((J, 3), 0.3))
    assert idle_grades(posterior) == ["2", "3", "4"]
    review = review_items(posterior)
    assert review.merged == []
    assert "On most items grades 2, 3 and 4 are nowhere the most probable" in review.to_text()


def test_a_grade_that_is_never_used_is_listed_unless_chance_explains_it():
    posterior = graded(np.full((J, 3), GAP))
    y = np.asarray(posterior.successes).copy()
    y[:, 1] = np.where(y[:, 1] == 3, 2, y[:, 1])
    y[:, 4] = np.where(y[:, 4] == 0, 1, y[:, 4])
    review = review_items(graded(np.full((J, 3), GAP), y))
    assert sorted(review.unused) == ["item 2", "item 5"]
    given = review.summary.set_index("item")["never_given"]
    assert (given["item 2"], given["item 5"], given["item 1"]) == ("4", "1", "")
    assert "A grade is never used: 2 of 10 items" in review.to_text()
    few = graded(np.full((J, 3), GAP), y)
    few = Posterior(few.tree.isel(subject=slice(0, 6), missing_dims="ignore"))
    found = grades_by_item(few, q=0.1)
    assert (found["never_given"] != "").sum() > 2
    assert not found["unused"].any()


def test_better_subjects_with_worse_grades_and_flat_items_are_listed_in_words_of_grades():
    a = np.array([-1.0, 0.02, *[1.0] * (J - 2)])
    review = review_items(graded(np.full((J, 3), GAP), a=a))
    assert (review.flipped, review.redundant) == (["item 1"], ["item 2"])
    assert "item 1" in review.miskeyed
    said = review.to_text()
    assert "Better subjects get worse grades, so look at the rubric: 1 of 10" in said
    assert "key" not in said
    assert "graded the wrong way" in _note(review)


def test_answers_that_are_no_grades_have_no_columns_of_grades():
    review = review_items(posterior_of(np.tri(6, 5)))
    assert review.unused == review.merged == []
    assert "never_given" not in review.summary

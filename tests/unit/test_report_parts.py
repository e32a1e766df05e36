"""A report's statements on items and on the point estimate are supported by its tables."""

import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from bayesirt.checks.item_review import ItemReview, review_items
from bayesirt.estimators.registry import PointMethod
from bayesirt.inference.engines import EngineName
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.score_order import led_by_score
from bayesirt.report.export import ranking_as_markdown
from bayesirt.report.html import render_report
from bayesirt.report.item_part import MOST_LISTED, chosen_items, items_to_look_at
from bayesirt.report.methods import methods_of
from bayesirt.report.point_part import trust_in_point
from bayesirt.report.terminal import print_run

LISTS = ("flipped", "miskeyed", "duplicated", "near_duplicate", "saturated", "redundant")


def reviewed(run: Run, **lists: list[int]) -> ItemReview:
    """Return a run's review with only these items, by number, on the given lists."""
    review = review_items(run.posterior)
    table = review.summary.sort_values("item", key=lambda names: names.str[5:].astype(int))
    for name in LISTS:
        table[name] = np.isin(np.arange(len(table)), lists.get(name, []))
    table["reasons"] = ["listed" if row.any() else "" for row in table[list(LISTS)].to_numpy()]
    return replace(review, summary=table.reset_index(drop=True))


def test_curves_are_of_steep_hard_and_listed_items(small_run):
    items = small_run.items.assign(flag="")
    review = reviewed(small_run)
    chosen = chosen_items(review, items)
    steepest = items.nlargest(3, "a")["item"].tolist()
    hardest = review.summary.nsmallest(3, "expected")["item"].tolist()
    assert set(steepest) | set(hardest) == set(chosen)
    assert [chosen[name] for name in steepest] == ["among the steepest"] * 3
    lists = {"flipped": [0, 1], "miskeyed": [1, 2, 3], "redundant": [4, 5, 6]}
    chosen = chosen_items(reviewed(small_run, **lists), items)
    listed = {k: v for k, v in chosen.items() if not v.startswith("among")}
    assert set(listed.values()) == {"flipped", "mis-keyed", "redundant"}
    assert len(listed) == 5
    assert {"item 1", "item 2"} <= set(listed)
    assert len(chosen) - len(listed) <= 4


def test_items_that_rest_on_the_prior_are_no_examples(small_run):
    steepest = small_run.items.nlargest(2, "a")["item"]
    items = small_run.items.assign(
        flag=small_run.items["item"].isin(steepest).map({True: "x", False: ""})
    )
    assert not set(steepest) & set(chosen_items(reviewed(small_run), items))
    assert chosen_items(reviewed(small_run), items.assign(flag="all right"))


def test_rows_say_how_surely_each_list_holds(small_run, monkeypatch):
    review = reviewed(small_run, flipped=[3], miskeyed=[3], duplicated=[7], saturated=[8])
    table = review.summary
    table.loc[3, ["p_negative", "p_rest", "evidence"]] = 0.997, 0.0002, "evidence <b>3</b>"
    table.loc[7, "p_chance"], table.loc[8, "p_saturated"] = 3e-9, 0.91
    monkeypatch.setattr("bayesirt.report.item_part.review_items", lambda *_, **__: review)
    found = items_to_look_at(small_run)
    assert [(row["item"], row["reasons"], row["sure"]) for row in found["rows"]] == [
        ("item 4", "flipped, mis-keyed", "over 99%, p = 0.0002"),
        ("item 8", "copy", "by chance 3e-09"),
        ("item 9", "saturated", "91%"),
    ]
    assert found["note"] == (
        "Of 20 items, 1 item may have a wrong key and 1 item may be copied, item 4 first: see the "
        "items to look at."
    )
    page = render_report(small_run)
    assert "3 items for the authors of the questions" in page
    assert "evidence &lt;b&gt;3&lt;/b&gt;" in page
    assert "<b>3</b>" not in page


def test_only_what_calls_for_action_is_said_on_top(small_run, monkeypatch):
    for lists in ({}, {"saturated": [1], "redundant": [2, 3]}):
        review = reviewed(small_run, **lists)
        monkeypatch.setattr("bayesirt.report.item_part.review_items", lambda *_, r=review, **__: r)
        assert items_to_look_at(small_run)["note"] == ""


def test_long_lists_are_cut(small_run, monkeypatch):
    review = reviewed(small_run, redundant=[*range(20)])
    n = MOST_LISTED // 20 + 1
    many = pd.concat(
        [review.summary.assign(item=lambda t, k=k: t["item"] + f" {k}") for k in range(n)]
    )
    monkeypatch.setattr(ItemReview, "listed", many)
    monkeypatch.setattr("bayesirt.report.item_part.review_items", lambda *_, **__: review)
    found = items_to_look_at(small_run)
    assert (len(found["rows"]), found["listed"]) == (MOST_LISTED, 20 * n)
    page = render_report(small_run)
    assert f"The first 1,000 of {20 * n:,} items for the authors" in page


def test_whether_the_point_estimate_may_be_trusted_is_said_in_words(small_run, monkeypatch):
    comparison, verdict = small_run.comparison, small_run.posterior.verdict
    monkeypatch.setitem(vars(small_run.posterior), "verdict", replace(verdict, sound=True))

    def apart(n: int, n_items: int) -> str:
        subjects = comparison.subjects.assign(disagrees=np.arange(30) < n)
        items = comparison.items.assign(disagrees=np.arange(20) < n_items)
        run = replace(small_run, point=replace(small_run.point, converged=True))
        return trust_in_point(run, replace(comparison, subjects=subjects, items=items))

    assert apart(0, 0).startswith("The point estimate of abilities may be trusted: none of 30")
    assert apart(0, 0).endswith("may be trusted too, for all of 20 items.")
    assert "trusted with few exceptions: 1 of 30 subjects lies" in apart(1, 0)
    assert apart(3, 0).startswith("The point estimate of abilities may be trusted with")
    assert apart(4, 5).startswith(
        "Do not trust the point estimate of abilities: 4 of 30 subjects lie"
    )
    assert "from the posterior: for 5 of 20 items" in apart(4, 5)
    assert f"rank correlation of {comparison.rank_correlation:.3f}" in apart(0, 0)
    unsound = replace(verdict, sound=False)
    monkeypatch.setitem(vars(small_run.posterior), "verdict", unsound)
    assert trust_in_point(small_run, comparison).startswith("Sampling is not sound")
    stuck = replace(small_run.point, converged=False, stop_reason="out of steps")
    assert trust_in_point(replace(small_run, point=stuck), comparison) == (
        "Do not use the point estimate: it has not converged (out of steps)."
    )


def test_scores_of_complete_data_are_called_observed(small_run, capsys, monkeypatch, tmp_path):
    page = render_report(small_run)
    assert "scores are observed" in page
    assert "Expected score" not in page
    assert "(observed)" in ranking_as_markdown(small_run)
    monkeypatch.setenv("COLUMNS", "150")
    print_run(small_run, tmp_path)
    assert "observed" in capsys.readouterr().out
    summary = small_run.ranking.summary.copy()
    summary.loc[0, ["n_items", "expected_score_low"]] = 19, 0.01
    partial = replace(small_run, ranking=replace(small_run.ranking, summary=summary))
    page = render_report(partial)
    assert "missing ones are predicted" in page
    assert page.count("(observed)") == 29
    assert "(1.0 to " in page


def test_what_voids_a_ranking_comes_first(small_run, capsys, tmp_path):
    void = replace(small_run, ranking=replace(small_run.ranking, sound=False, warnings=("Void.",)))
    page = render_report(void)
    banner = page.index('<p class="verdict void" role="alert">Void.</p>')
    assert banner < page.index('class="short"')
    assert "It is too early to say who is best." in page
    assert "Probability of each rank" not in page
    assert page.count("The draws are not sound: do not quote these figures.") == 4
    print_run(void, tmp_path)
    assert capsys.readouterr().out.startswith("Void.\n")


def test_accuracies_lead_report_and_terminal_where_one_ability_explains_nothing(
    small_run, capsys, tmp_path
):
    ranking = replace(small_run.ranking, sound=True, warnings=())
    led = replace(small_run, ranking=led_by_score(ranking, "No."))
    page = render_report(led)
    assert page.index('<p class="verdict caution" role="alert">No.</p>') < page.index(
        "By accuracy, "
    )
    assert "Sorted by accuracy, best first" in page
    assert "scores are observed. Ranks refer to" in page
    assert "P(best)" not in page
    assert "Rank by ability" in page
    print_run(led, tmp_path)
    out = capsys.readouterr().out
    assert out.startswith("No.\n")
    assert "by ability" in out
    assert "tier" not in out


@pytest.mark.parametrize(
    ("known", "name"),
    [
        *(("engine", name) for name in get_args(EngineName) if name != "auto"),
        *(("point_estimator", name) for name in get_args(PointMethod) if name != "auto"),
    ],
)
def test_each_method_is_told_with_its_source(small_run, known, name):
    diagnostics = small_run.record.diagnostics | {known: name}
    run = replace(small_run, record=replace(small_run.record, diagnostics=diagnostics))
    for title, sentences in methods_of(run):
        assert re.search(r"\b(19|20)\d\d\b", sentences), title
    assert small_run.fit is None
    assert "Fit" not in dict(methods_of(run))

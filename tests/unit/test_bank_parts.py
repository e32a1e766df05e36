"""Parts of a bank's steps: anchors of each benchmark, kept answers, and errors by name."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest

from bayesirt import ResponseError, Responses
from bayesirt.bank.bank_tables import (
    anchor_answers,
    check_anchors,
    excess_figures,
    excess_from,
    kept_excess,
    most_abilities,
    with_anchors,
    with_kept_answers,
)
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.new_answers import read_answers
from bayesirt.bank.scoring import NewScores, answers_table
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.bank.suite.excess import Excess
from bayesirt.estimators.fixed_items import KnownItems

RNG = np.random.default_rng(0)
KNOWN = KnownItems(
    tuple(f"q{j}" for j in range(9)), np.exp(RNG.normal(size=(9, 1))), RNG.normal(size=9),
    np.zeros((9, 2, 2)),
)  # fmt: skip
LABELS = ["maths"] * 6 + ["law"] * 3
ANSWERS = pd.DataFrame(
    [("m1", "q0", 1, 1), ("m1", "q1", 0, 1), ("m2", "q0", 0, 1)],
    columns=["subject", "item", "successes", "trials"],
)


def bank() -> ItemBank:
    weights = np.array([0.5, 0.5, *[np.nan] * 4, 1.0, np.nan, np.nan])
    items = BankItems(KNOWN, tuple(LABELS), weights)
    return ItemBank(1, (BankStep("create", items, answers=ANSWERS),))


def test_each_benchmark_gets_its_anchors_and_small_ones_all_their_items():
    items = with_anchors(KNOWN, LABELS, 4, how="clusters", key=jax.random.key(0))
    assert len(items.anchors("maths")) == 4
    assert set(items.anchors("law")) == {"q6", "q7", "q8"}
    assert sum(items.anchors("maths").values()) == pytest.approx(1)


def test_as_many_abilities_are_tried_as_anchors_hold():
    assert most_abilities(LABELS, 4) == 3
    assert most_abilities(LABELS, 2) == 2
    check_anchors(LABELS, 3, 3)


def test_errors_come_back_from_their_figures():
    excess = Excess(0.001, 0.03, 0.2, {"law": -0.0004, "shared": 0.0}, 17)
    figures = excess_figures(excess)
    assert excess_from(figures) == excess
    first = bank().steps[0]
    more = replace(first, figures={"maths": figures | {"own_ahead": 1.0}})
    assert kept_excess(ItemBank(1, (more,))) == {"maths": excess}


def test_kept_answers_join_those_of_the_same_subjects():
    new = Responses.from_arrays([[1, 0], [0, 1]], subjects=["m1", "m9"], items=["n1", "n2"])
    joined = with_kept_answers(bank(), new)
    assert set(joined.subjects) == {"m1", "m9"}
    assert set(joined.items) == {"n1", "n2", "q0", "q1"}
    assert joined.n_observed == 6
    own = anchor_answers(joined, {"q0", "n2"})
    assert sorted(own["item"].unique()) == ["n2", "q0"]


def test_the_same_answer_twice_is_one_and_another_one_is_refused():
    same = Responses.from_arrays([[1, 0], [0, 1]], subjects=["m1", "m2"], items=["q0", "n"])
    assert with_kept_answers(bank(), same).n_observed == 5
    other = Responses.from_arrays([[0, 0], [0, 1]], subjects=["m1", "m2"], items=["q0", "n"])
    with pytest.raises(ResponseError, match=r"'m1'.*'q0'"):
        with_kept_answers(bank(), other)


def test_strangers_who_answered_no_item_of_the_bank_are_refused():
    new = Responses.from_arrays([[1, 0], [0, 1]], subjects=["x", "y"], items=["n1", "n2"])
    with pytest.raises(ResponseError, match="none of the 2 subjects is in the bank"):
        with_kept_answers(bank(), new)
    linked = Responses.from_arrays([[1, 0], [0, 1]], subjects=["x", "y"], items=["q3", "n2"])
    assert with_kept_answers(bank(), linked).n_observed == 4


def test_answers_of_new_subjects_are_read_by_name(tmp_path):
    file = tmp_path / "answers.csv"
    file.write_text("model,item,score\nnew,q1,1\nnew,q0,0\nother,q8,1\n")
    table = answers_table(read_answers(file, KNOWN.names), KNOWN.names)
    assert table.values.tolist() == [
        ["new", "q0", 0, 1], ["new", "q1", 1, 1], ["other", "q8", 1, 1],
    ]  # fmt: skip
    file.write_text("model,q0,q1\nnew,1,0\nidle,,\n")
    with pytest.raises(ResponseError, match="subject 'idle' has no answers"):
        answers_table(read_answers(file, KNOWN.names), KNOWN.names)


def test_scores_are_said_in_words():
    row = {
        "subject": "m\n1", "score": 0.52, "low": 0.5, "high": 0.54, "rank_low": 3, "rank_high": 3,
        "n_answered": 250, "more_anchors": pd.NA,
    }  # fmt: skip
    scores = NewScores(pd.DataFrame(), pd.DataFrame([row, row | {"more_anchors": 1200}]), 400)
    stuck, going = scores.to_text().splitlines()
    assert "52.0% of the suite (90% interval 50.0% to 54.0%), rank 3 of 400" in stuck
    assert stuck.endswith("More anchors would not halve the interval.")
    assert going.endswith("About 1,200 more would halve the interval.")

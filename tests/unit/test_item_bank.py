"""An item bank on disk: what it stores, what it refuses, and that no accident damages it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bank_data import (
    answers_to,
    assert_same_bank,
    contents,
    items_of,
    items_step,
    score_step,
    scores_of,
    subjects_of,
)

from bayesirt.bank.files import pack_step
from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.errors import ResponseError
from bayesirt.estimators.fixed_items import KnownItems


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a bank with one step."""
    create_bank_folder(tmp_path / "bank", items_step("maths"), 2)
    return tmp_path / "bank"


@pytest.fixture
def grown(folder: Path) -> ItemBank:
    append_step(folder, score_step("maths"))
    append_step(folder, items_step("law", "add"))
    append_step(folder, score_step("maths", "law"))
    return read_bank(folder)


def test_steps_are_kept_in_their_order(grown: ItemBank, folder: Path):
    assert repr(grown) == "<ItemBank: 2 benchmarks, 6 items, 4 anchors, 2 abilities, 4 steps>"
    assert grown.step_names == ("000-create", "001-score", "002-add", "003-score")
    assert sorted(p.name for p in folder.iterdir()) == ["bank.json", "bank.lock", "steps"]
    assert sorted(p.name for p in (folder / "steps").iterdir()) == list(grown.step_names)
    assert grown.benchmark_names == ("maths", "law")
    assert grown.benchmarks == ("maths",) * 3 + ("law",) * 3
    assert grown.items.names == tuple(f"{b} {j}" for b in ("maths", "law") for j in (1, 2, 3))
    np.testing.assert_array_equal(grown.items.a[3:], items_of("law").known.a)
    assert grown.items.covariance.shape == (6, 3, 3)


def test_anchors_are_told_with_their_weights(grown: ItemBank):
    assert grown.anchors("law") == {"law 1": 0.25, "law 3": 0.75}
    assert grown.anchor_items == ("maths 1", "maths 3", "law 1", "law 3")
    with pytest.raises(ResponseError, match="no benchmark 'lore'; its benchmarks are maths, law"):
        grown.anchors("lore")


def test_answers_of_all_steps_stand_together(grown: ItemBank):
    answers = grown.answers
    assert answers.subjects == ("gpt", "llama", "new")
    assert answers.items == ("maths 1", "maths 3", "law 1", "law 3")
    assert answers.n_observed == 12
    assert len(grown.answer_table) == 12


def test_scores_are_told_with_their_step(grown: ItemBank):
    history = grown.history
    assert history["step"].tolist() == ["001-score", "003-score", "003-score"]
    assert history["benchmark"].tolist() == ["maths", "maths", "law"]
    assert history["method"].tolist() == ["gp-IRT"] * 3


def test_subjects_stand_where_they_were_placed_last():
    last = replace(subjects_of(seed=1), names=("qwen", "gpt", "other"))
    steps = items_step("maths"), items_step("law", "add", subjects=last)
    subjects = ItemBank(2, steps).subjects
    assert subjects.names == ("gpt", "llama", "qwen", "other")
    np.testing.assert_array_equal(subjects.theta[[2, 0, 3]], last.theta)
    np.testing.assert_array_equal(subjects.theta[1], subjects_of().theta[1])
    np.testing.assert_array_equal(subjects.covariance[[2, 0, 3]], last.covariance)
    np.testing.assert_array_equal(subjects.accuracy[:3, 0], subjects_of().accuracy[:, 0])
    np.testing.assert_array_equal(subjects.accuracy[[2, 0, 3], 1], last.accuracy[:, 0])
    assert np.isnan(subjects.accuracy[[3, 1], [0, 1]]).all()


def test_a_bank_may_hold_items_only(tmp_path: Path):
    bank = create_bank_folder(tmp_path, BankStep("create", items_of("maths")), 2)
    assert bank.subjects is None
    assert bank.history.empty
    assert bank.answer_table.empty
    with pytest.raises(ResponseError, match="the bank keeps no answers"):
        _ = bank.answers
    assert_same_bank(read_bank(tmp_path), bank)


def test_what_is_kept_is_a_copy():
    table, settings = scores_of("maths"), {"levels": (1, 2)}
    step = BankStep("score", scores=table, settings=settings)
    table.loc[0, "accuracy"] = 0.0
    settings["levels"] = ()
    assert step.scores["accuracy"].tolist() == [0.5]
    assert step.settings == {"levels": [1, 2]}


def test_nothing_that_was_written_is_changed(folder: Path):
    before = contents(folder)
    append_step(folder, items_step("law", "add"))
    after = contents(folder)
    del before["bank.json"]
    assert before.items() <= after.items()


def test_the_files_can_be_read_by_others(folder: Path, grown: ItemBank):
    document = json.loads((folder / "bank.json").read_text("utf-8"))
    assert (document["format"], document["version"]) == ("bayesirt item bank", 2)
    assert document["abilities"] == 2
    assert document["steps"][2]["figures"] == {"law": {"variance": 0.01, "error": 0.1}}
    items = pd.read_parquet(folder / "steps" / "002-add" / "items.parquet")
    assert items["anchor"].tolist() == [True, False, True]
    assert [len(a) for a in items["a"]] == [2, 2, 2]
    assert [len(c) for c in items["covariance"]] == [9, 9, 9]


GOOD = items_of("maths")
ONE = KnownItems(("x",), np.ones((1, 2)), np.zeros(1), np.zeros((1, 3, 3)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: replace(GOOD, weights=np.ones(2)), "3 items, but 2 `weights`"),
        (lambda: replace(GOOD, benchmarks=("x",)), "3 items, but 1 `benchmarks`"),
        (lambda: replace(GOOD, benchmarks=("", "", "")), "one benchmark has an empty name"),
        (lambda: replace(GOOD, benchmarks=("a\0",) * 3), "'a·' is not valid text"),
        (lambda: replace(GOOD, benchmarks=("\udfff",) * 3), "'·' is not valid text"),
        (lambda: replace(GOOD, weights=np.full(3, np.nan)), "the 0 anchors of benchmark 'maths'"),
        (lambda: replace(GOOD, weights=np.array([0.5, 0.4, np.nan])), "their sum is 0.9"),
        (lambda: replace(GOOD, weights=np.array([1.0, 0.5, -0.5])), "must be above 0"),
        (lambda: replace(GOOD, weights=np.array([np.inf, 1, 1])), "their sum is inf"),
        (
            lambda: BankItems(ONE.select(np.array([], int)), (), np.array([])),
            "at least one item",
        ),
        (lambda: replace(subjects_of(), names=("a", "a", "b")), "'a' appears 2 times"),
        (lambda: replace(subjects_of(), names=("a",)), "`theta` of 1 reference subjects has shape"),
        (
            lambda: replace(subjects_of(), theta=np.array([[0, 0], [np.nan, 0], [0, 0]])),
            "`theta` of reference subject 'llama' is not finite",
        ),
        (
            lambda: replace(subjects_of(), accuracy=np.array([[np.inf], [0], [0]])),
            "`accuracy` of reference subject 'gpt' is not finite",
        ),
    ],
)
def test_parts_that_cannot_be_are_refused(make, sentence: str):
    with pytest.raises(ResponseError, match=sentence):
        make()


def changed(table: pd.DataFrame, column: str, *values: object) -> pd.DataFrame:
    return table.assign(**{column: pd.Series(values, dtype=object)})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BankStep("remove"), "kind must be one of create, add, score, got 'remove'"),
        (lambda: BankStep("add"), "kind 'add' must have `items`"),
        (lambda: BankStep("score"), "kind 'score' must have `scores`"),
        (lambda: items_step("maths", "score", scores=scores_of("maths")), "has no `items`"),
        (lambda: items_step("maths", scores=scores_of("maths")), "has no `scores`"),
        (
            lambda: items_step("maths", subjects=subjects_of(3)),
            "have 3 abilities, but items have 2",
        ),
        (
            lambda: items_step("maths", subjects=subjects_of(2, 2)),
            "accuracies on 2 benchmarks, but the items belong to 1",
        ),
        (lambda: items_step("maths", settings={"x": float("nan")}), "`settings` of a step cannot"),
        (lambda: items_step("maths", source={"x": {1}}), "`source` of a step cannot be stored"),
        (lambda: items_step("maths", source=[1]), "`source` of a step must be a dictionary"),
        (lambda: items_step("maths", figures={"maths": 1.0}), "'maths' must hold numbers by name"),
        (lambda: items_step("maths", figures={"maths": {"v": "1"}}), "must hold numbers by name"),
    ],
)
def test_steps_that_cannot_be_are_refused(make, sentence: str):
    with pytest.raises(ResponseError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (answers_to("maths 1").drop(columns="trials"), "no column `trials`"),
        (answers_to("maths 1").iloc[:0], "`answers` holds no answer"),
        (answers_to("maths 1").assign(trials=0, successes=0), "`answers` holds no answer"),
        (answers_to("maths 1", "maths 1"), "subject 'gpt', item 'maths 1' is duplicated"),
        (answers_to("maths 1").assign(successes=9), "`successes` is above `trials`: 9 of 1 at"),
        (answers_to("maths 1").assign(successes=0.5), "`successes` must be successes or a frac"),
        (answers_to("maths 1").assign(successes=np.nan), "`successes` is missing"),
        (changed(answers_to("maths 1"), "subject", "a", None), "missing in data row 2"),
        (changed(answers_to("maths 1"), "subject", "a", "b\0"), "'b·' is not valid text"),
        (changed(answers_to("maths 1"), "subject", "a", "\ud800"), "is not valid text"),
    ],
)
def test_answers_that_are_none_are_refused(answers: pd.DataFrame, sentence: str):
    with pytest.raises(ResponseError, match=sentence):
        items_step("maths", answers=answers)


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (scores_of("maths").drop(columns="low"), "no column `low`"),
        (changed(scores_of("maths"), "subject", "a\0"), "'a·' is not valid text"),
        (changed(scores_of("maths"), "subject", "\ud800"), "'·' is not valid text"),
        (scores_of("maths").iloc[:0], "`scores` holds no score"),
        (scores_of("maths", "maths"), "subject 'new', benchmark 'maths' is duplicated"),
        (scores_of("maths").assign(step=1), "cannot have a column `step`"),
        (scores_of("maths").assign(low=np.inf), "`low` must be a finite number"),
        (scores_of("maths").assign(high=np.nan), "`high` is missing"),
        (scores_of("maths").assign(x=[[1]]), "column `x` of the scores cannot be stored"),
        (changed(scores_of("maths", "law"), "x", 1, "a"), "column `x` of the scores cannot be"),
        (scores_of("maths").rename(columns={"method": ""}), "column of the scores has an empty"),
        (scores_of("maths").rename(columns={"method": "low"}), "'low' appears 2 times"),
    ],
)
def test_scores_that_are_none_are_refused(scores: pd.DataFrame, sentence: str):
    with pytest.raises(ResponseError, match=sentence):
        BankStep("score", scores=scores)


def test_the_same_answer_may_come_twice(folder: Path):
    again = items_step("law", "add", answers=answers_to("maths 1", "law 1"))
    assert len(append_step(folder, again).answer_table) == 4 + 2


def test_a_bank_begins_with_its_creation():
    with pytest.raises(ResponseError, match="the first step of a bank"):
        ItemBank(2, ())
    with pytest.raises(ResponseError, match="the first step of a bank"):
        ItemBank(2, (items_step("law", "add"), items_step("maths")))


def test_files_hold_only_what_a_step_has():
    assert list(pack_step(score_step("maths"))) == ["answers.parquet", "scores.parquet"]
    assert list(pack_step(BankStep("create", items_of("maths")))) == ["items.parquet"]


def test_numbers_of_any_precision_and_order_are_kept_as_doubles(tmp_path: Path):
    known = GOOD.known
    a = np.asfortranarray(known.a.astype(np.float32))
    narrow = KnownItems(known.names, a, known.d[::-1], known.covariance.transpose(0, 2, 1))
    create_bank_folder(tmp_path, BankStep("create", replace(GOOD, known=narrow)), np.int64(2))
    found = read_bank(tmp_path).items
    np.testing.assert_array_equal(found.a, a.astype(np.float64), strict=True)
    np.testing.assert_array_equal(found.d, known.d[::-1])
    np.testing.assert_array_equal(found.covariance, known.covariance.transpose(0, 2, 1))

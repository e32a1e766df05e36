"""`next-item` on an item bank: the score so far, the best next items, and when to stop."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from cli.conftest import Cli

from bayesirt.bank.folder import create_bank_folder, read_bank
from bayesirt.bank.next_anchors import suggest_anchors
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.estimators.fixed_items import KnownItems


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    a, d = rng.normal(1, 0.4, (20, 2)), rng.normal(size=20)
    known = KnownItems(tuple(f"q{j}" for j in range(20)), a, d, np.zeros((20, 3, 3)))
    labels = ("maths",) * 12 + ("[law]",) * 8
    weights = np.where(np.arange(20) % 4 == 0, np.repeat([1 / 3, 1 / 2], [12, 8]), np.nan)
    folder = tmp_path_factory.mktemp("bank")
    create_bank_folder(folder, BankStep("create", BankItems(known, labels, weights)), 2)
    return folder


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_text("model,item,score\nx,q1,1\nx,q2,0\ny,q1,0\n")
    return path


def test_each_subject_gets_its_score_and_its_own_next_items(cli: Cli, bank: Path, answers: Path):
    shown = cli("next-item", bank, answers, "-n", 2, "--stop-width", 0.01)
    assert (shown.code, shown.err) == (0, "")
    assert "x: " in shown.words
    assert "% of the suite (90% interval " in shown.words
    assert "after 2 answers." in shown.words
    assert "after 1 answer." in shown.words
    assert shown.words.count("not yet shorter than 1: continue.") == 2
    assert shown.words.count(" Next: q") == 2
    assert len([line for line in shown.out.splitlines() if line.startswith("q")]) == 4


def test_json_is_what_the_library_says(cli: Cli, bank: Path, answers: Path):
    words = ("--subject", "x", "-n", 3, "--stop-width", 0.9, "--seed", 4, "--json")
    told = json.loads(cli("next-item", bank, answers, *words).out)
    (found,) = told["subjects"]
    fresh = json.loads(cli("next-item", bank, "--json", "--seed", 4).out)
    expected = suggest_anchors(read_bank(bank), key=jax.random.key(4))["a new subject"]
    assert fresh["subjects"][0]["score"]["sd"] == pytest.approx(expected.so_far.sd)
    assert [row["item"] for row in fresh["subjects"][0]["next"]] == list(
        expected.summary["item"][:5]
    )
    assert (found["subject"], found["score"]["n_answers"], len(found["next"])) == ("x", 2, 3)
    assert found["stop"] == {"width": 0.9, "met": True}
    assert found["text"].endswith("shorter than 90: precise enough, so stop.")
    assert {row["benchmark"] for row in found["next"]} <= {"maths", "[law]"}

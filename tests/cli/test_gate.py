"""`gate` reports whether a candidate regressed, with an exit code that a script can act on."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

from bayesirt.bank.folder import create_bank_folder
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.estimators.fixed_items import KnownItems

pytest_plugins = ["pytester"]


def answers(rows: dict[str, list[int]], topic: int = 20) -> pd.DataFrame:
    n = len(next(iter(rows.values())))
    items = [f"q{k}" for k in range(n)]
    frames = [pd.DataFrame({"model": name, "item": items, "score": y}) for name, y in rows.items()]
    table = pd.concat(frames, ignore_index=True)
    return table.assign(topic=np.where(table["item"].str[1:].astype(int) < topic, "x", "y"))


GOOD = [1] * 50 + [0] * 10
ROWS = {
    "old": GOOD,
    "worse": [0] * 14 + GOOD[14:],
    "better": GOOD[:50] + [1] * 10,
    "like": [0, 0, *GOOD[2:50], 1, 1, 1, *GOOD[53:]],
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "results.csv"
    answers(ROWS).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("candidate", "more", "code", "verdict"),
    [
        ("worse", (), 1, "regression"),
        ("better", (), 0, "improvement"),
        ("like", (), 3, "undecided"),
        ("like", ("--undecided", "pass"), 0, "undecided"),
        ("like", ("--undecided", "fail"), 1, "undecided"),
        ("like", ("--margin", "0.2"), 0, "equivalent"),
        ("better", ("--cheaper",), 1, "improvement"),
    ],
)
def test_exit_code_follows_the_verdict(cli: Cli, table: Path, candidate, more, code, verdict):
    words = ("gate", table, "--baseline", "old", "--candidate", candidate, *more)
    shown = cli(*words, "--json")
    assert (shown.code, shown.err) == (code, "")
    assert json.loads(shown.out)["verdict"] == verdict
    assert cli(*words).out.startswith(f"{candidate} scores ")
    assert cli(*words, "--markdown").out.startswith(f"### Gate: {verdict}")


@pytest.mark.parametrize("wide", [False, True])
def test_two_files_of_one_model_each_are_old_and_new(cli: Cli, tmp_path: Path, wide: bool):
    for name, row in (("old", "old"), ("new", "worse")):
        rows = answers({"agent": ROWS[row]})
        if wide:
            rows.pivot(index="model", columns="item", values="score").to_csv(tmp_path / name)
            (tmp_path / name).rename(tmp_path / f"{name}.csv")
        else:
            rows.to_csv(tmp_path / f"{name}.csv", index=False)
    shown = cli("gate", tmp_path / "old.csv", tmp_path / "new.csv", "--json")
    told = json.loads(shown.out)
    assert (told["baseline"], told["candidate"]) == ("agent (old)", "agent (new)")
    assert (shown.code, told["n_questions"]) == (1, 60)


def test_two_folders_of_logs_are_old_and_new(cli: Cli, tmp_path: Path):
    names = [f"i{k}" for k in range(12)]
    for when, lost in (("old", 1), ("new", 9)):
        (tmp_path / when).mkdir()
        report = {"resolved_ids": names[lost:], "unresolved_ids": names[:lost]}
        (tmp_path / when / "agent.run.json").write_text(json.dumps(report))
    told = json.loads(cli("gate", tmp_path / "old", tmp_path / "new", "--json").out)
    assert (told["baseline"], told["candidate"]) == ("agent (old)", "agent (new)")
    assert told["difference"] == pytest.approx(-8 / 12)
    assert told["verdict"] == "regression"
    answers({"agent": GOOD}).to_csv(tmp_path / "t.csv", index=False)
    shown = cli("gate", tmp_path / "old", tmp_path / "t.csv", "--threshold", 0.5)
    assert "bayesirt convert" in shown.err


def test_files_are_written_and_groups_respected(cli: Cli, table: Path, tmp_path: Path):
    page, junit = tmp_path / "gate.html", tmp_path / "gate.xml"
    shown = cli(
        "gate", table, "--baseline", "old", "--candidate", "worse", "--candidate", "like",
        "--group", "topic", "--report", page, "--junit", junit, "--json",
    )  # fmt: skip
    told = json.loads(shown.out)
    assert [one["n_groups"] for one in told] == [2, 2]
    assert [one["sure"] for one in told] == pytest.approx([0.975] * 2)
    assert "Did the candidate regress?" in page.read_text()
    assert 'tests="2"' in junit.read_text()


def test_metrics_judged_together_share_one_in_twenty(cli: Cli, table: Path):
    words = ("gate", table, "--baseline", "old", "--candidate", "worse", "--json")
    assert json.loads(cli(*words, "--together", 5).out)["sure"] == pytest.approx(0.99)


def test_state_goes_from_look_to_look(cli: Cli, table: Path, tmp_path: Path):
    state = tmp_path / "state.json"
    words = ("gate", table, "--baseline", "old", "--candidate", "worse", "--sequential", state)
    first = json.loads(cli(*words, "--json").out)
    assert (first["looks"], first["new_questions"]) == (1, 60)
    again = json.loads(cli(*words, "--json").out)
    assert (again["looks"], again["new_questions"]) == (1, 0)
    assert first["evidence_drop"] == again["evidence_drop"] > 1
    shown = cli(*words, "--margin", "0.1")
    assert shown.code == 2
    assert "another comparison" in shown.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--baseline", "old"), "--candidate"),
        (("--baseline", "old", "--candidate", "wrose"), "'worse'"),
        (("--baseline", "old", "--candidate", "old"), "both 'old'"),
        (("--baseline", "old", "--candidate", "like", "--margin", "3"), "0.03"),
        (("--baseline", "old", "--candidate", "like", "--margin", "-0.1"), "from 0 to below 1"),
        (("--baseline", "old", "--candidate", "like", "--margin", "nan"), "from 0 to below 1"),
        (("--baseline", "old", "--candidate", "like", "--candidate", "like"), "twice"),
        (("--baseline", "old", "--candidate", "like", "--group", "stem"), "'topic'"),
    ],
)
def test_bad_input_is_one_sentence(cli: Cli, table: Path, words, named):
    shown = cli("gate", table, *words)
    assert (shown.code, shown.out) == (2, "")
    assert named in shown.err
    assert len(shown.err.strip().splitlines()) == 1


def test_a_bank_is_a_history(cli: Cli, table: Path, tmp_path: Path):
    """The bank holds all 60 questions, so the difference through it is the same."""
    known = KnownItems(
        tuple(f"q{k}" for k in range(60)), np.ones((60, 1)), np.ones(60), np.zeros((60, 2, 2))
    )
    weights = np.where(np.arange(60) % 6 == 0, 1 / 10, np.nan)
    bank = tmp_path / "bank"
    create_bank_folder(bank, BankStep("create", BankItems(known, ("maths",) * 60, weights)), 1)
    words = ("gate", table, "--baseline", "old", "--candidate", "worse", "--history", bank)
    told = json.loads(cli(*words, "--json").out)
    assert told["verdict"] == "regression"
    assert told["history_n_questions"] == 60
    assert told["history_difference"] == pytest.approx(-14 / 60, abs=0.02)
    assert "1 benchmark of the bank" in cli(*words).out
    frame = answers(ROWS)
    frame.assign(item="z" + frame["item"]).to_csv(table, index=False)
    assert "of this suite" in cli(*words).err


def test_two_files_without_a_common_question_are_refused(cli: Cli, table: Path, tmp_path: Path):
    other = tmp_path / "other.csv"
    frame = answers({"agent": GOOD})
    frame.assign(item="z" + frame["item"]).to_csv(other, index=False)
    shown = cli("gate", table, other, "--baseline", "old")
    assert shown.code == 2
    assert "no question in common" in shown.err
    shown = cli("gate", table, table)
    assert "choose with --baseline" in shown.err


def test_the_fixture_fails_a_test_of_a_regression(pytester: pytest.Pytester, table: Path):
    pytester.makepyfile(
        f"""
        def test_worse(bayesirt_gate):
            bayesirt_gate({str(table)!r}, baseline="old", candidate="worse")

        def test_better(bayesirt_gate):
            assert bayesirt_gate({str(table)!r}, baseline="old", candidate="better").passes

        def test_like(bayesirt_gate):
            bayesirt_gate({str(table)!r}, baseline="old", candidate="like")
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(
        passed=1, failed=1, skipped=1
    )

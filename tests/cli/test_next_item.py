"""`next-item` reports the estimate, the next item and when to stop, and refuses bad input."""

import json
from pathlib import Path

import pytest
from cli.conftest import Cli

from bayesirt.bank.adaptive import rank_next_items
from bayesirt.bank.new_answers import answers_of
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.run_folder import save_run
from bayesirt.report.html import render_report

ANSWERS = "model,item,score\nx,item 1,1\nx,item 2,0\ny,item 1,0\n"


@pytest.fixture(scope="module")
def folder(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    save_run(small_run, path, render_report(small_run))
    return path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_text(ANSWERS)
    return path


def test_each_subject_gets_its_own_suggestion(cli: Cli, folder: Path, answers: Path):
    shown = cli("next-item", folder, answers, "-n", "2")
    assert (shown.code, shown.err) == (0, "")
    assert "x: Ability +" in shown.words
    assert "after 2 answers." in shown.words
    assert "y: Ability -" in shown.words
    assert "after 1 answer." in shown.words
    assert shown.words.count(" Next: item ") == 2
    rows = [line for line in shown.out.splitlines() if line.startswith("item ") and "%" in line]
    assert len(rows) == 4


def test_json_is_what_the_library_says(cli: Cli, folder: Path, answers: Path, small_run: Run):
    words = ("--subject", "x", "--criterion", "variance", "-n", "3", "--stop-width", "9", "--json")
    told = json.loads(cli("next-item", folder, answers, *words).out)
    posterior = small_run.posterior
    own = answers_of({"item 1": 1, "item 2": 0}, posterior.items)
    expected = rank_next_items(posterior, own, criterion="variance")
    (found,) = told["subjects"]
    assert told["criterion"] == "variance"
    assert told["verdict"]["sound"] == posterior.verdict.sound
    assert (found["subject"], found["answers"], found["speed"]) == ("x", 2, None)
    assert found["ability"]["mean"] == pytest.approx(expected.so_far.ability.mean)
    assert found["ability"]["width"] == pytest.approx(expected.so_far.ability.width)
    assert found["stop"] == {"width": 9.0, "met": True}
    assert found["text"].endswith("wide, shorter than 9: precise enough, so stop.")
    assert [row["item"] for row in found["next"]] == list(expected.summary["item"][:3])
    assert found["next"][0]["variance"] == pytest.approx(expected.summary["variance"][0])


def test_without_answers_it_starts_from_the_population(cli: Cli, folder: Path):
    shown = cli("next-item", folder, "--stop-width", "0.5")
    assert shown.code == 0
    assert "(90% interval -1.64 to +1.64) before any answer." in shown.words
    assert (
        "The interval of ability is 3.29 wide, not yet shorter than 0.5: continue." in shown.words
    )
    assert " Next: item " in shown.words


def test_an_unsound_run_says_so(cli: Cli, folder: Path, small_run: Run):
    verdict = small_run.posterior.verdict
    said = "The run's items: " in cli("next-item", folder).words
    assert said == (not verdict.sound or verdict.unconverged > 0)


def everything(run: Run) -> str:
    return "item,score\n" + "".join(f"{name},1\n" for name in run.posterior.items)


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("item,score\nitem 77,1\n", (), "items that were not calibrated: 'item 77'; leave"),
        (ANSWERS, ("--subject", "z"), "no answers from subject 'z'; the subjects are 'x', 'y'"),
        (ANSWERS, ("--stop-width", "0"), "the width to stop at must be above 0, got 0"),
        (ANSWERS, ("--stop-width", "nan"), "the width to stop at must be above 0, got nan"),
        (None, (), "subject 'the subject': all 20 items were answered, so there is no next item"),
        ("item,score\n", (), "answers.csv has a header but no rows"),
    ],
)
def test_bad_input_is_one_sentence(
    cli: Cli, folder: Path, answers: Path, small_run: Run, text: str | None, words, sentence: str
):
    answers.write_text(everything(small_run) if text is None else text)
    shown = cli("next-item", folder, answers, *words)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"bayesirt: {sentence}")
    assert len(shown.err.splitlines()) == 1


def test_a_folder_that_is_no_run_is_refused(cli: Cli, answers: Path):
    shown = cli("next-item", answers.parent, answers)
    assert (shown.code, shown.out) == (2, "")
    assert "holds no run; make one with bayesirt rank" in shown.err

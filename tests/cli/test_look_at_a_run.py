"""`separate` and `export` on a finished run."""

import json
from pathlib import Path

import pandas as pd
import pytest
from cli.conftest import Cli
from cli.test_bad_input import sentence
from quick_commands import write_inputs

from bayesirt.ranking.run_folder import load_run

FAST = ("--engine", "laplace", "--draws", "20", "--chains", "2", "--no-check-fit", "-q")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("look") / "inputs") / "r.csv"


@pytest.fixture
def run(cli: Cli, results: Path) -> Path:
    out = results.parent / "run"
    if not out.exists():
        assert cli("rank", results, "--out", out, *FAST).code == 0
    return out


def test_two_subjects_are_compared_in_a_sentence(cli: Cli, run: Path):
    names = list(load_run(run).ranking.summary["subject"])
    said = cli("separate", run, names[0], names[-1])
    assert (said.code, said.err) == (0, "")
    assert f"{names[0]} is above {names[-1]} with probability" in said.out
    told = json.loads(cli("separate", run, names[3], names[4], "--json").out)
    assert {told["first"], told["second"]} == {names[3], names[4]}


def test_neighbours_are_compared_in_a_table(cli: Cli, run: Path):
    said = cli("separate", run)
    assert "extra questions" in said.out
    assert "are detected with 80% power" in said.words
    told = json.loads(cli("separate", run, "--json").out)
    assert len(told["neighbours"]) == 29
    assert told["detectable"]["ability"] > 0
    assert "Infinity" not in cli("separate", run, "--json").out


def test_the_ranking_is_exported(cli: Cli, run: Path, tmp_path: Path):
    names = list(load_run(run).ranking.summary["subject"])
    for how, mark in (("markdown", "| Rank |"), ("latex", r"\toprule"), ("json", '"schema": 1')):
        shown = cli("export", run, "--format", how)
        assert (shown.code, shown.err) == (0, "")
        assert mark in shown.out
        assert all(name in shown.out for name in names)
        out = tmp_path / f"ranking.{how}"
        assert cli("export", run, "--format", how, "--out", out) == (0, "", "")
        assert out.read_text("utf-8") == shown.out


def test_anchors_give_a_scale_of_ones_own(cli: Cli, run: Path, results: Path, tmp_path: Path):
    names = list(load_run(run).ranking.summary["subject"])
    best, worst = names[0], names[-1]
    command = ("rank", results, "--out", tmp_path / "run", "--overwrite", *FAST[:-1])
    anchors = ("--anchor", f"{best}=150", "--anchor", f"{worst}=100")
    shown = cli(*command, *anchors, "--json")
    rows = {row["subject"]: row for row in json.loads(shown.out)["ranking"]}
    assert rows[best]["scale"] == pytest.approx(150)
    assert rows[worst]["scale"] == pytest.approx(100)
    table = load_run(tmp_path / "run").ranking.summary
    assert table["scale"].iloc[0] == pytest.approx(150)
    printed = cli(*command, *anchors).out
    (row,) = (line for line in printed.splitlines() if line.split()[:1] == ["1"] and best in line)
    assert " 150 " in row
    assert "scale" in printed.split(best)[0]
    assert "standardised" not in printed
    turned = cli(*command, "--anchor", f"{best}=100", "--anchor", f"{worst}=150")
    assert turned.code == 0
    assert "There is no scale: " in turned.words
    assert "scale" not in load_run(tmp_path / "run").ranking.summary


def test_bad_requests_are_one_sentence(cli: Cli, run: Path, results: Path, tmp_path: Path):
    for words, said in (
        (("separate", run, "m0"), "name two to compare, or none, got 1"),
        (("separate", run, "m0", "who"), "'who' is not a subject"),
        (("separate", tmp_path), "holds no run"),
        (("export", tmp_path), "holds no run"),
        (("export", run, "--out", tmp_path), "cannot be written"),
        (("rank", results, "--out", tmp_path / "x", "--anchor", "m0"), "NAME=130"),
        (("rank", results, "--out", tmp_path / "x", "--anchor", "who=1"), "'who' is not a subject"),
        (("rank", results, "--out", tmp_path / "x", "--anchor", "m0=nan"), "NAME=130"),
    ):
        assert said in sentence(cli(*words))
    assert not (tmp_path / "x").exists()


def test_pictures_are_listed_and_drawn(cli: Cli, run: Path, tmp_path: Path):
    listed = cli("plot", run)
    assert listed.out.startswith("abilities    Abilities with their 90% intervals\n")
    assert "Ranks by accuracy and by ability" in listed.out
    drawn = cli("plot", run, "flow", "--out", tmp_path / "flow.pdf")
    assert (drawn.code, drawn.err) == (0, "")
    assert (tmp_path / "flow.pdf").read_bytes().startswith(b"%PDF")
    assert "did you mean flow?" in sentence(cli("plot", run, "flwo"))


def test_a_paragraph_and_its_sources_are_printed(cli: Cli, run: Path):
    said = cli("cite", run)
    assert said.code == 0
    assert "subjects were ranked on" in said.out
    assert "@article{mogstad2024" in said.out


def test_the_questions_to_keep_are_listed(cli: Cli, run: Path, tmp_path: Path):
    said = cli("keep", run, "-n", 3, "--out", tmp_path / "keep.csv")
    assert said.code == 0, said.err
    assert "3 of " in said.words
    assert len(pd.read_csv(tmp_path / "keep.csv")) == 3
    told = json.loads(cli("keep", run, "-n", 2, "--json").out)
    assert [*told["items"][0]] == ["item", "sd", "pairs"]
    assert "the number of items; got 9999" in sentence(cli("keep", run, "-n", 9999))

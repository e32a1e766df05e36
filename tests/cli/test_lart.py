"""`bayesirt rank --model lart`, as a user runs it."""

import json

import pandas as pd
import pytest
from lart_data import simulate_lart

from bayesirt.report import render_report
from bayesirt.run_folder import load_run

SHORT = ("--warmup", "50", "--draws", "60", "--no-check-fit")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("lart") / "results.csv"
    table = simulate_lart(60, 20)[0].to_long()
    table = table.rename(columns={"latency": "tokens", "successes": "score"})
    table.drop(columns="trials").to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_rank_takes_lengths_from_the_file(cli, results, tmp_path):
    out = tmp_path / "run"
    done = cli("rank", results, "--model", "lart", "--out", out, *SHORT)
    assert done.code == 0, done.err
    assert "the abler take longer" in done.words
    run = load_run(out)
    assert run.gain.to_text() in done.words
    ranking = pd.read_csv(out / "ranking.csv")
    assert (ranking["speed_low"] < ranking["speed"]).all()
    assert list(pd.read_csv(out / "lengths.csv")["subject"]) == list(ranking["subject"])
    report = (out / "report.html").read_text("utf-8")
    assert report == render_report(run)
    assert "Ability and length" in report
    assert "two-parameter probit model" in report


@pytest.mark.slow
def test_json_has_the_sentence_on_lengths(cli, results, tmp_path):
    done = cli("rank", results, "--model", "lart", "--json", "--out", tmp_path / "run", *SHORT)
    assert "Ability and speed correlate at" in json.loads(done.out)["lengths"]


@pytest.mark.slow
def test_wrong_answers_may_have_lengths_of_their_own(cli, results, tmp_path):
    out = tmp_path / "run"
    done = cli("rank", results, "--model", "lart", "--wrong-lengths", "--out", out, *SHORT)
    assert done.code == 0, done.err
    run = load_run(out)
    said = run.wrong.to_text()
    assert said.startswith("Wrong answers are ")
    assert "ELPD" in said
    assert said in done.words
    items = pd.read_csv(out / "items.csv")
    assert (items["delta_low"] < items["delta_high"]).all()
    record = json.loads((out / "run.json").read_text("utf-8"))
    assert record["settings"]["wrong_lengths"] is True
    assert record["seconds"]["plain LaRT"] > 0
    assert run.posterior.tree.attrs["wrong_lengths"] == 1
    report = (out / "report.html").read_text("utf-8")
    assert report == render_report(run)
    assert said in report
    assert "wrong answers with lengths of their own" in report


def test_lengths_of_wrong_answers_are_refused_without_lart(cli, example_csv, tmp_path):
    done = cli("rank", example_csv, "--wrong-lengths", "--out", tmp_path / "run")
    assert done.code == 2
    assert done.err.strip() == (
        "bayesirt: wrong answers have lengths of their own in lart, not in 2pl, which takes "
        "answers alone; pass --model lart, or leave out --wrong-lengths"
    )
    assert not (tmp_path / "run").exists()


def test_a_file_without_lengths_is_one_sentence(cli, example_csv, tmp_path):
    done = cli("rank", example_csv, "--model", "lart", "--out", tmp_path / "run")
    assert done.code == 2
    assert done.err.strip() == (
        "bayesirt: LaRT needs the length or time of responses; name its column with --latency, or "
        "leave out --model lart"
    )
    assert not (tmp_path / "run").exists()

"""`rank --update` ranks results that have grown, starting from the previous run."""

import json
from pathlib import Path

import pandas as pd
import pytest
from bank_data import contents
from cli.conftest import Cli
from cli.test_bad_input import sentence
from quick_commands import write_inputs

from bayesirt.ranking.run_folder import load_run

FAST = ("--engine", "laplace", "--draws", "20", "--chains", "2", "--no-check-fit")
MORE = "".join(f"new,q{j},{j % 3 == 0:d},law\n" for j in range(20)) + "m0,r,1,law\nm1,r,0,law\n"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_inputs(tmp_path / "inputs") / "r.csv"


def grow(results: Path) -> None:
    text = results.read_text()
    line = next(line for line in text.splitlines() if line.startswith("m3,q0,"))
    flipped = line.replace(",0,", ",?,").replace(",1,", ",0,").replace(",?,", ",1,")
    results.write_text(text.replace(line, flipped) + MORE)


def test_grown_results_go_on_from_the_run_before(cli: Cli, results: Path, tmp_path: Path):
    out = tmp_path / "run"
    command = ("rank", results, "--out", out, "--update", *FAST)
    first = cli(*command)
    assert first.code == 0
    assert "Since the last run" not in first.out + first.err
    assert load_run(out).record.settings.warmup == 250
    made = contents(out)

    again = cli(*command)
    assert "Since the last run nothing has changed." in again.err
    assert contents(out) == made
    assert again.out == first.out

    grow(results)
    grown = cli(*command)
    assert grown.code == 0
    told = (
        "Since the last run: 1 subject is new (new), 1 item is new (r), 22 answers are new, 1 is "
        "different."
    )
    assert told in grown.err
    assert told in grown.words
    assert "New: new at rank " in grown.words
    run = load_run(out)
    assert run.record.settings.warmup == 250
    assert run.record.diagnostics["changes"]["n_new"] == 22
    assert run.record.diagnostics["changes"]["new_subjects"] == ["new"]
    assert (run.record.data.subjects, run.record.data.items) == (31, 21)
    shown = json.loads(cli(*command, "--json").out)
    assert "changes" not in shown  # since that run
    assert told in (out / "report.html").read_text("utf-8")


def test_clusters_of_subjects_are_something_new(cli: Cli, results: Path, tmp_path: Path):
    out, clusters = tmp_path / "run", tmp_path / "clusters.csv"
    names = "".join(f"m{k},llm{k // 3}\n" for k in range(30))
    clusters.write_text("subject,cluster\n" + names)
    command = ("rank", results, "--out", out, "--update")
    assert cli(*command, *FAST, "-q").code == 0
    assert not (out / "clusters.csv").exists()
    command += ("--cluster", clusters, "--draws", "50", "--warmup", "50", "--no-check-fit")
    clustered = cli(*command)
    assert "Since the last run: the clusters are different" in clustered.err
    assert clustered.words.startswith("Do not trust this ranking yet")  # because of so few draws
    table = pd.read_csv(out / "clusters.csv")
    assert sorted(table["cluster"]) == sorted(f"llm{k}" for k in range(10))
    assert set(pd.read_csv(out / "ranking.csv")["cluster"]) == set(table["cluster"])
    assert '<h2 id="clusters">' in (out / "report.html").read_text("utf-8")
    made = contents(out)
    shown = json.loads(cli(*command, "--json").out)
    assert contents(out) == made
    assert [row["cluster"] for row in shown["clusters"]["ranking"]] == list(table["cluster"])
    assert 0 < shown["clusters"]["icc_low"] < shown["clusters"]["icc"] < 1


def test_a_run_that_was_not_sound_is_drawn_again_if_asked_otherwise(
    cli: Cli, results: Path, tmp_path: Path
):
    command = ("rank", results, "--out", tmp_path / "run", "--update", "--no-check-fit")
    few = ("--engine", "blocked", "--draws", "10", "--warmup", "10", "--budget", "0")
    assert cli(*command, *few).words.startswith("Do not trust this ranking yet")
    assert "nothing has changed" in cli(*command, *few).err
    drawn = cli(*command, *FAST)
    assert "Since the last run: its draws were not sound." in drawn.err
    assert load_run(tmp_path / "run").record.settings.engine == "laplace"
    sound = cli(*command, *FAST, "--seed", "1")
    assert "nothing has changed" in sound.err
    assert "Its draws are sound, so they stay; pass --overwrite for new ones." in sound.err
    assert "Since the last run" not in sound.out


def test_what_cannot_go_on_is_refused_and_stays(cli: Cli, results: Path, tmp_path: Path):
    out = tmp_path / "run"
    command = ("rank", results, "--out", out, *FAST)
    assert cli(*command, "-q").code == 0
    made = contents(out)
    said = sentence(cli(*command, "--update", "--slopes", "free"))
    assert "was made with 2PL" in said
    assert "pass --overwrite" in said
    assert "--per-component" in sentence(cli(*command, "--update", "--per-component"))
    assert "pass --overwrite" in sentence(cli(*command))
    assert contents(out) == made
    (out / "run.json").write_text("{")
    assert "is damaged" in sentence(cli(*command, "--update"))
    (out / "mine.txt").write_text("mine")
    assert "'mine.txt' beside a run" in sentence(cli(*command, "--update"))


def test_the_record_says_how_results_were_read(cli: Cli, results: Path, tmp_path: Path):
    out = tmp_path / "run"
    results.write_text(results.read_text().replace(",1,", ",0.8,").replace(",0,", ",0.2,"))
    assert cli("rank", results, "--out", out, "--threshold", "0.5", *FAST, "-q").code == 0
    assert load_run(out).record.data.reading == {"threshold": 0.5}
    assert "threshold 0.5" in (out / "report.html").read_text("utf-8")

"""What the commands print and write."""

import csv
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cli.conftest import run_command
from quick_engine import draw_near

import bayesirt
from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.run_folder import load_run

FILES = {
    "ranking.csv", "items.csv", "pairwise.csv", "point.nc", "posterior.nc", "report.html",
    "run.json",
}  # fmt: skip
RANKING = [
    "subject", "accuracy", "rank_by_accuracy", "ability", "ability_sd", "ability_low",
    "ability_high", "rank", "rank_low", "rank_high", "rank_set_low", "rank_set_high", "p_best",
    "p_top3", "p_top10", "tier", "expected_score", "expected_score_low", "expected_score_high",
    "score_rank", "score_rank_low", "score_rank_high", "n_items", "n_trials", "flag",
]  # fmt: skip
ITEMS = [
    "item", "accuracy", "a", "a_low", "a_high", "d", "d_low", "d_high", "b", "b_low", "b_high",
    "n_subjects", "flag",
]  # fmt: skip
FAST = ("--warmup", "40", "--draws", "60", "--chains", "2", "--seed", "7", "--no-check-fit")
N_SUBJECTS, N_ITEMS = 8, 6


def write_results(path: Path, groups: str = "g") -> Path:
    rng = np.random.default_rng(1)
    ability, intercept = np.linspace(-2, 2, N_SUBJECTS), rng.normal(size=N_ITEMS)
    lines = ["model,item,score\n"]
    for group in groups:
        right = rng.logistic(size=(N_SUBJECTS, N_ITEMS)) < ability[:, None] + intercept
        lines += [f"{group}m{i},{group}q{j},{right[i, j]:d}\n" for i, j in np.ndindex(right.shape)]
    path.write_text("".join(lines))
    return path


class Ranked(NamedTuple):
    results: Path
    out: Path


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Ranked:
    folder = tmp_path_factory.mktemp("ranked")
    results = write_results(folder / "results.csv")
    with patch("bayesirt.ranking.run.sample_posterior", draw_near):
        assert run_command("rank", results, "--out", folder / "run", "--quiet", *FAST) == 0
    return Ranked(results, folder / "run")


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch, ranked: Ranked) -> None:
    def take_stored(*arguments: object, **options: object) -> Run:
        return load_run(ranked.out)

    monkeypatch.setattr("bayesirt.ranking.run.rank_responses", take_stored)


@pytest.fixture
def old_run(tmp_path: Path, ranked: Ranked) -> Path:
    return shutil.copytree(ranked.out, tmp_path / "run")


def header(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_check_says_what_the_file_holds(cli, ranked):
    shown = cli("check", ranked.results)
    assert (shown.code, shown.err) == (0, "")
    assert "this can be ranked" in shown.out
    assert ["responses", "48"] in [line.split() for line in shown.out.splitlines()]


def test_check_prints_json(cli, ranked):
    facts = json.loads(cli("check", ranked.results, "--json").out)
    assert (facts["subjects"], facts["items"], facts["responses"]) == (N_SUBJECTS, N_ITEMS, 48)
    assert facts["coverage"] == 1.0
    assert 0 < facts["accuracy"] < 1


def test_check_takes_the_example(cli):
    assert json.loads(cli("check", "--example", "--json").out)["subjects"] == 46


def test_check_passes_every_option_on(cli, tmp_path):
    (tmp_path / "r.csv").write_text("w,i,s,l\na,p,.7,1\na,q,.2,1\nb,p,.5,1\nb,q,.4,1\nb,q,.9,2\n")
    columns = ("--subject", "w", "--item", "i", "--score", "s", "--latency", "l")
    shown = cli("check", tmp_path / "r.csv", *columns, "--threshold", ".5", "--duplicates",
                "trials", "--json")  # fmt: skip
    facts = json.loads(shown.out)
    assert (facts["responses"], facts["trials"], facts["accuracy"]) == (4, 5, 3 / 5)
    (tmp_path / "w.csv").write_text("x,p,q,r\na,1,0,1\nb,0,1,1\n")
    wide = json.loads(cli("check", tmp_path / "w.csv", "--items-in", "rows", "--json").out)
    assert (wide["subjects"], wide["items"]) == (3, 2)


def test_version_is_printed(cli):
    assert cli("--version") == (0, f"{bayesirt.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--help",), ("rank", "--help"), ("compare", "--help")])
def test_help_is_printed(cli, arguments):
    shown = cli(*arguments)
    assert shown.code == 0
    assert "Usage: " in shown.out


def test_rank_writes_exactly_its_files(ranked):
    assert set(snapshot(ranked.out)) == FILES
    assert sorted(p.name for p in ranked.out.parent.iterdir()) == ["results.csv", "run"]


def test_tables_have_exactly_their_columns(ranked):
    assert header(ranked.out / "ranking.csv") == RANKING
    assert header(ranked.out / "items.csv") == ITEMS
    subjects = pd.read_csv(ranked.out / "ranking.csv")["subject"].tolist()
    assert sorted(subjects) == [f"gm{i}" for i in range(N_SUBJECTS)]
    assert header(ranked.out / "pairwise.csv") == ["subject", *subjects]
    assert pd.read_csv(ranked.out / "pairwise.csv")["subject"].tolist() == subjects
    assert pd.read_csv(ranked.out / "items.csv")["item"].tolist() == [
        f"gq{j}" for j in range(N_ITEMS)
    ]


def test_draws_are_as_arviz_has_them(ranked):
    results = pd.read_csv(ranked.results)
    with xr.open_datatree(ranked.out / "posterior.nc", engine="h5netcdf") as tree:
        assert set(tree.children) >= {
            "posterior", "sample_stats", "observed_data", "constant_data",
        }  # fmt: skip
        assert dict(tree["posterior"].sizes) == {
            "chain": 2, "draw": 60, "subject": N_SUBJECTS, "item": N_ITEMS,
        }  # fmt: skip
        assert tree["posterior"]["theta"].dims == ("chain", "draw", "subject")
        assert tree["posterior"]["a"].dims == ("chain", "draw", "item")
        assert int(tree["observed_data"]["successes"].sum()) == results["score"].sum()
        assert int(tree["constant_data"]["trials"].sum()) == len(results)
        assert {"lp", "acceptance_theta"} <= set(tree["sample_stats"])
        attrs = dict(tree.attrs)
    assert {"bayesirt_version", "model", "engine", "priors", "seed", "input_sha256"} <= set(attrs)
    assert attrs["bayesirt_version"] == bayesirt.__version__
    assert attrs["seed"] == 7
    assert attrs["input_sha256"] == hashlib.sha256(ranked.results.read_bytes()).hexdigest()


def test_the_record_tells_how_to_make_the_run_again(ranked):
    record = json.loads((ranked.out / "run.json").read_text())
    wanted = {"seed": 7, "chains": 2, "warmup": 40, "draws": 60}
    assert {k: record["settings"][k] for k in wanted} == wanted
    assert record["data"]["source"] == "results.csv"
    assert record["data"]["sha256"] == hashlib.sha256(ranked.results.read_bytes()).hexdigest()
    assert record["versions"]["bayesirt"] == bayesirt.__version__


def test_a_run_is_loaded_as_it_was_written(ranked):
    run = load_run(ranked.out)
    written = pd.read_csv(ranked.out / "ranking.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(run.ranking.summary, written, check_dtype=False)
    assert run.record.settings.seed == 7
    assert run.comparison.subjects["subject"].tolist() == [f"gm{i}" for i in range(N_SUBJECTS)]


def test_compare_prints_a_table_and_a_conclusion(cli, ranked):
    shown = cli("compare", ranked.out)
    assert (shown.code, shown.err) == (0, "")
    assert all(f"gm{i}" in shown.out for i in range(N_SUBJECTS))
    assert "Point estimate and posterior order subjects" in shown.out


def test_compare_prints_json(cli, ranked):
    tables = json.loads(cli("compare", ranked.out, "--json").out)
    assert [row["subject"] for row in tables["subjects"]] == [f"gm{i}" for i in range(N_SUBJECTS)]
    assert len(tables["items"]) == N_ITEMS


def test_review_concludes_in_words_and_in_json(cli, ranked):
    shown = cli("review", ranked.out, "--a-min", "100", "--q", "0.01")
    assert (shown.code, shown.err) == (0, "")
    assert f"{N_ITEMS} of {N_ITEMS} items" in shown.words
    items = json.loads(cli("review", ranked.out, "--json").out)
    assert {row["item"] for row in items} == set(load_run(ranked.out).posterior.items)
    assert cli("review", ranked.out.parent / "nowhere").code == 2


@pytest.mark.parametrize("broken", ["posterior.nc", "point.nc"])
@pytest.mark.parametrize("how", ["gone", "cut", "of the other"])
def test_a_damaged_run_is_one_sentence(cli, ranked, tmp_path, broken, how):
    files = snapshot(ranked.out)
    other = {"posterior.nc": "point.nc", "point.nc": "posterior.nc"}[broken]
    data = {"gone": None, "cut": files[broken][:1000], "of the other": files[other]}[how]
    for name, content in (files | {broken: data}).items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    shown = cli("compare", tmp_path)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("bayesirt: the run in ")
    assert "is damaged" in shown.err
    assert len(shown.err.splitlines()) == 1


def test_the_same_seed_gives_the_same_ranking_and_overwrite_replaces(cli, ranked, old_run):
    (old_run / "ranking.csv").write_text("old")
    shown = cli("rank", ranked.results, "--out", old_run, "--overwrite", "--json", *FAST)
    assert (shown.code, shown.err) == (0, "")
    for name in ("ranking.csv", "items.csv", "pairwise.csv"):
        assert (old_run / name).read_bytes() == (ranked.out / name).read_bytes()
    assert set(snapshot(old_run)) == FILES
    assert list(old_run.parent.iterdir()) == [old_run]
    told = json.loads(shown.out)
    assert set(told) == {"schema", "verdict", "average", "ranking"}
    assert list(told["ranking"][0]) == RANKING
    first = pd.read_csv(old_run / "ranking.csv").iloc[0]
    assert told["ranking"][0]["subject"] == first["subject"]
    assert told["ranking"][0]["ability"] == first["ability"]


@pytest.mark.usefixtures("no_sampling")
def test_a_failing_write_leaves_the_old_run_whole(cli, ranked, old_run, monkeypatch):

    def fail(self: Posterior, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Posterior, "save", fail)
    shown = cli("rank", ranked.results, "--out", old_run, "--overwrite", *FAST)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("bayesirt: ")
    assert shown.err.endswith("cannot be written: No space left on device\n")
    assert snapshot(old_run) == snapshot(ranked.out)
    assert cli("rank", ranked.results, "--out", old_run.parent / "new", *FAST).code == 2
    assert list(old_run.parent.iterdir()) == [old_run]


@pytest.mark.usefixtures("no_sampling")
def test_a_failing_rename_puts_the_old_run_back(cli, ranked, old_run, monkeypatch):
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("busy")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    monkeypatch.setattr("bayesirt.ranking.run_folder._exchange", lambda *_: False)
    shown = cli("rank", ranked.results, "--out", old_run, "--overwrite", *FAST)
    assert (shown.code, shown.err.endswith("cannot be written: busy\n")) == (2, True)
    assert snapshot(old_run) == snapshot(ranked.out)
    assert list(old_run.parent.iterdir()) == [old_run]


@pytest.mark.usefixtures("no_sampling")
def test_rank_prints_the_verdict_the_ranking_and_the_report(cli, ranked, tmp_path):
    shown = cli("rank", ranked.results, "--out", tmp_path / "run", *FAST)
    assert (shown.code, shown.err) == (0, "")
    run = load_run(ranked.out)
    said = shown.words
    assert said.startswith(" ".join(run.posterior.verdict.to_text().split()))
    said_of_averages = " ".join(run.ranking.average.to_text().split()) in said
    assert said_of_averages == run.posterior.verdict.sound
    assert f"Report: {tmp_path / 'run' / 'report.html'}" in shown.out
    assert all(f"gm{i}" in shown.out for i in range(N_SUBJECTS))


def test_groups_are_ranked_each_by_itself_and_quietly(cli, tmp_path):
    results = write_results(tmp_path / "r.csv", groups="ab")
    with results.open("a") as file:
        file.write("lonely,by itself,1\n")
    kept = ("--checkpoint", tmp_path / "kept")
    shown = cli("rank", results, "--per-component", "--out", tmp_path / "run", "-q", *kept, *FAST)
    assert shown == (0, "", "")
    assert not (tmp_path / "kept").exists()
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["group_1", "group_2"]
    for group in ("group_1", "group_2"):
        assert {p.name for p in (tmp_path / "run" / group).iterdir()} == FILES
        subjects = pd.read_csv(tmp_path / "run" / group / "ranking.csv")["subject"]
        assert len(subjects) == N_SUBJECTS
        assert subjects.str[0].nunique() == 1
    assert cli("compare", tmp_path / "run" / "group_2").code == 0
    assert "name one of its groups, such as" in cli("compare", tmp_path / "run").err


def test_groups_of_one_judge_each_are_ranked_without_its_effect(cli, tmp_path):
    lines = write_results(tmp_path / "r.csv", groups="ab").read_text().splitlines()
    told = [f"{line},{line[0]}" for line in lines[1:]]
    (tmp_path / "r.csv").write_text("\n".join([f"{lines[0]},judge", *told]) + "\n")
    options = ("--facet", "judge", "--per-component", "-q", "--out", tmp_path / "run")
    assert cli("rank", tmp_path / "r.csv", *options, *FAST) == (0, "", "")


@pytest.mark.slow
def test_json_of_groups_is_one_object(cli, tmp_path):
    results = tmp_path / "apart.csv"
    rows = [f"{g}{i},{g}q{j},{(i + j) % 2}" for g in "ab" for i in range(3) for j in range(3)]
    results.write_text("\n".join(["model,item,score", *rows]) + "\n", "utf-8")
    out = ("--out", tmp_path / "run")
    shown = cli("rank", results, "--per-component", "--json", *out, *FAST)
    assert set(json.loads(shown.out)) == {"group_1", "group_2"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--priors fixed --slopes free", "fixed priors allow positive slopes only"),
        ("--guessing 0.25", "guessing is part of the 3pl, not of 2pl; pass --model 3pl"),
        ("--model 3pl --guessing 25", "guessing must be between 0 and 1, such as 0.25"),
        ("--model 3pl --priors fixed --engine laplace", "laplace cannot sample the 3PL; use"),
        (
            "--wrong-lengths",
            "only lart models the lengths of wrong answers; 2pl .*; pass --model lart",
        ),
        ("--model lart", "LaRT needs the length or time of responses; .* with --latency, or leave"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_done(
    cli, tmp_path, options, said
):
    shown = cli("rank", "--example", *options.split(), "--out", tmp_path / "run")
    assert (shown.code, shown.out) == (2, "")
    assert re.match(f"bayesirt: {said}.*\n$", shown.err)
    assert not (tmp_path / "run").exists()


class Apart(NamedTuple):
    """A command that draws long enough to be killed, with its own compilation cache."""

    command: list[str]
    environment: dict[str, str]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Apart:
    folder = tmp_path_factory.mktemp("apart")
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(20, 1))
    scores = (rng.uniform(size=(20, 20)) < 1 / (1 + np.exp(-theta))).astype(int)
    table = pd.DataFrame(scores, columns=[f"q{j}" for j in range(20)])
    table.insert(0, "model", [f"m{i}" for i in range(20)])
    table.to_csv(folder / "scores.csv", index=False)
    program = str(Path(sys.executable).with_name("bayesirt"))
    command = [program, "rank", str(folder / "scores.csv"), "--items-in", "columns"]
    command += ["--no-check-fit", "--chains", "2", "--warmup", "200"]
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return Apart(command, os.environ | cache)


@pytest.mark.slow
def test_killed_command_goes_on_where_it_was(tmp_path, apart):
    """Repeating a command after kill -9 gives the draws and ranking of an uninterrupted run."""
    command = [*apart.command, "--draws", "2000", "--quiet"]
    resumable = [*command, "--out", "resumed", "--checkpoint", "kept"]
    where = {"cwd": tmp_path, "env": apart.environment}

    def steps() -> int:
        try:
            with np.load(tmp_path / "kept" / "state.npz") as state:
                return json.loads(str(state["header"]))["steps"]
        except FileNotFoundError:
            return 0

    process = subprocess.Popen(resumable, **where)
    try:
        while steps() < 300:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "resumed").exists()
    done = subprocess.run([*command, "--out", "other", "--seed", "1", "--checkpoint", "kept"],
                          capture_output=True, text=True, **where)  # fmt: skip
    assert done.returncode == 2
    assert "belongs to other data or other settings" in done.stderr
    assert steps() >= 300
    subprocess.run(resumable, check=True, **where)
    assert not (tmp_path / "kept").exists()
    subprocess.run([*command, "--out", "whole"], check=True, **where)
    one, other = (Posterior.load(tmp_path / run / "posterior.nc") for run in ("resumed", "whole"))
    np.testing.assert_array_equal(one.theta, other.theta)
    tables = [(tmp_path / run / "ranking.csv").read_text() for run in ("resumed", "whole")]
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_interrupted_command_saves_its_draws_and_says_so(tmp_path, apart):
    command = [*apart.command, "--out", "run", "--draws", "100000", "--checkpoint", "kept"]
    heeding_interrupts = (  # a process started in the background may inherit SIGINT as ignored
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", heeding_interrupts, *command],
        cwd=tmp_path,
        env=apart.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not (tmp_path / "kept" / "draws_000004.npz").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Interrupted: these are the draws so far." in " ".join(output.split())
    draws = Posterior.load(tmp_path / "run" / "posterior.nc")["theta"].shape[1]
    assert 200 <= draws < 100_000
    assert not Posterior.load(tmp_path / "run" / "posterior.nc").complete
    assert "Interrupted" in (tmp_path / "run" / "report.html").read_text("utf-8")

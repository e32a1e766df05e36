"""`bank create`, `bank add` and `score`: a growing suite, from files to scores."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

from bayesirt.bank.folder import read_bank

BENCHMARKS = {"maths": 14, "law": 12, "=code": 13}
N_SUBJECTS, N_NEW = 60, 3


def write_inputs(folder: Path) -> dict[str, Path]:
    """Write results of reference subjects on two benchmarks and on a third, and new answers."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=N_SUBJECTS + N_NEW)
    theta[-N_NEW:] = [2.0, 0.0, -2.0]
    rows = []
    for benchmark, n_items in BENCHMARKS.items():
        for j in range(n_items):
            a, d = np.exp(rng.normal(0.3, 0.2)), rng.normal()
            right = rng.random(len(theta)) < 1 / (1 + np.exp(-(a * theta + d)))
            rows += [(f"m{i}", f"{benchmark} {j}", int(y), benchmark) for i, y in enumerate(right)]
    table = pd.DataFrame(rows, columns=["model", "item", "score", "benchmark"])
    new = table["model"].isin([f"m{N_SUBJECTS + k}" for k in range(N_NEW)])
    first = table["benchmark"] != "=code"
    files = {name: folder / f"{name}.csv" for name in ("reference", "=code", "new")}
    table[~new & first].to_csv(files["reference"], index=False)
    table[~new & ~first].drop(columns="benchmark").to_csv(files["=code"], index=False)
    table[new].drop(columns="benchmark").to_csv(files["new"], index=False)
    return files


@pytest.mark.slow
def test_suite_is_created_grows_and_scores_new_subjects(cli: Cli, tmp_path: Path):
    files, suite = write_inputs(tmp_path), tmp_path / "suite"
    options = ("--anchors", 8, "--abilities", 1)
    shown = cli("bank", "create", suite, "--from", files["reference"], *options)
    assert shown.code == 0
    assert "26 items on one scale of 1 ability; new subjects answer 16 anchors." in shown.words
    before = read_bank(suite)
    assert set(before.benchmark_names) == {"maths", "law"}
    assert set(before.steps[0].figures) == {"maths", "law"}
    assert before.steps[0].source["name"] == "reference.csv"
    assert before.subjects is not None
    assert len(before.subjects.names) == N_SUBJECTS
    assert not np.isnan(before.subjects.accuracy).any()

    shown = cli("bank", "add", suite, files["=code"], "--anchors", 8, "--anchors-by", "design")
    assert shown.code == 0
    after = read_bank(suite)
    assert after.benchmark_names[-1] == "=code"
    assert len(after.anchor_items) == 24
    assert after.steps[1].settings["anchors"] == "design"
    np.testing.assert_array_equal(after.items.a[:26], before.items.a)
    np.testing.assert_array_equal(after.items.covariance[:26], before.items.covariance)

    answers = pd.read_csv(files["new"])
    of_anchors = answers[answers["item"].isin(after.anchor_items)]
    of_anchors.to_csv(tmp_path / "anchors.csv", index=False)
    shown = cli("score", suite, tmp_path / "anchors.csv", "--json")
    assert shown.code == 0
    found = json.loads(shown.out)
    assert found["ranked"] == N_SUBJECTS + N_NEW
    scored = pd.DataFrame(found["suite"]).set_index("subject").loc[["m60", "m61", "m62"]]
    assert scored["score"].is_monotonic_decreasing
    assert (scored["low"] < scored["score"]).all()
    assert scored["rank_low"].iloc[0] < 10 < 40 < scored["rank_high"].iloc[2]
    table = pd.DataFrame(found["benchmarks"])
    seen = answers.assign(benchmark=answers["item"].str.rsplit(" ", n=1).str[0])
    truth = seen.groupby(["model", "benchmark"])["score"].mean()
    off = (
        table["accuracy"]
        - truth.loc[list(zip(table["subject"], table["benchmark"], strict=True))].to_numpy()
    )
    assert np.abs(off).mean() < 0.12
    assert (table["n_answered"] == 8).all()

    kept = read_bank(suite)
    assert [step.kind for step in kept.steps] == ["create", "add", "score"]
    assert len(kept.history) == 9
    one = answers[(answers["model"] == "m60") & answers["item"].isin(after.anchor_items[:5])]
    one.drop(columns="model").to_csv(tmp_path / "one.csv", index=False)
    shown = cli("score", suite, tmp_path / "one.csv")
    assert shown.code == 0
    assert "the subject: " in shown.words
    assert "of 64, from 5 answers." in shown.words
    again = read_bank(suite).history
    pd.testing.assert_frame_equal(again.iloc[:9], kept.history)

    before = {p: p.read_bytes() for p in suite.rglob("*") if p.is_file()}
    shown = cli("bank", "review", suite)
    assert shown.code == 0
    assert "alarms from answers of 4 recent subjects to 24 anchors." in shown.words
    assert "maths was calibrated with 60 reference subjects" in shown.words
    assert "Anchors that drift most" in shown.words
    found = json.loads(cli("bank", "review", suite, "--json").out)
    assert found["recent"] == 4
    assert [row["benchmark"] for row in found["benchmarks"]] == ["maths", "law", "=code"]
    assert len(found["anchors"]) == 24
    assert found["benchmarks"][0]["own_ahead"] is None
    assert found["benchmarks"][2]["n_held_out"] > 0
    told = {alarm["sentence"] for alarm in found["alarms"] if alarm["kind"] == "reference"}
    assert len(told) == 3
    page = tmp_path / "pages" / "suite.html"
    assert cli("bank", "review", suite, "-q", "--report", page).out == ""
    assert "Does the suite still hold?" in page.read_text("utf-8")
    assert {p: p.read_bytes() for p in suite.rglob("*") if p.is_file()} == before


@pytest.mark.slow
def test_bad_input_is_one_sentence_and_the_bank_stays_as_it_was(cli: Cli, tmp_path: Path):
    files, suite = write_inputs(tmp_path), tmp_path / "suite"
    options = ("--anchors", 8, "--abilities", 1, "-q")
    assert cli("bank", "create", suite, "--from", files["reference"], *options).code == 0
    before = {p: p.read_bytes() for p in suite.rglob("*") if p.is_file()}

    def refused(*command: object) -> str:
        shown = cli(*command)
        assert shown.code == 2
        assert {p: p.read_bytes() for p in suite.rglob("*") if p.is_file()} == before
        return shown.err

    again = refused("bank", "create", suite, "--from", files["reference"], *options)
    assert "suite" in again
    plain = files["=code"]
    none = refused("bank", "create", tmp_path / "b", "--from", plain, "--benchmark-column", "set")
    assert "the results have no column 'set'" in none
    named = refused("bank", "add", suite, plain, "--name", "law")
    assert "the bank has a benchmark 'law'" in named
    unknown = refused("score", suite, files["new"])
    assert "'=code 0'" in unknown
    assert "holds no item bank" in refused("score", tmp_path, files["new"])


def test_too_few_anchors_or_items_are_refused_before_any_fit(cli: Cli, tmp_path: Path):
    files, suite = write_inputs(tmp_path), tmp_path / "suite"
    create = ("bank", "create", suite, "--from", files["reference"])
    shown = cli(*create, "--anchors", 3, "--abilities", 4)
    assert shown.code == 2
    assert "3 anchors of a benchmark cannot determine 4 abilities; ask for 4" in shown.err
    shown = cli(*create, "--abilities", 13)
    assert "benchmark 'law' has fewer items (12) than abilities (13)" in shown.err
    assert not suite.exists()
    shown = cli("bank", "review", suite)
    assert shown.code == 2
    assert "holds no item bank" in shown.err
    shown = cli("bank", "review", suite, "--report", tmp_path / "results.csv")
    assert shown.code == 2
    assert "--report writes an HTML page; name it results.html" in shown.err

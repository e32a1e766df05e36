"""`profile`: from a results file and a Q-matrix to a folder of profiles and predictions."""

import json
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

from bayesirt.data.q_matrix import QMatrix
from bayesirt.errors import ResponseError
from bayesirt.profiles.profile_folder import load_profiles
from bayesirt.profiles.simulation import simulate_q_mirt

ROWS = "item,algebra,=logic,<b>\n" + "".join(
    f"q{j},{int(j % 3 != 1)},{int(j % 3 == 1 or j == 6)},0\n" for j in range(12)
)
NEW = "fresh1,1,0,0\nfresh2,1,1,0\nalien,1,0,1\n"
FILES = {
    "profiles.csv", "abilities.csv", "ability_pairs.csv", "predictions.csv",
    "predicted_scores.csv", "q_matrix.json", "point.nc", "posterior.nc", "report.html", "run.json",
}  # fmt: skip


def write_inputs(folder: Path) -> tuple[Path, Path]:
    needs = [[int(j % 3 != 1), int(j % 3 == 1 or j == 6)] for j in range(12)]
    q = QMatrix.from_arrays(needs, [f"q{j}" for j in range(12)], ["algebra", "=logic"])
    responses = simulate_q_mirt(25, q, key=jax.random.key(0)).responses
    table = pd.DataFrame(responses.cells.matrices()[0], columns=list(q.items))
    table.insert(0, "model", [f"m{i}" for i in range(24)] + ["<script>"])
    table.to_csv(folder / "results.csv", index=False)
    (folder / "q.csv").write_text(ROWS + NEW)
    return folder / "results.csv", folder / "q.csv"


@pytest.mark.slow
def test_one_command_makes_profiles_and_predictions(cli: Cli, tmp_path: Path):
    results, q = write_inputs(tmp_path)
    out = tmp_path / "run"
    options = ("--out", out, "--warmup", 100, "--draws", 100)
    shown = cli("profile", results, "--q-matrix", q, *options)
    assert shown.code == 0
    assert {p.name for p in out.iterdir()} == FILES
    assert "no item with responses needs '<b>': left out together with 1 item." in shown.words
    assert "2 items without responses: " in shown.words
    assert f"Report: {out / 'report.html'}" in shown.words
    assert "<script>" not in (out / "report.html").read_text().split("<body>")[1].split("<bdi>")[0]

    table = pd.read_csv(out / "profiles.csv")
    assert len(table) == 25 * 2
    assert set(table["ability"]) == {"algebra", "'=logic"}
    predicted = pd.read_csv(out / "predictions.csv")
    assert set(predicted["item"]) == {"fresh1", "fresh2"}
    assert predicted["probability"].between(0, 1).all()

    again = load_profiles(out)
    assert again.record.settings.structure == "correlated"
    levels = again.profiles.levels().to_numpy().ravel()
    np.testing.assert_allclose(levels, table["level"], rtol=1e-6)
    assert again.predictions is not None
    np.testing.assert_allclose(again.predictions.summary["low"], predicted["low"], rtol=1e-6)

    said = cli("compare", out)
    assert said.code == 2
    assert "holds results by several abilities" in said.err

    as_json = cli("profile", results, "--q-matrix", q, *options, "--json", "--overwrite")
    told = json.loads(as_json.out)
    assert [row["ability"] for row in told["abilities"]] == ["algebra", "=logic"]
    assert {row["rank"] for row in told["profiles"]} - {None} <= set(range(1, 26))
    assert len(told["predicted_scores"]) == 25
    assert told["notes"]


@pytest.mark.slow
def test_clusters_have_profiles_too(cli: Cli, tmp_path: Path):
    results, q = write_inputs(tmp_path)
    named = pd.DataFrame({"subject": pd.read_csv(results)["model"]})
    named["cluster"] = [f"llm{k // 5}" for k in range(25)]
    named.to_csv(tmp_path / "c.csv", index=False)
    out = tmp_path / "run"
    options = ("--cluster", tmp_path / "c.csv", "--out", out, "--warmup", 100, "--draws", 100)
    shown = cli("profile", results, "--q-matrix", q, *options)
    assert shown.code == 0, shown.err
    assert "of the variance of abilities lies between clusters" in shown.words
    assert {p.name for p in out.iterdir()} == {*FILES, "clusters.csv"}
    table = pd.read_csv(out / "clusters.csv")
    assert list(table["cluster"]) == [f"llm{k}" for k in range(5)]
    assert table["algebra"].between(table["algebra_low"], table["algebra_high"]).all()
    own = load_profiles(out).profiles.levels()["algebra"].to_numpy().reshape(5, 5).mean(1)
    assert np.corrcoef(own, table["algebra"])[0, 1] > 0.9
    assert "llm4" in (out / "report.html").read_text()


BAD = {
    "no such Q-matrix": (None, "missing.csv", ("missing.csv",)),
    "an item without a row": ("item,algebra\nq0,1\n", "q.csv", ("no row for items 'q1'", "add")),
    "an empty file": ("", "q.csv", ("q.csv is empty",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_q_matrix_is_one_sentence_and_leaves_nothing(cli: Cli, tmp_path: Path, kind: str):
    results, q = write_inputs(tmp_path)
    content, name, words = BAD[kind]
    if content is not None:
        q.write_text(content)
    out = tmp_path / "run"
    shown = cli("profile", results, "--q-matrix", tmp_path / name, "--out", out)
    assert shown.code == 2, shown
    assert shown.err.count("\n") == 1
    for word in words:
        assert word in shown.err
    assert not out.exists()


def test_results_and_a_q_matrix_must_be_named(cli: Cli, tmp_path: Path):
    results, q = write_inputs(tmp_path)
    assert "name one results file" in cli("profile", "--q-matrix", q).err
    shown = cli("profile", results)
    assert shown.code == 2
    assert "--q-matrix" in shown.err


def test_another_folder_is_not_overwritten(cli: Cli, tmp_path: Path):
    results, q = write_inputs(tmp_path)
    shown = cli("profile", results, "--q-matrix", q, "--out", tmp_path, "--overwrite")
    assert shown.code == 2
    assert "holds files that are not a run" in shown.err


def test_a_folder_without_profiles_or_with_damaged_ones_is_refused(tmp_path: Path):
    with pytest.raises(ResponseError, match="holds no ability profiles; make them with bayesirt"):
        load_profiles(tmp_path)
    (tmp_path / "q_matrix.json").write_text("{}")
    with pytest.raises(ResponseError, match=r"are damaged \(.*\); make them again"):
        load_profiles(tmp_path)

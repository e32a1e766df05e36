"""`rank --model mirt`: a ranking by the expected score under several abilities."""

import json
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cli.conftest import Cli
from mirt_data import Simulated, simulated

from bayesirt.data.responses import Responses
from bayesirt.models.mirt import DIMS
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior

DATA = simulated(30, 12, 2, seed=1)
FILES = {
    "ranking.csv", "profiles.csv", "abilities.csv", "items.csv", "point.nc", "posterior.nc",
    "report.html", "run.json",
}  # fmt: skip


def results(folder: Path, data: Simulated = DATA) -> Path:
    table = pd.DataFrame(data.responses.cells.matrices()[0], columns=list(data.responses.items))
    table.insert(0, "model", list(true_scores(data)))
    table.to_csv(folder / "results.csv", index=False)
    return folder / "results.csv"


def true_scores(data: Simulated) -> dict[str, float]:
    names = ["<script>", *(f"m{i}" for i in range(1, len(data.theta)))]
    return dict(zip(names, (1 / (1 + np.exp(-data.eta))).mean(1), strict=True))


def near_the_truth(responses: Responses, *, key: jax.Array, **_: object) -> Posterior:
    rng = np.random.default_rng(0)
    truth = {"theta": DATA.theta, "a": DATA.a, "d": DATA.d}
    if responses.clusters is not None:
        truth |= {"gamma": DATA.theta.reshape(15, 2, 2).mean(1), "icc": np.array(0.5)}
    samples = {
        name: value + 0.1 * rng.normal(size=(2, 150, *value.shape)) for name, value in truth.items()
    }
    attrs = {"model": "MIRT 2PL", "engine": "blocked"}
    coords = {"ability": ["ability 1", "ability 2"]}
    return Posterior.from_samples(samples, {}, responses, attrs, coords=coords, dims=DIMS)


@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    point = PointEstimate(xr.Dataset(), -1.0, 1, True, "made up", np.zeros(2), {"estimator": "EM"})
    place = "bayesirt.profiles.exploration"
    monkeypatch.setattr(f"{place}.fit_point", lambda *_, **__: point)
    monkeypatch.setattr(f"{place}.sample_posterior", near_the_truth)


@pytest.mark.usefixtures("no_fits")
def test_subjects_are_ranked_by_their_expected_score(cli: Cli, tmp_path: Path):
    out = tmp_path / "run"
    options = ("--model", "mirt", "--abilities", "2", "--out", out)
    shown = cli("rank", results(tmp_path), *options)
    assert shown.code == 0, shown.err
    assert {p.name for p in out.iterdir()} == FILES
    assert f"Report: {out / 'report.html'}" in shown.words
    assert "<script>" not in (out / "report.html").read_text().split("<body>")[1].split("<bdi>")[0]
    ranking = pd.read_csv(out / "ranking.csv")
    score = ranking["subject"].map(true_scores(DATA))
    np.testing.assert_allclose(ranking["expected_score"], score, atol=0.03)
    assert (ranking["rank"].diff().dropna() >= 0).all()
    assert ranking["rank"].between(ranking["rank_low"], ranking["rank_high"]).all()
    assert len(pd.read_csv(out / "profiles.csv")) == 30 * 2
    np.testing.assert_allclose(pd.read_csv(out / "items.csv")["ability 1"], DATA.a[:, 0], atol=0.1)
    assert pd.read_csv(out / "abilities.csv")["share"].sum() == pytest.approx(1)
    said = cli("compare", out)
    assert said.code == 2
    assert "holds results by several abilities" in said.err
    told = json.loads(cli("rank", results(tmp_path), *options, "--json", "--overwrite").out)
    assert [row["subject"] for row in told["ranking"]] == list(ranking["subject"])


@pytest.mark.usefixtures("no_fits")
def test_clusters_are_ranked_by_the_score_at_their_levels(cli: Cli, tmp_path: Path):
    out, path = tmp_path / "run", results(tmp_path)
    named = pd.DataFrame({"subject": pd.read_csv(path)["model"]})
    named["cluster"] = [f"<b>{k // 2}" for k in range(30)]
    named.to_csv(tmp_path / "c.csv", index=False)
    options = ("--model", "mirt", "--abilities", "2", "--cluster", tmp_path / "c.csv", "--out", out)
    shown = cli("rank", path, *options)
    assert shown.code == 0, shown.err
    table = pd.read_csv(out / "clusters.csv")
    assert (table["n_subjects"] == 2).all()
    gamma = DATA.theta.reshape(15, 2, 2).mean(1)
    truth = (1 / (1 + np.exp(-gamma @ DATA.a.T - DATA.d))).mean(1)
    score = table["cluster"].map(dict(zip(named["cluster"][::2], truth, strict=True)))
    np.testing.assert_allclose(table["expected_score"], score, atol=0.03)
    assert (table["expected_score"].diff().dropna() <= 0.01).all()
    assert table["ability 2"].between(table["ability 2_low"], table["ability 2_high"]).all()
    assert (
        f"Of 15 clusters, {table['cluster'][0]} is first, with an expected score of" in shown.words
    )
    assert "of the variance of abilities lies between clusters" in shown.words
    report = (out / "report.html").read_text()
    assert '<h2 id="clusters">' in report
    assert "<b>1" not in report
    told = json.loads(cli("rank", path, *options, "--json", "--overwrite").out)
    assert [row["cluster"] for row in told["clusters"]] == list(table["cluster"])


BAD = {
    "none": ("--abilities 0", ("1 or more, or auto", "'0'")),
    "a word": ("--abilities two", ("1 or more, or auto", "'two'")),
    "more than items": ("--abilities 12", ("30 subjects and 12 items", "1 to 11", "--abilities")),
    "another model": ("--abilities 2 --model 3pl", ("belongs to --model mirt", "--model 3pl")),
    "an option of one ability": ("--model mirt --guessing 0.2", ("--guessing", "leave it out")),
    "an engine": ("--model mirt --engine laplace", ("laplace", "blocked")),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_call_is_one_sentence_and_leaves_nothing(cli: Cli, tmp_path: Path, kind: str):
    options, words = BAD[kind]
    out = tmp_path / "run"
    shown = cli("rank", results(tmp_path), *options.split(), "--out", out)
    assert shown.code == 2, shown
    assert shown.err.strip().count("\n") == 0
    for word in words:
        assert word in shown.err
    assert not out.exists()


def test_grades_are_refused(cli: Cli, tmp_path: Path):
    grades = np.random.default_rng(0).integers(1, 6, (30, 12))
    table = pd.DataFrame(grades, columns=[f"q{j}" for j in range(12)])
    table.insert(0, "model", [f"m{i}" for i in range(30)])
    table.to_csv(tmp_path / "results.csv", index=False)
    shown = cli("rank", tmp_path / "results.csv", "--abilities", 2, "--out", tmp_path / "run")
    assert shown.code == 2
    assert "right and wrong answers, and these are graded; pass --threshold" in shown.err


@pytest.mark.slow
def test_the_number_of_abilities_is_found_and_intervals_hold_the_truth(cli: Cli, tmp_path: Path):
    data = simulated(80, 40, 2, seed=4, trials=1)
    out = tmp_path / "run"
    path = results(tmp_path, data)
    shown = cli("rank", path, "--model", "mirt", "--out", out, "--draws", 500)
    assert shown.code == 0, shown.err
    assert "Chosen on held-out answers: " in shown.words
    ranking = pd.read_csv(out / "ranking.csv")
    score = ranking["subject"].map(true_scores(data))
    held = score.between(ranking["expected_score_low"], ranking["expected_score_high"])
    assert held.sum() >= 58  # of 80 with coverage .9, with probability above 1 - 1e-5

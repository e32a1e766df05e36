"""From graded answers to a report on the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*the loss still changes"),
]

DRAWN = True


def test_scores_without_bounds_are_ranked_in_their_own_unit(cli: Cli, tmp_path: Path):
    rng = np.random.default_rng(0)
    rewards = -200 + 50 * (rng.normal(size=(12, 1)) + 0.7 * rng.normal(size=(12, 8)))
    wide = pd.DataFrame(rewards, columns=[f"q{j}" for j in range(8)])
    wide.insert(0, "model", [f"m{i}" for i in range(12)])
    wide.to_csv(tmp_path / "rewards.csv", index=False)
    kind = ("--kind", "unbounded")
    shown = cli("rank", tmp_path / "rewards.csv", *kind, "--out", tmp_path / "run", "--draws", 100)
    assert shown.code == 0, shown.err
    table = pd.read_csv(tmp_path / "run" / "ranking.csv").set_index("subject")
    for i in range(12):
        assert table.loc[f"m{i}", "accuracy"] == pytest.approx(rewards[i].mean(), abs=0.1)
    best = table.iloc[0]
    assert best["expected_score"] == pytest.approx(best["accuracy"], abs=0.1)
    assert f"{best['accuracy']:.0f}" in shown.out
    assert "normal (Jöreskog, 1971)" in (tmp_path / "run" / "report.html").read_text("utf-8")
    checked = cli("check", tmp_path / "rewards.csv", *kind)
    assert f"{rewards.mean():.1f}"[:4] in checked.out


def test_grades_are_ranked_and_reported(cli: Cli, tmp_path: Path):
    rng = np.random.default_rng(0)
    level = 3 + rng.normal(size=(12, 1)) + 0.7 * rng.normal(size=(12, 8))
    grades = np.clip(np.rint(level), 1, 5).astype(int)
    wide = pd.DataFrame(grades, columns=[f"q{j}" for j in range(8)])
    wide.insert(0, "model", [f"m{i}" for i in range(12)])
    wide.to_csv(tmp_path / "grades.csv", index=False)
    shown = cli("rank", tmp_path / "grades.csv", "--out", tmp_path / "run", "--draws", 100)
    assert shown.code == 0, shown.err
    assert "mean grade" in shown.out
    table = pd.read_csv(tmp_path / "run" / "ranking.csv").set_index("subject")
    for i in range(12):
        assert table.loc[f"m{i}", "accuracy"] == pytest.approx(grades[i].mean(), abs=1e-6)
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "graded response model" in report
    assert f"{grades.mean(1).max():.2f}" in report
    pd.DataFrame({"item": ["q1", "q2"], "score": [5, 4]}).to_csv(tmp_path / "new.csv", index=False)
    asked = cli("next-item", tmp_path / "run", tmp_path / "new.csv")
    assert asked.code == 0, asked.err
    assert "expected grade" in asked.out
    told = json.loads(cli("next-item", tmp_path / "run", tmp_path / "new.csv", "--json").out)
    (found,) = told["subjects"]
    assert found["ability"]["mean"] > 0.5
    assert {row["item"] for row in found["next"]}.isdisjoint({"q1", "q2"})
    for score, said in ((7, "'7', which is not one of 1, 2, 3, 4, 5"), ("", "score")):
        pd.DataFrame({"item": ["q1"], "score": [score]}).to_csv(tmp_path / "bad.csv", index=False)
        refused = cli("next-item", tmp_path / "run", tmp_path / "bad.csv")
        assert refused.code == 2
        assert said in refused.err
    cut = cli("next-item", tmp_path / "run", tmp_path / "new.csv", "--threshold", 3)
    assert "calibrated answers are grades or scores" in cut.err
    again = cli("rank", tmp_path / "grades.csv", "--out", tmp_path / "run", "--update")
    assert again.code == 0, again.err

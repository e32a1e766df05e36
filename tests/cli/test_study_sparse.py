"""`check` and `rank` apply the decision rule of `study sparse`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

from bayesirt.ranking.simple_averages import ERROR_LAWS

ADVICE = "Rank by ability, and report the simple average beside it."


def write_suite(path: Path, trials: int) -> Path:
    """Write a suite of 10 x 10 with gap 3, in which abler subjects answered harder items."""
    rng = np.random.default_rng(2)
    theta, b = np.linspace(-2, 2, 10), np.linspace(-1.5, 1.5, 10)
    met = np.abs(theta[:, None] / 4 - b / 3) < 0.4
    right = rng.binomial(trials, 1 / (1 + np.exp(-2 * (theta[:, None] - b))))
    subject, item = np.nonzero(met)
    table = {"model": subject, "item": item, "successes": right[met], "trials": trials}
    pd.DataFrame(table).to_csv(path, index=False)
    return path


def test_check_gives_the_rule_and_what_the_surface_expects(cli: Cli, tmp_path: Path):
    results = write_suite(tmp_path / "r.csv", 100)
    facts = json.loads(cli("check", results, "--json").out)
    product = (1 - facts["coverage"]) * facts["difficulty gap"]
    assert facts["difficulty gap"] == pytest.approx(3 / np.linspace(-2, 2, 10).std(), rel=0.2)
    for mask, law in ERROR_LAWS.items():
        expected = facts["expected ranking error"][mask]
        assert expected == pytest.approx(law.scale * product**law.exponent)
    shown = cli("check", results)
    assert (shown.code, shown.err) == (0, "")
    assert facts["average"] in shown.words
    assert (
        f"S x D = {product:.2f}. Expected ranking error 1 - rho of the average: 0.0" in shown.words
    )
    assert ADVICE in shown.words


def test_check_says_where_the_surface_does_not_reach(cli: Cli, tmp_path: Path):
    results = write_suite(tmp_path / "r.csv", 1)
    facts = json.loads(cli("check", results, "--json").out)
    assert facts["expected ranking error"] is None
    assert "and not tested at 1 trial per cell. " in facts["average"]
    assert ADVICE in facts["average"]


def test_check_has_no_rule_for_groups_without_a_common_scale(cli: Cli, tmp_path: Path):
    rows = [f"{g}{i},{g}q{j},{(i + j) % 2}" for g in "ab" for i in range(2) for j in range(2)]
    (tmp_path / "r.csv").write_text("\n".join(["model,item,score", *rows]) + "\n")
    facts = json.loads(cli("check", tmp_path / "r.csv", "--json").out)
    assert facts["connected groups"] == 2
    assert "average" not in facts
    assert "average" not in cli("check", tmp_path / "r.csv").words


@pytest.mark.slow
def test_rank_gives_the_rule_by_its_posterior(cli: Cli, tmp_path: Path):
    results = write_suite(tmp_path / "r.csv", 100)
    sound = ("--warmup", "300", "--draws", "500", "--chains", "2", "--no-check-fit")
    shown = cli("rank", results, "--out", tmp_path / "run", "--json", *sound)
    note = json.loads(shown.out)["average"]
    assert "Expected ranking error 1 - rho of the average: 0.0" in note
    assert note.endswith(ADVICE)
    report = " ".join((tmp_path / "run" / "report.html").read_text("utf-8").split())
    assert "Expected ranking error 1 - rho of the average" in report

"""From repeated runs of agents to pass^k on the command line."""

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


def test_runs_that_go_together_are_allowed_for(cli: Cli, tmp_path: Path):
    rng = np.random.default_rng(0)
    mu = 1 / (1 + np.exp(-(rng.normal(size=(15, 1)) + rng.normal(size=20))))
    p = rng.beta(1.5 * mu, 1.5 * (1 - mu))
    rows = [
        (f"m{i}", f"q{j}", int(right))
        for (i, j), chance in np.ndenumerate(p)
        for right in rng.random(5) < chance
    ]
    path = tmp_path / "runs.csv"
    pd.DataFrame(rows, columns=["model", "item", "score"]).to_csv(path, index=False)
    own = ("--duplicates", "trials", "--draws", 100, "--no-check-fit")
    shown = cli("rank", path, "--out", tmp_path / "run", *own)
    assert shown.code == 0, shown.err
    assert "depend on each other" in shown.out
    table = pd.read_csv(tmp_path / "run" / "repeats.csv")
    wide = table.pivot(index="subject", columns="runs", values="pass_all")
    assert (np.diff(wide.to_numpy()) < 0).all()
    assert "pass^5" in (tmp_path / "run" / "report.html").read_text("utf-8")
    told = cli("next-item", tmp_path / "run", "--json")
    assert told.code == 0, told.err
    again = cli("rank", path, "--out", tmp_path / "run", "--update", *own)
    assert again.code == 0, again.err
    alone = cli("rank", path, "--out", tmp_path / "alone", *own, "--repeats", "independent")
    assert alone.code == 0, alone.err
    assert "intervals are too narrow" in alone.out
    assert not (tmp_path / "alone" / "repeats.csv").exists()
    both = cli("rank", path, *own, "--repeats", "dependent", "--model", "3pl")
    assert both.code == 2
    assert "leave out either it or --model 3pl" in both.err

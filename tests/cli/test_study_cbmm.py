"""`study cbmm` runs from a results file to figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

from bayesirt import studies


def write_results(path: Path) -> Path:
    """Write 30 x 20 responses to items whose level follows their difficulty."""
    rng = np.random.default_rng(0)
    theta, level = rng.normal(size=30), np.arange(20) // 5 + 1
    p = 1 / (1 + np.exp(-(theta[:, None] + 2.5 - level)))
    right = rng.uniform(size=p.shape) < p
    subject, item = np.indices(p.shape).reshape(2, -1)
    table = {"model": subject, "item": item, "score": right.ravel() * 1, "level": level[item]}
    pd.DataFrame(table).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_small_study_runs_from_file_to_figures(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    small = replace(
        studies.CBMM_QUICK, replications=1, mml_replications=1, drawn_replications=1,
        size=(30, 20), sizes=(), temperatures=(), rates=(), gated=(), sparsities=(0.2,),
        spreads=(), posteriors=("laplace positive",), starts=1, variances=(1.0, 4.0),
    )  # fmt: skip
    monkeypatch.setattr(studies, "CBMM_QUICK", small)
    results, out = write_results(tmp_path / "r.csv"), tmp_path / "out"
    words = ("--quick", "--processes", 1, "--responses", results, "--out", out)
    shown = cli("study", "cbmm", *words)
    assert (shown.code, shown.err) == (0, "")
    assert "Matrix, given, subjects: 30 Matrix, given, items: 20" in shown.words
    assert "Spearman of -d and human level, newton, 20 items" in shown.words
    assert shown.words.endswith(f"Tables and figures: {out}")
    rho = pd.read_csv(out / "level_rho.csv").set_index(["method", "measure"])["rho"]
    assert rho["newton", "minus_d"] > 0.7
    assert pd.read_csv(out / "levels.csv")["items"].tolist() == [5] * 8
    assert (out / "levels.svg").stat().st_size > 1000

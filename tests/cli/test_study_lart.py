"""`study lart` runs from a results file to figures."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from cli.conftest import Cli
from lart_data import simulate_lart

from bayesirt import studies


def write_results(path: Path) -> Path:
    """Write 20 x 10 responses with lengths."""
    table = simulate_lart(20, 10)[0].to_long().rename(columns={"latency": "tokens"})
    table.drop(columns="trials").rename(columns={"successes": "score"}).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_small_study_runs_from_file_to_figures(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    small = replace(
        studies.LART_QUICK, replications=1, saem_replications=1, drawn_replications=0,
        sizes=(20,), n_items=10, short=(), iterations=30,
    )  # fmt: skip
    monkeypatch.setattr(studies, "LART_QUICK", small)
    results, out = write_results(tmp_path / "r.csv"), tmp_path / "out"
    words = ("--quick", "--processes", 1, "--responses", results, "--out", out)
    shown = cli("study", "lart", *words)
    assert (shown.code, shown.err) == (0, "")
    for fact in ("subjects: 20", "items: 10", "base subjects: 20"):
        assert f"Matrix, {fact}" in shown.words
    assert shown.words.endswith(f"Tables and figures: {out}")
    assert pd.read_csv(out / "matrix_rho.csv")["rho"].item() < 0
    assert (out / "efficiency.svg").stat().st_size > 1000

"""`study lart` passes its options on, and runs from a results file to figures."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli
from lart_data import simulate_lart

from bayesirt import studies

STUDY = "lart_study"


def write_results(path: Path, column: str = "tokens") -> Path:
    """Write 20 x 10 responses with lengths."""
    table = simulate_lart(20, 10)[0].to_long().rename(columns={"latency": column})
    table.drop(columns="trials").rename(columns={"successes": "score"}).to_csv(path, index=False)
    return path


def test_the_study_takes_its_options(cli: Cli, asked, tmp_path: Path):
    results = write_results(tmp_path / "r.csv", "how_long")
    criterion = tmp_path / "c.csv"
    criterion.write_text("subject,value\nsubject 1,2.5\n")
    words = ("--quick", "--seed", 7, "--processes", 1, "--responses", results, "-q")
    more = ("--latency", "how_long", "--suffix", "_one", "--suffix", "_zero")
    out = ("--criterion", criterion, "--out", tmp_path / "out")
    assert cli("study", "lart", *words, *more, *out) == (0, "", "")
    ((design, options),) = asked
    assert design == studies.LART_QUICK
    assert (options["n_processes"], options["progress"]) == (1, None)
    assert np.isfinite(options["responses"].latency).all()
    assert (options["suffixes"], options["criterion"]) == (["_one", "_zero"], {"subject 1": 2.5})
    assert (jax.random.key_data(options["key"]) == jax.random.key_data(jax.random.key(7))).all()


def test_results_without_lengths_are_one_sentence(cli: Cli, tmp_path: Path):
    results = write_results(tmp_path / "r.csv", "how_long")
    shown = cli("study", "lart", "--responses", results, "--out", tmp_path / "out")
    assert (shown.code, shown.out) == (2, "")
    assert "name its column with --latency" in shown.err
    assert not (tmp_path / "out").exists()


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

"""`study fpc` passes its options on, and says what is missing."""

from pathlib import Path

import jax
import numpy as np
import pandas as pd
from cli.conftest import Cli

from bayesirt import studies
from bayesirt.studies.fpc_tasks import SimulatedSuite, simulated_matrix

STUDY = "fpc_study"


def write_files(folder: Path, n_groups: int = 36) -> tuple[Path, Path, Path]:
    """Write 24 x 36 responses, their items' benchmarks and their subjects' families."""
    matrix = simulated_matrix(SimulatedSuite(3, 12, 24, 1), np.random.default_rng(0))
    results, groups, families = (folder / f"{name}.csv" for name in ("r", "g", "f"))
    long = matrix.responses.to_long()[["subject", "item", "successes"]]
    long.rename(columns={"successes": "score"}).to_csv(results, index=False)
    pairs = {"item": matrix.responses.items, "benchmark": matrix.benchmarks}
    pd.DataFrame(pairs)[:n_groups].to_csv(groups, index=False)
    kin = {"subject": matrix.responses.subjects, "family": [f"f{k // 3}" for k in range(24)]}
    pd.DataFrame(kin).to_csv(families, index=False)
    return results, groups, families


def test_the_study_takes_its_options(cli: Cli, asked, tmp_path: Path):
    results, groups, families = write_files(tmp_path)
    words = ("--quick", "--seed", 7, "--processes", 1, "--responses", results, "-q")
    more = ("--groups", groups, "--families", families, "--out", tmp_path / "out")
    assert cli("study", "fpc", *words, *more) == (0, "", "")
    ((design, options),) = asked
    assert design == studies.FPC_QUICK
    assert (options["n_processes"], options["progress"]) == (1, None)
    assert options["responses"].n_items == 36
    assert options["groups"]["subset 02, 1"] == "subset 02"
    assert options["families"]["subject 4"] == "f1"
    assert (jax.random.key_data(options["key"]) == jax.random.key_data(jax.random.key(7))).all()


def test_what_is_missing_is_one_sentence(cli: Cli, tmp_path: Path):
    results, groups, families = write_files(tmp_path, n_groups=30)
    out = ("--out", tmp_path / "out")
    for words, said in (
        (("--responses", results), "give --groups"),
        (("--groups", groups), "give --responses"),
        (("--families", families), "give --responses"),
        (("--responses", results, "--groups", groups), "'subset 03, 7' and 5 more"),
    ):
        shown = cli("study", "fpc", *words, *out)
        assert (shown.code, shown.out) == (2, "")
        assert said in " ".join(shown.err.split())
        assert shown.err.strip().count("\n") == 0
        assert not (tmp_path / "out").exists()

"""`study abilities` passes its options on, and says what is missing."""

from pathlib import Path

import jax
import numpy as np
import pandas as pd
from cli.conftest import Cli

from bayesirt import studies
from bayesirt.data.q_matrix import QMatrix
from bayesirt.profiles.simulation import simulate_q_mirt

STUDY = "abilities_study"


def write_files(folder: Path, n_groups: int = 24) -> tuple[Path, Path, Path]:
    """Write 20 x 24 responses to items that need two abilities, and some items' benchmarks."""
    needs = np.tile([[1, 0], [0, 1], [1, 1]], (8, 1))
    q = QMatrix.from_arrays(needs, abilities=["algebra", "logic"])
    responses = simulate_q_mirt(20, q, key=jax.random.key(0)).responses
    results, matrix, groups = (folder / f"{name}.csv" for name in ("r", "q", "g"))
    responses.to_long()[["subject", "item", "successes"]].rename(
        columns={"successes": "score"}
    ).to_csv(results, index=False)
    pd.DataFrame(needs, index=pd.Index(q.items, name="item"), columns=q.abilities).to_csv(matrix)
    pd.DataFrame({"item": q.items, "benchmark": ["x"] * 12 + ["y"] * 12})[:n_groups].to_csv(
        groups, index=False
    )
    return results, matrix, groups


def test_the_study_takes_its_options(cli: Cli, asked, tmp_path: Path):
    results, matrix, groups = write_files(tmp_path)
    words = ("--quick", "--seed", 7, "--processes", 1, "--responses", results, "-q")
    more = ("--q-matrix", matrix, "--groups", groups, "--out", tmp_path / "out")
    assert cli("study", "abilities", *words, *more) == (0, "", "")
    ((design, options),) = asked
    assert design == studies.ABILITIES_QUICK
    assert (options["n_processes"], options["progress"]) == (1, None)
    assert options["responses"].n_items == 24
    assert options["q"].abilities == ("algebra", "logic")
    assert options["groups"]["item 13"] == "y"
    assert (jax.random.key_data(options["key"]) == jax.random.key_data(jax.random.key(7))).all()


def test_what_is_missing_is_one_sentence(cli: Cli, tmp_path: Path):
    results, matrix, groups = write_files(tmp_path, n_groups=20)
    out = ("--out", tmp_path / "out")
    for words, said in (
        (("--responses", results), "give --q-matrix"),
        (("--q-matrix", matrix), "give --responses"),
        (("--groups", groups), "give --responses and --q-matrix"),
        (
            ("--responses", results, "--q-matrix", matrix, "--groups", groups),
            "no benchmark for item 'item 21' and 3 more items",
        ),
    ):
        shown = cli("study", "abilities", *words, *out)
        assert (shown.code, shown.out) == (2, "")
        assert said in " ".join(shown.err.split())
        assert shown.err.strip().count("\n") == 0
        assert not (tmp_path / "out").exists()

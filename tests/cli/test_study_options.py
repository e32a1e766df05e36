"""The design, seed, processes and files that `study` passes on, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli, remembered
from lart_data import simulate_lart

from bayesirt import studies
from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.models import Priors
from bayesirt.profiles.simulation import simulate_q_mirt
from bayesirt.studies.fpc_tasks import SimulatedSuite, simulated_matrix

DESIGNS = {
    "abilities": (studies.AbilitiesDesign(), studies.ABILITIES_QUICK),
    "cat": (studies.CATDesign(), studies.CAT_QUICK),
    "cbmm": (studies.CBMMDesign(), studies.CBMM_QUICK),
    "fpc": (None, studies.FPC_QUICK),
    "lart": (studies.LaRTDesign(), studies.LART_QUICK),
    "sparse": (studies.SparseDesign(), studies.QUICK),
}
"""The paper's design and the quick one; FPC's default depends on its input files."""
Files = Callable[..., list[Any]]
GIVEN = ("responses", "q", "groups", "families", "criterion")


def has_seed(options: dict[str, Any], seed: int) -> bool:
    one, other = (jax.random.key_data(key) for key in (options["key"], jax.random.key(seed)))
    return bool((one == other).all())


@pytest.mark.parametrize("name", DESIGNS)
def test_a_study_has_the_papers_design_and_takes_another(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
):
    asked = remembered(monkeypatch, f"{name}_study")
    out = tmp_path / "out"
    shown = cli("study", name, "--out", out)
    assert (shown.code, shown.err) == (0, "")
    assert shown.words == f"said Tables and figures: {out}"
    words = ("--quick", "--seed", 7, "--processes", 1, "-q")
    assert cli("study", name, "--out", tmp_path / "other", *words) == (0, "", "")
    (design, options), (quick, other) = asked
    assert design == DESIGNS[name][0]
    assert (options["n_processes"], options["folder"]) == (2, out)
    assert all(options.get(given) is None for given in GIVEN)
    assert not options.get("suffixes")
    assert has_seed(options, 0)
    assert quick == DESIGNS[name][1]
    assert (other["n_processes"], other["progress"], other["folder"].name) == (1, None, "other")
    assert has_seed(other, 7)


def study_of(files: Files) -> str:
    return files.__name__.removeprefix("of_")


def write_results(folder: Path, responses: Responses, latency: str = "latency") -> Path:
    """Write responses, with lengths if there are any, in long form."""
    table = responses.to_long().rename(columns={"successes": "score", "latency": latency})
    table.drop(columns="trials").to_csv(folder / "r.csv", index=False)
    return folder / "r.csv"


def write_pairs(folder: Path, name: str, columns: dict[str, Any]) -> Path:
    pd.DataFrame(columns).to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def of_abilities(folder: Path, n_groups: int = 24) -> list[Any]:
    """Write 20 x 24 responses to items that need two abilities, and some items' benchmarks."""
    needs = np.tile([[1, 0], [0, 1], [1, 1]], (8, 1))
    q = QMatrix.from_arrays(needs, abilities=["algebra", "logic"])
    results = write_results(folder, simulate_q_mirt(20, q, key=jax.random.key(0)).responses)
    pd.DataFrame(needs, index=pd.Index(q.items, name="item"), columns=q.abilities).to_csv(
        folder / "q.csv"
    )
    pairs = {"item": q.items[:n_groups], "benchmark": (["x"] * 12 + ["y"] * 12)[:n_groups]}
    groups = write_pairs(folder, "g", pairs)
    return ["--responses", results, "--q-matrix", folder / "q.csv", "--groups", groups]


def of_fpc(folder: Path, n_groups: int = 36) -> list[Any]:
    """Write 24 x 36 responses, their items' benchmarks and their subjects' families."""
    matrix = simulated_matrix(SimulatedSuite(3, 12, 24, 1), np.random.default_rng(0))
    items, subjects = matrix.responses.items, matrix.responses.subjects
    pairs = {"item": items[:n_groups], "benchmark": matrix.benchmarks[:n_groups]}
    kin = {"subject": subjects, "family": [f"f{k // 3}" for k in range(24)]}
    files = write_results(folder, matrix.responses), write_pairs(folder, "g", pairs)
    return ["--responses", files[0], "--groups", files[1],
            "--families", write_pairs(folder, "f", kin)]  # fmt: skip


def of_lart(folder: Path) -> list[Any]:
    """Write 20 x 10 responses with lengths, and a criterion."""
    results = write_results(folder, simulate_lart(20, 10)[0], "how_long")
    criterion = write_pairs(folder, "c", {"subject": ["subject 1"], "value": [2.5]})
    suffixes = ["--suffix", "_one", "--suffix", "_zero"]
    return ["--responses", results, "--latency", "how_long", "--criterion", criterion, *suffixes]


def of_cbmm(folder: Path) -> list[Any]:
    return ["--responses", write_results(folder, Responses.from_arrays(np.tri(20, 10)))]


def of_sparse(_: Path) -> list[Any]:
    return ["--priors", "fixed"]


def test_files_for_abilities_arrive(given: Callable[..., dict[str, Any]]):
    options = given(of_abilities)
    assert options["responses"].n_items == 24
    assert options["q"].abilities == ("algebra", "logic")
    assert options["groups"]["item 13"] == "y"


def test_files_for_fpc_arrive(given: Callable[..., dict[str, Any]]):
    options = given(of_fpc)
    assert options["responses"].n_items == 36
    assert options["groups"]["subset 02, 1"] == "subset 02"
    assert options["families"]["subject 4"] == "f1"


def test_files_for_lart_arrive(given: Callable[..., dict[str, Any]]):
    options = given(of_lart)
    assert np.isfinite(options["responses"].latency).all()
    assert (options["suffixes"], options["criterion"]) == (["_one", "_zero"], {"subject 1": 2.5})


def test_files_for_cbmm_arrive(given: Callable[..., dict[str, Any]]):
    assert given(of_cbmm)["responses"].cells.shape == (20, 10)


def test_priors_for_sparse_arrive(given: Callable[..., dict[str, Any]]):
    design = given(of_sparse)["design"]
    assert (design.priors, design.gaps) == (Priors("fixed"), studies.QUICK.gaps)


@pytest.fixture
def given(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a function that runs a study on written files and returns the study's arguments."""

    def ask(write: Files) -> dict[str, Any]:
        name = study_of(write)
        asked = remembered(monkeypatch, f"{name}_study")
        words = ("study", name, "--quick", "-q", "--out", tmp_path / "out", *write(tmp_path))
        assert cli(*words) == (0, "", "")
        ((design, options),) = asked
        return {"design": design, **options}

    return ask


def only(words: list[Any], *names: str) -> list[Any]:
    """Return the named options with their values."""
    return [x for name in names for x in words[words.index(name) : words.index(name) + 2]]


@pytest.mark.parametrize(
    ("files", "n_groups", "names", "said"),
    [
        (of_abilities, 24, ["--responses"], "give --q-matrix"),
        (of_abilities, 24, ["--q-matrix"], "give --responses"),
        (of_abilities, 24, ["--groups"], "give --responses and --q-matrix"),
        (of_abilities, 20, ["--responses", "--q-matrix", "--groups"],
         "no benchmark for item 'item 21' and 3 more items"),
        (of_fpc, 36, ["--responses"], "give --groups"),
        (of_fpc, 36, ["--groups"], "give --responses"),
        (of_fpc, 36, ["--families"], "give --responses"),
        (of_fpc, 30, ["--responses", "--groups"], "'subset 03, 7' and 5 more"),
    ],
)  # fmt: skip
def test_what_is_missing_is_one_sentence(
    cli: Cli, tmp_path: Path, files: Files, n_groups: int, names: list[str], said: str
):
    assert_refused(cli, tmp_path, files, only(files(tmp_path, n_groups), *names), said)


def test_results_that_cannot_be_studied_are_one_sentence(cli: Cli, tmp_path: Path):
    said = "name its column with --latency"
    assert_refused(cli, tmp_path, of_lart, only(of_lart(tmp_path), "--responses"), said)
    assert_refused(cli, tmp_path, of_cbmm, ["--responses", tmp_path / "none.csv"], "none.csv")


def assert_refused(cli: Cli, folder: Path, files: Files, words: list[Any], said: str) -> None:
    shown = cli("study", study_of(files), *words, "--out", folder / "out")
    assert (shown.code, shown.out) == (2, "")
    assert said in " ".join(shown.err.split())
    assert shown.err.strip().count("\n") == 0
    assert not (folder / "out").exists()

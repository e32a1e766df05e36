"""What `study` does alike for every study: design, seed, processes, and where it writes."""

from pathlib import Path
from typing import Any

import jax
import pytest
from cli.conftest import Cli, remembered

from bayesirt import studies

DESIGNS = {
    "abilities": (studies.AbilitiesDesign(), studies.ABILITIES_QUICK),
    "cat": (studies.CATDesign(), studies.CAT_QUICK),
    "cbmm": (studies.CBMMDesign(), studies.CBMM_QUICK),
    "fpc": (None, studies.FPC_QUICK),
    "lart": (studies.LaRTDesign(), studies.LART_QUICK),
    "sparse": (studies.SparseDesign(), studies.QUICK),
}
"""The paper's and the quick one; FPC's default goes by what it is given."""
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

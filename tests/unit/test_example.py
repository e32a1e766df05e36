"""The embedded example is small, and its script reproduces it byte for byte."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from bayesirt.data.example import example_path
from bayesirt.data.readers import read_responses

MADE_WITH = "1.9"


def test_is_what_its_readers_are_told():
    responses = read_responses(example_path())
    assert (responses.n_subjects, responses.n_items) == (46, 300)
    assert list(responses.item_metadata.columns) == ["benchmark", "topic"]
    assert set(responses.item_metadata["benchmark"]) == {"digits", "wine", "breast-cancer"}
    assert 0.7 < responses.coverage < 0.85
    assert len(responses.components()) == 1
    assert example_path().stat().st_size < 200_000


@pytest.mark.slow
def test_its_script_makes_it_again(tmp_path):
    sklearn = pytest.importorskip("sklearn", reason="needs scikit-learn to make the example")
    if not sklearn.__version__.startswith(MADE_WITH):
        pytest.skip(f"made with scikit-learn {MADE_WITH}, here is {version('scikit-learn')}")
    again = tmp_path / "again.csv.gz"
    subprocess.run([sys.executable, "-m", "bayesirt.data.example.make", str(again)], check=True)
    assert again.read_bytes() == example_path().read_bytes()

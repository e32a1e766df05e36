"""The GitHub Action: its steps run as on a runner."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ACTION = Path(__file__).parents[2] / "action.yml"
TABLE = "model,item,score\n" + "".join(
    f"{name},q{k},{int(k >= lost)}\n" for name, lost in (("old", 2), ("new", 14)) for k in range(40)
)


def script() -> str:
    """Return the script of the step called Gate."""
    body = ACTION.read_text("utf-8").split("      run: |\n")[1]
    return re.sub(r"^ {8}", "", body, flags=re.MULTILINE)


@pytest.mark.parametrize(("candidate", "code"), [("new", 1), ("old2", 2)])
def test_the_step_passes_inputs_on_and_fails_the_job(tmp_path: Path, candidate: str, code: int):
    (tmp_path / "results.csv").write_text(TABLE)
    files = {
        name: str(tmp_path / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
    }
    inputs = {
        "RESULTS": "results.csv", "NEW_RESULTS": "", "BASELINE": "old", "CANDIDATE": candidate,
        "MARGIN": "0.01", "UNDECIDED": "pass", "OPTIONS": "--seed 3",
    }  # fmt: skip
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script()],
        cwd=tmp_path,
        env={**os.environ, **files, **inputs, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    if code == 1:
        assert "### Gate: regression" in (tmp_path / "github_step_summary").read_text()
        assert (tmp_path / "github_output").read_text() == "report=gate.html\n"
        assert (tmp_path / "gate.html").exists()
        assert "failure" in (tmp_path / "gate.xml").read_text()


def test_every_input_reaches_the_step():
    text = ACTION.read_text("utf-8")
    inputs = re.findall(r"^  ([a-z-]+):$", text.split("outputs:")[0], flags=re.MULTILINE)
    assert len(inputs) == 8
    for name in inputs:
        assert f"${{{{ inputs.{name} }}}}" in text

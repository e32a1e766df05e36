"""Seconds and peak memory of the joint Laplace posterior at the sizes of public leaderboards.

Each size runs in a separate process, so that peaks are measured separately.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("leaderboard_size.py")


@pytest.mark.bench
@pytest.mark.parametrize("size", ["2211 x 5761", "2212 x 12032"])
def test_all_intervals_at_once(size: str, capsys):
    done = subprocess.run(
        [sys.executable, SCRIPT, *size.split(" x ")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\n{size} on {found.pop('device')}: {found.pop('parameters')} parameters")
        for name, value in found.items():
            print(f"  {name:34} {value:8.2f}")
    assert found["finite"]
    assert found["4000 draws, GB"] < 6
    assert 0.8 < found["theta covered"] < 0.97
    assert 0.87 < found["items covered"] < 0.93

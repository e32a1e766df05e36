"""Over 100,000 changed files are read in little time and memory, without a traceback.

A class for each half of the readers: ``--dist loadscope`` gives classes to workers.
"""

import json
import subprocess
import sys
from pathlib import Path

import hostile_readings
import pytest

MOST_MEGABYTES = 1000
SCRIPT = Path(hostile_readings.__file__)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does"),
]


def check(half: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, half], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for reader in told["readers"]:
        assert not reader["wrong"], "\n".join(reader["wrong"])
        assert reader["slowest"] < hostile_readings.MOST_SECONDS, reader["reader"]
    assert told["megabytes"] < MOST_MEGABYTES


class TestLogs:
    def test_many_changes_end_in_responses_or_in_one_sentence(self):
        check("logs")


class TestTables:
    def test_many_changes_end_in_responses_or_in_one_sentence(self):
        check("tables")


def test_there_are_a_hundred_thousand_cases():
    assert sum(reader.n_many for reader in hostile_readings.READERS) >= 100_000

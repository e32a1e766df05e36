"""Over 30,000 changed files are read in little time and memory, without a traceback.

A class for each half of the readers: ``--dist loadscope`` gives classes to workers.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import hostile_readings
import pytest

MOST_MEGABYTES = 1000
SCRIPT = Path(hostile_readings.__file__)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does"),
]


def read_changed(half: str) -> dict[str, Any]:
    """Return what a process of its own tells of one half of the readers."""
    done = subprocess.run([sys.executable, SCRIPT, half], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return {
        "wrong": [case for reader in told["readers"] for case in reader["wrong"]],
        "slowest": max(reader["slowest"] for reader in told["readers"]),
        "megabytes": told["megabytes"],
    }


class TestLogs:
    def test_many_changes_end_in_responses_or_in_one_sentence(self):
        told = read_changed("logs")
        assert told["wrong"] == []
        assert told["slowest"] < hostile_readings.MOST_SECONDS
        assert told["megabytes"] < MOST_MEGABYTES


class TestTables:
    def test_many_changes_end_in_responses_or_in_one_sentence(self):
        told = read_changed("tables")
        assert told["wrong"] == []
        assert told["slowest"] < hostile_readings.MOST_SECONDS
        assert told["megabytes"] < MOST_MEGABYTES


def test_there_are_some_tens_of_thousands_of_cases():
    assert sum(reader.n_many for reader in hostile_readings.READERS) >= 30_000

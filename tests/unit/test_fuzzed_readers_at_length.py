"""Over 30,000 mutated files are read in little time and memory, without a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import hostile_readings
import pytest

MOST_MEGABYTES = 1000
SCRIPT = Path(hostile_readings.__file__)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
@pytest.mark.parametrize("half", ["logs", "tables"])
def test_many_changes_end_in_responses_or_in_one_sentence(half: str):
    assert sum(reader.n_many for reader in hostile_readings.READERS) >= 30_000
    done = subprocess.run([sys.executable, SCRIPT, half], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [case for reader in told["readers"] for case in reader["wrong"]] == []
    assert max(reader["slowest"] for reader in told["readers"]) < hostile_readings.MOST_SECONDS
    assert told["megabytes"] < MOST_MEGABYTES

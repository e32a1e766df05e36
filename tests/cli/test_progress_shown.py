"""Long work shows progress, a rate and the time left on a terminal, and nowhere else."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SLOW = """
import sys, time
from bayesirt.data.readers import long_parquet
from bayesirt.cli import main

def slowly(batch, check=long_parquet.check_dictionaries):
    time.sleep(0.15)
    check(batch)

long_parquet._AT_ONCE = 100
long_parquet.check_dictionaries = slowly
main()
"""
"""Reads at most 100 rows in 0.15 seconds."""


@pytest.fixture
def slow_file(tmp_path: Path) -> Path:
    """Return a file of 1,000 rows, which take one and a half seconds to read."""
    subject, item = np.divmod(np.arange(1000), 40)
    frame = pd.DataFrame({"model": subject, "item": item, "score": (subject + item) % 2})
    frame.to_parquet(tmp_path / "r.parquet", row_group_size=250)
    return tmp_path / "r.parquet"


def convert(path: Path, *options: str, stderr: int) -> subprocess.Popen[bytes]:
    code = [sys.executable, "-c", SLOW, "convert", path, path.with_name("new.parquet")]
    wide = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    return subprocess.Popen([*code, *options], stdout=subprocess.PIPE, stderr=stderr, env=wide)


def on_terminal(path: Path, *options: str) -> str:
    """Return what a conversion shows on a terminal's stderr."""
    terminal, inside = pty.openpty()
    done = convert(path, *options, stderr=inside)
    os.close(inside)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    done.communicate()
    assert done.returncode == 0, shown
    return shown.decode()


def test_a_slow_reading_shows_rows_rate_and_time_left(slow_file: Path):
    shown = on_terminal(slow_file)
    assert "reading" in shown
    counts = [int(k) for k in re.findall(r"(\d+)/1000", shown)]
    assert len(set(counts)) > 5
    assert counts == sorted(counts)
    rates = [int(k.replace(",", "")) for k in re.findall(r"([\d,]+)/s", shown)]
    assert rates
    assert 100 < rates[-1] < 700
    assert re.search(r"0:00:0[0-2]", shown)


def test_nobody_is_shown_anything_who_does_not_look(slow_file: Path):
    done = convert(slow_file, stderr=subprocess.PIPE)
    _, said = done.communicate()
    assert (done.returncode, said) == (0, b"")


def test_quiet_is_quiet_on_a_terminal_too(slow_file: Path):
    assert on_terminal(slow_file, "-q") == ""

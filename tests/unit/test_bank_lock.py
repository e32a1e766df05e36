"""One process writes to an item bank at a time, and a process that died does not block it."""

import os
from pathlib import Path

import pytest
from bank_data import finished, items_step, python

from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.bank.lock import bank_lock
from bayesirt.errors import ResponseError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a bank with one step."""
    create_bank_folder(tmp_path / "bank", items_step("maths"), 2)
    return tmp_path / "bank"


HOLDS = """
import sys
from pathlib import Path
from bayesirt.bank.lock import bank_lock
with bank_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_writes_at_a_time(folder: Path):
    other = python(HOLDS, folder)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(ResponseError, match="is being written by another process; wait for it"):
        append_step(folder, items_step("law", "add"))
    assert read_bank(folder).benchmark_names == ("maths",)
    finished(other)
    append_step(folder, items_step("law", "add"))


def test_the_lock_of_a_killed_process_ends_with_it(folder: Path):
    other = python(HOLDS, folder)
    assert other.stdout.readline() == "held\n"
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    append_step(folder, items_step("law", "add"))
    other.communicate()


def test_the_lock_is_given_back_whatever_happens(folder: Path):
    with pytest.raises(RuntimeError, match="no"), bank_lock(folder):
        raise RuntimeError("no")
    with bank_lock(folder), pytest.raises(ResponseError, match="is being written"):
        append_step(folder, items_step("law", "add"))
    append_step(folder, items_step("law", "add"))
    with pytest.raises(ResponseError, match="cannot be written"), bank_lock(folder / "missing"):
        pass
    assert not (folder / "missing").exists()

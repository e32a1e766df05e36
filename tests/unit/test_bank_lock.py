"""One process writes to an item bank at a time, and one that died is no hindrance."""

import json
import os
import socket
from pathlib import Path

import pytest
from bank_data import finished, items_step, python

from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.bank.lock import bank_lock
from bayesirt.errors import ResponseError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a bank of one step."""
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
    said = f"is being written by process {other.pid} on {socket.gethostname()} since 2.*; wait"
    with pytest.raises(ResponseError, match=said):
        append_step(folder, items_step("law", "add"))
    assert read_bank(folder).benchmark_names == ("maths",)
    finished(other)
    append_step(folder, items_step("law", "add"))


def test_the_lock_of_a_killed_process_is_taken_over(folder: Path):
    other = python(HOLDS, folder)
    assert other.stdout.readline() == "held\n"
    other.kill()
    other.communicate()
    assert (folder / "bank.lock").exists()
    append_step(folder, items_step("law", "add"))
    assert not (folder / "bank.lock").exists()


def test_the_lock_of_a_killed_process_that_nobody_waited_for_is_taken_over(folder: Path):
    other = python(HOLDS, folder)
    assert other.stdout.readline() == "held\n"
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    append_step(folder, items_step("law", "add"))
    other.communicate()


DEAD = {"process": 2**31 - 1, "host": socket.gethostname(), "since": 0.0}


def test_a_lock_that_stays_empty_is_taken_over(folder: Path):
    lock = folder / "bank.lock"
    lock.touch()
    a_minute_ago = lock.stat().st_mtime - 61
    os.utime(lock, (a_minute_ago, a_minute_ago))
    append_step(folder, items_step("law", "add"))
    assert not lock.exists()


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("", "another process"),
        ("[]", "another process"),
        (json.dumps(DEAD | {"process": "x"}), "another process"),
        (json.dumps(DEAD | {"process": 2**70}), "another process"),
        (json.dumps(DEAD | {"since": 1e300}), "another process"),
        (json.dumps(DEAD | {"host": "far away"}), "process 2147483647 on far away since 19"),
        (json.dumps(DEAD | {"process": os.getpid()}), f"process {os.getpid()} on"),
    ],
    ids=["empty", "list", "word", "number too large", "time too late", "elsewhere", "alive"],
)
def test_a_lock_that_may_be_held_is_respected(folder: Path, text: str, who: str):
    lock = folder / "bank.lock"
    lock.write_text(text, "utf-8")
    said = f"written by {who}.*; wait for it, or delete .*bank.lock if it has died"
    with pytest.raises(ResponseError, match=said):
        append_step(folder, items_step("law", "add"))
    assert lock.read_text("utf-8") == text


def test_a_dead_lock_that_another_takes_over_is_left_to_it(folder: Path):
    fcntl = pytest.importorskip("fcntl")
    lock = folder / "bank.lock"
    lock.write_text(json.dumps(DEAD), "utf-8")
    with lock.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ResponseError, match="is being written by process 2147483647"):
            append_step(folder, items_step("law", "add"))
    assert lock.exists()
    append_step(folder, items_step("law", "add"))


def test_the_lock_is_given_back_whatever_happens(folder: Path):
    with pytest.raises(RuntimeError, match="no"), bank_lock(folder):
        raise RuntimeError("no")
    with bank_lock(folder), pytest.raises(ResponseError, match="is being written"):
        append_step(folder, items_step("law", "add"))
    assert not (folder / "bank.lock").exists()
    with pytest.raises(ResponseError, match="cannot be written"), bank_lock(folder / "missing"):
        pass


RACE = """
import json, os, socket, sys, time
from pathlib import Path
from bayesirt.bank.lock import bank_lock
from bayesirt.errors import ResponseError

folder, n_rounds = Path(sys.argv[1]), int(sys.argv[2])
dead = json.dumps({"process": 2**31 - 1, "host": socket.gethostname(), "since": 0.0})
won = 0
for _ in range(n_rounds):
    (folder / "bank.lock").write_text(dead)
    start = time.time() + 0.02
    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1]:
            continue
        time.sleep(max(0, start - time.time()))
        code = 0
        try:
            with bank_lock(folder):
                os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
                time.sleep(0.002)
                os.unlink(folder / "inside")
                code = 1
        except ResponseError:
            pass
        except BaseException:
            code = 2
        os._exit(code)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert max(codes) < 2, codes
    assert sum(codes) >= 1, codes
    won += sum(codes)
print(won)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_of_many_that_find_a_dead_lock_one_goes_in_at_a_time(tmp_path: Path):
    assert int(finished(python(RACE, tmp_path, 40))) >= 40

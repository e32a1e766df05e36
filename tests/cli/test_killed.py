"""A killed command leaves either the old or the new output, whole, and can be run again."""

import json
import os
from pathlib import Path

import pytest
from bank_data import finished, python
from quick_commands import write_inputs

KILLED = """
import json, os, signal, sys
from itertools import count
from pathlib import Path
from bank_data import breaking_in
from bayesirt.cli import main
from quick_commands import COMMANDS, quick_profiles, quick_run, without_fits

inputs, place, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
run = None
if "rank" in names:
    run = quick_run(inputs)
    quick_profiles()  # what JAX computes, it computes before a fork


def ended():
    try:
        main()
    except SystemExit as leaving:
        return leaving.code


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def left_by_kills(name):
    # Of each file operation: whether, after a kill before it, the command has written.
    command, left = COMMANDS[name], []
    for at in count(1):
        out = place / name / str(at) / command.place
        out.parent.mkdir(parents=True)
        command.prepare(out, run)
        sys.argv = command.line(out, inputs)
        child = os.fork()
        if not child:
            with without_fits(run), breaking_in(out, at, kill):
                os._exit(ended())
        status = os.waitpid(child, 0)[1]
        if status == 0:
            assert command.is_new(out)
            return left
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        left.append(out.exists() and command.is_new(out))
        if not left[-1]:
            with without_fits(run):
                assert ended() == 0
            assert command.is_new(out)


print(json.dumps({name: left_by_kills(name) for name in names}))
"""
CHECKPOINT = """
import json, os, signal, sys
from itertools import count
from pathlib import Path
import numpy as np
from bank_data import breaking_in
from bayesirt.inference.checkpoint import Checkpoint, Progressed

BEGINNING = Progressed({}, 0, [])


def go_on(checkpoint):
    # Take three steps of which each keeps a block of draws, and be done.
    state = checkpoint.load(BEGINNING)
    began = state.steps
    assert [int(block["x"]) for block in state.kept] == list(range(began))
    for step in range(began, 3):
        kept = [*state.kept, {"x": np.array(step)}]
        state = Progressed({}, step + 1, kept)
        checkpoint.save(state)
    checkpoint.remove()
    return began


began = []
for at in count(1):
    folder = Path(sys.argv[1], str(at), "kept")
    folder.parent.mkdir()
    child = os.fork()
    if not child:
        with breaking_in(folder, at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            go_on(Checkpoint(folder, "same"))
            os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    began.append(go_on(Checkpoint(folder, "same")))
    assert not folder.exists()
print(json.dumps(began))
"""
QUICK = ["convert again"]
SLOW = ["rank", "profile again", "export", "bank create"]
"""One command each that makes a folder, replaces one, replaces a page, and starts a bank.

`test_bank_folder.py` kills additions to a bank, and `test_disk_full.py` interrupts every command.
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("names", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_a_kill_at_any_operation_leaves_the_old_or_the_new_whole(tmp_path: Path, names: list[str]):
    inputs = write_inputs(tmp_path / "inputs")
    left = json.loads(finished(python(KILLED, inputs, tmp_path / "out", *names)))
    assert list(left) == names
    for states in left.values():
        assert states == sorted(states)  # once the output is new, it stays new
        assert states.count(False) > 1
        assert True in states


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_operation_of_a_checkpoint_leaves_one_to_go_on_from(tmp_path: Path):
    began = json.loads(finished(python(CHECKPOINT, tmp_path)))
    saved = began[: began.index(3) + 1]
    assert saved == sorted(saved)
    assert set(saved) == {0, 1, 2, 3}
    assert set(began[len(saved) :]) <= {0, 3}  # killed during removal: still complete, or gone

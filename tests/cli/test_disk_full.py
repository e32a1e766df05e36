"""On a full disk, a command reports so in one sentence and leaves existing files unchanged."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from bank_data import contents
from cli.conftest import Cli
from cli.test_bad_input import sentence
from quick_commands import COMMANDS, quick_run, without_fits, write_inputs

from bayesirt.ranking.finished_run import Run

Disk = tuple[Path, Callable[[], AbstractContextManager[None]]]
"""A folder, and a context in which its disk is full."""
MOST_BYTES = 1000
"""Largest file: longer than a message, shorter than anything that a command writes."""
WORDS = ("No space left on device", "File too large")


@contextmanager
def small_files() -> Iterator[None]:
    """Limit the size of this process's files, so that writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the disk of a folder to its last byte."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass
        yield
    (folder / "filler").unlink()


MOUNTED = ("convert again", "rank again", "bank add")
"""Commands also run on a real full disk: they write a file, a folder, and into a folder."""
CASES = [("small files", name) for name in COMMANDS] + [("tmpfs", name) for name in MOUNTED]


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "small files":
        yield folder, small_files
        return
    if sys.platform != "linux":
        pytest.skip("mounts a disk as Linux does")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no right to mount a small disk: {done.stderr.strip()}")
    try:
        yield folder, lambda: filled(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("results") / "inputs")


@pytest.fixture(scope="module")
def run(inputs: Path) -> Run:
    return quick_run(inputs)


@pytest.mark.parametrize(("disk", "name"), CASES, indirect=["disk"])
def test_a_full_disk_is_one_sentence_and_what_was_there_stays(
    cli: Cli, disk: Disk, inputs: Path, run: Run, name: str
):
    (folder, full), command = disk, COMMANDS[name]
    out = folder / command.place
    command.prepare(out, run)
    before = contents(folder)
    words = command.line(out, inputs)[1:]
    with without_fits(run):
        with full():
            said = sentence(cli(*words))
        assert "cannot be written" in said
        assert any(reason in said for reason in WORDS)
        left = contents(folder)
        assert {name: left[name] for name in left if ".partial/" not in name} == before
        assert not list(folder.glob(".bayesirt-*"))
        assert cli(*words).code == 0
    assert command.is_new(out)
    assert not list(folder.rglob("*.partial"))


def test_draws_without_room_are_an_error_and_not_the_end_of_the_process(tmp_path: Path, run: Run):
    for result in (run.point, run.posterior):
        with small_files(), pytest.raises(OSError, match="File too large"):
            result.save(tmp_path / "draws.nc")
        assert not any(tmp_path.iterdir())

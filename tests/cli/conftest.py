"""The command line as tests call it."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from bayesirt.cli import main


class Shown(NamedTuple):
    """What a command left: its exit code, and what it wrote to both streams."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What stands on stdout, however its lines are broken."""
        return " ".join(self.out.split())


Cli = Callable[..., Shown]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs a command in this process."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "as in conftest")

    def run(*arguments: object) -> Shown:
        monkeypatch.setattr(sys, "argv", ["bayesirt", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
        return Shown(leaving.value.code, *capfd.readouterr())

    return run

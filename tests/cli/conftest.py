"""Fixtures that run the command line."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from quick_engine import draw_near

from bayesirt import studies
from bayesirt.cli import main


class Shown(NamedTuple):
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Stdout with every run of white space replaced by one space."""
        return " ".join(self.out.split())


Cli = Callable[..., Shown]


@pytest.fixture(autouse=True)
def draws_at_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `rank` draw without compiling a sampler, except in slow tests."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("bayesirt.ranking.run.sample_posterior", draw_near)


def run_command(*arguments: object) -> int:
    """Run a command in this process, and return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["bayesirt", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
    return leaving.value.code


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Return a function that runs a command in this process."""
    return lambda *arguments: Shown(run_command(*arguments), *capfd.readouterr())


class MadeStudy:
    def save(self, folder: Path) -> None:
        folder.mkdir()

    def to_text(self) -> str:
        return "said"


Asked = list[tuple[object, dict[str, object]]]


def remembered(monkeypatch: pytest.MonkeyPatch, study: str) -> Asked:
    """Make a study return at once, and record the arguments of each call."""
    calls: Asked = []

    def remember(design: object, **options: object) -> MadeStudy:
        calls.append((design, options))
        return MadeStudy()

    monkeypatch.setattr(studies, study, remember)
    return calls

"""The inspect_ai extension, with a stand-in for the parts of inspect_ai that it uses."""

import asyncio
import importlib
import sys
from importlib.metadata import entry_points
from subprocess import CompletedProcess
from types import ModuleType, SimpleNamespace
from typing import Any

import harness_data as data
import pytest


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    hooks = ModuleType("inspect_ai.hooks")
    hooks.Hooks, hooks.RunEnd = object, object  # type: ignore[attr-defined]
    hooks.hooks = lambda **_: lambda one: one  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.hooks", hooks)
    monkeypatch.delitem(sys.modules, "bayesirt.inspect_plugin", raising=False)
    found = importlib.import_module("bayesirt.inspect_plugin")
    monkeypatch.delitem(sys.modules, "bayesirt.inspect_plugin")
    return found


def test_inspect_finds_it():
    (own,) = entry_points(group="inspect_ai", name="bayesirt")
    assert own.value == "bayesirt.inspect_plugin"


def test_each_folder_of_a_run_is_ranked_once(plugin, monkeypatch, capsys):
    commands = []

    def run(command: list[str], **_: object) -> CompletedProcess[str]:
        commands.append(command)
        return CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(plugin.subprocess, "run", run)
    assert not plugin.RankLogs().enabled()
    monkeypatch.setenv(plugin.OUT, "ranked")
    monkeypatch.setenv(plugin.OPTIONS, "--metric 'a b'")
    assert plugin.RankLogs().enabled()
    places = ("logs/1.eval", "logs/2.eval", "file:///tmp/my%20logs/3.eval")
    logs = [SimpleNamespace(location=place) for place in places]
    asyncio.run(plugin.RankLogs().on_run_end(SimpleNamespace(logs=logs)))
    assert [command[4] for command in commands] == ["logs", "/tmp/my logs"]
    assert commands[0][-2:] == ["--metric", "a b"]
    assert "are ranked in ranked/report.html" in capsys.readouterr().out


def test_the_reason_is_told_where_nothing_is_ranked(plugin, monkeypatch, tmp_path):
    data.inspect_eval(tmp_path / "x.eval", [data.sample(1, "C")], data.inspect_header())
    monkeypatch.setenv(plugin.OUT, str(tmp_path / "out"))
    assert "a ranking needs at least 2 subjects, got 1" in plugin.rank_folder(str(tmp_path))
    assert not (tmp_path / "out").exists()

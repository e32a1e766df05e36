"""The progress bar on a terminal, and its silence elsewhere."""

import os
import sys
import time

import pytest

from bayesirt.progress import least_seconds, progress_bar, rounds_of_chains


def test_bar_shows_how_much_is_done_and_how_fast(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar("sampling") as show:
        assert show is not None
        for done in (50, 100, 1000):
            show(done, 2000)
            time.sleep(0.15)
    shown = capsys.readouterr().err
    assert "sampling" in shown
    assert "1000/2000" in shown
    assert "/s" in shown


def test_error_below_the_bar_is_passed_on(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(ZeroDivisionError), progress_bar("sampling"):
        raise ZeroDivisionError


def test_nothing_is_shown_where_nobody_looks(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with progress_bar("sampling") as show:
        assert show is None
    assert capsys.readouterr().err == ""


def test_first_call_which_may_compile_is_not_timed():
    calls = []

    def call():
        time.sleep(0.0 if calls else 0.2)
        calls.append(1)

    assert least_seconds(call, tries=3) < 0.1
    assert len(calls) == 4


@pytest.mark.parametrize(("chains", "devices", "rounds"), [(4, 4, 2), (4, 1, 4), (1, 1, 1)])
def test_chains_side_by_side_take_a_round_for_each_core(chains, devices, rounds, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert rounds_of_chains(chains, devices) == rounds

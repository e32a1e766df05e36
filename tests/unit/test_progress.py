"""The progress bar on a terminal, and its silence elsewhere."""

import sys
import time

import pytest

from bayesirt.progress import progress_bar


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

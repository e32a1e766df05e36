"""The progress bar on a terminal, and its silence elsewhere."""

import os
import re
import sys
import time

import jax.numpy as jnp
import pytest

from bayesirt.estimators.iteration import iterate
from bayesirt.progress import fits_shown, least_seconds, progress_bar, rounds_of_chains


def test_error_below_the_bar_is_passed_on(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(ZeroDivisionError), progress_bar("sampling"):
        raise ZeroDivisionError


def test_first_call_which_may_compile_is_not_timed():
    calls = []

    def call():
        time.sleep(0.0 if calls else 0.2)
        calls.append(1)

    assert least_seconds(call, tries=3) < 0.1
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("chains", "threads", "rounds"), [(4, True, 2), (4, False, 4), (1, True, 1)]
)
def test_chains_in_threads_take_a_round_for_each_core(chains, threads, rounds, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert rounds_of_chains(chains, in_threads=threads) == rounds


def test_a_bar_within_a_bar_is_silent(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar("outer"), progress_bar("inner") as inner:
        assert inner is None
    with progress_bar("next") as following:
        assert following is not None


def fit_shown(wanted: bool, monkeypatch, capsys) -> str:
    """Return the output of a fit whose loss halves its distance from 1 in each step."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("bayesirt.progress._SHORT", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def step(x: float) -> float:
        time.sleep(0.05)
        return x / 2

    with fits_shown(wanted):
        _, run = iterate(
            step, 1.0, lambda x: jnp.array(1 + x), tol=2.0**-20, max_iterations=50, name="halves"
        )
    assert run.converged
    return capsys.readouterr().err


def test_a_fit_shows_hundredths_of_the_way_to_its_tolerance(monkeypatch, capsys):
    shown = fit_shown(True, monkeypatch, capsys)
    assert "fitting halves" in shown
    parts = [int(k) for k in re.findall(r"(\d+)/100", shown)]
    assert parts == sorted(parts)
    assert parts[-1] in range(85, 101)
    assert "/s" in shown


def test_a_fit_is_silent_unless_it_is_to_be_shown(monkeypatch, capsys):
    assert fit_shown(False, monkeypatch, capsys) == ""

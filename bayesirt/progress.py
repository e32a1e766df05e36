"""Progress bars and time estimates of long computations."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

_SHORT = 2.0
"""Seconds before a fit shows its progress."""
_fits_shown = ContextVar("_fits_shown", default=False)
_bar_there = ContextVar("_bar_there", default=False)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show progress, speed and remaining time on stderr, if it is a terminal.

    The bar appears at the first update, so that earlier messages stay above it. Bars are not
    nested.
    """
    if _bar_there.get() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=None, rate="")

    def show(done: int, total: int) -> None:
        bar.start()
        speed = bar.tasks[task].speed
        bar.update(task, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

    outermost = _bar_there.set(True)
    try:
        yield show
    finally:
        _bar_there.reset(outermost)
        bar.stop()


@contextmanager
def fits_shown(wanted: bool) -> Iterator[None]:
    """Let slow point estimates show their progress on stderr, if it is a terminal."""
    before = _fits_shown.set(wanted)
    try:
        yield
    finally:
        _fits_shown.reset(before)


@contextmanager
def fit_bar(title: str) -> Iterator[Callable[[float, float], None]]:
    """Show how close a slow fit is to its tolerance, if `fits_shown` is on.

    With linear convergence, the logarithm of the change falls by the same amount in each step. The
    bar shows the percentage of the way, on this scale, from the first change to the tolerance.
    """
    began, first = time.perf_counter(), 0.0
    with progress_bar(title) if _fits_shown.get() else nullcontext() as show:

        def tell(change: float, last: float) -> None:
            nonlocal first
            first = max(first, change)
            if show is None or time.perf_counter() - began < _SHORT or not 0 < last < first:
                return
            fraction = math.log(first / max(change, last)) / math.log(first / last)
            show(round(100 * fraction), 100)

        yield tell


def least_seconds(call: Callable[[], object], tries: int = 5) -> float:
    """Return the shortest time of a few calls after a first call, which may compile."""
    call()
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def rounds_of_chains(num_chains: int, *, in_threads: bool) -> float:
    """Return the time of all chains in units of one chain; each thread can use a core."""
    return num_chains / (min(num_chains, os.cpu_count() or 1) if in_threads else 1)


def in_words(seconds: float) -> str:
    """Return a duration in words.

    >>> in_words(75), in_words(600), in_words(9000)
    ('75 s', '10 min', '2.5 hours')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

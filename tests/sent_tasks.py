"""A stand-in for worker processes: pickles tasks and results, and runs them at once."""

import pickle
from concurrent.futures import Executor, Future
from contextlib import nullcontext

import pytest

from bayesirt.studies import tasks


class AtOnce(Executor):
    """Unpickles what it is given, and runs it in this process."""

    def submit(self, function, /, *arguments):
        sent, received = pickle.loads(pickle.dumps((function, arguments)))
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(sent(*received))))
        return future


def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let studies run their tasks in this process, through pickles."""
    monkeypatch.setattr(tasks, "_pool", lambda *_: nullcontext(AtOnce()))

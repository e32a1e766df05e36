"""Other processes, without any: what they are sent and send back is pickled, and done at once."""

import pickle
from concurrent.futures import Executor, Future
from contextlib import nullcontext

import pytest

from bayesirt.studies import tasks


class AtOnce(Executor):
    """Runs in this process what it is given, as it comes out of a pickle."""

    def submit(self, function, /, *arguments):
        sent, received = pickle.loads(pickle.dumps((function, arguments)))
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(sent(*received))))
        return future


def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let studies that ask for other processes send their work through pickles alone."""
    monkeypatch.setattr(tasks, "_pool", lambda *_: nullcontext(AtOnce()))

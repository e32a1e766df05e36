"""Lock for a single writer, released when its process ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bayesirt.data.whole_file import saying_why
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

LOCK = "bank.lock"
"""The file is never removed; only the lock on it counts."""


@contextmanager
def bank_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a bank."""
    lock = FileLock(folder / LOCK, timeout=0)
    with saying_why(folder, "the bank "):
        if not folder.is_dir():
            raise FileNotFoundError("no such folder")
        try:
            lock.acquire()
        except Timeout as error:
            shown = one_line(str(folder), 400)
            raise ResponseError(
                f"the bank {shown} is being written by another process; wait for it"
            ) from error
    try:
        yield
    finally:
        lock.release()

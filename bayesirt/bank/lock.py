"""One writer at a time: a lock file that says who holds it."""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import psutil

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

if sys.platform != "win32":
    import fcntl

LOCK = "bank.lock"
_SECONDS_TO_FILL = 60.0
"""A lock that is still empty then was left by a process that died before it wrote its name."""


class _Holder(NamedTuple):
    process: int
    host: str
    since: float

    @property
    def is_dead(self) -> bool:
        """Whether it ran on this host and runs no longer."""
        if self.host != socket.gethostname():
            return False
        try:
            return psutil.Process(self.process).status() in (
                psutil.STATUS_ZOMBIE,
                psutil.STATUS_DEAD,
            )
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False


@contextmanager
def bank_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a bank.

    A lock is taken over if its process ran on this host and runs no longer, or if it was empty for
    a minute: its process died before it wrote its name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, bank_lock(Path(folder)):
    ...     [file.name for file in Path(folder).iterdir()]
    ['bank.lock']
    """
    try:
        _take(folder / LOCK)
    except OSError as error:
        reason = one_line(error.strerror or str(error), 200)
        shown = one_line(str(folder), 400)
        raise ResponseError(f"the bank {shown} cannot be written: {reason}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()


def _take(lock: Path) -> None:
    own = _Holder(os.getpid(), socket.gethostname(), time.time())
    try:
        _create(lock, own)
    except FileExistsError:
        _remove_dead(lock)
        try:
            _create(lock, own)
        except FileExistsError:
            _refuse(lock, _parse(lock.read_bytes()))


def _create(lock: Path, own: _Holder) -> None:
    handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(own._asdict()).encode())
    except BaseException:
        lock.unlink(missing_ok=True)
        raise


def _remove_dead(lock: Path) -> None:
    """Remove a lock that its process left behind, or refuse.

    Of two processes that find it, the second would else remove what the first has put there.
    """
    with suppress(FileNotFoundError), lock.open("rb") as file:
        data = file.read()
        holder = _parse(data)
        is_dead = holder.is_dead if holder is not None else not data and _is_old(file)
        if not is_dead or not _claims(file):
            _refuse(lock, holder)
        if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
            lock.unlink()


def _is_old(file: BinaryIO) -> bool:
    return time.time() - os.fstat(file.fileno()).st_mtime > _SECONDS_TO_FILL


def _claims(file: BinaryIO) -> bool:
    """Return whether no other process claims a file, which this one does until it is closed."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _parse(data: bytes) -> _Holder | None:
    """Return who holds a lock, or None if that cannot be told."""
    try:
        stored = json.loads(data)
        holder = _Holder(int(stored["process"]), str(stored["host"]), float(stored["since"]))
        time.localtime(holder.since)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return holder if 0 < holder.process < 1 << 31 else None


def _refuse(lock: Path, holder: _Holder | None) -> NoReturn:
    who = "another process"
    if holder is not None:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(holder.since))
        who = f"process {holder.process} on {one_line(holder.host)} since {since}"
    folder, file = (one_line(str(path), 400) for path in (lock.parent, lock))
    raise ResponseError(
        f"the bank {folder} is being written by {who}; wait for it, or delete {file} if it has died"
    )

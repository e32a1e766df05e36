"""Atomic writing: a file is either complete or absent."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_MARGIN = 1 << 20
"""Extra bytes for names and for the overhead of a format."""


@contextmanager
def saying_why(path: Path, prefix: str = "") -> Iterator[None]:
    """Turn an error of the system on writing into a sentence."""
    try:
        yield
    except OSError as error:
        reason = one_line(error.strerror or str(error), 200)
        shown = f"{prefix}{one_line(str(path), 400)}"
        raise ResponseError(f"{shown} cannot be written: {reason}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that it is complete or absent."""
    partial = path.with_name(f".{path.name}.partial")
    with saying_why(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def make_sure_of_room(path: Path, n_bytes: int) -> None:
    """Reserve disk space for a file before it is written, and raise OSError if there is too little.

    If the disk is full when HDF5 closes a file, leftover objects crash the process. Does nothing
    where the system cannot reserve space.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes + n_bytes // 8 + _MARGIN)
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno in _FULL:
            raise

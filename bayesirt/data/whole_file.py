"""Files that are whole or not there."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_MARGIN = 1 << 20
"""Bytes, for names and for what a format keeps besides."""


@contextmanager
def saying_why(path: Path, what: str = "") -> Iterator[None]:
    """Turn what the system refuses to write into a sentence."""
    try:
        yield
    except OSError as error:
        reason = one_line(error.strerror or str(error), 200)
        shown = f"{what}{one_line(str(path), 400)}"
        raise ResponseError(f"{shown} cannot be written: {reason}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it, so that it is whole or not there."""
    partial = path.with_name(f".{path.name}.partial")
    with saying_why(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def make_sure_of_room(path: Path, n_bytes: int) -> None:
    """Make sure that there is room for a file before it is written by what cannot do without.

    HDF5 that finds no room when it closes a file leaves objects behind that end the process. Where
    the system cannot set room aside, nothing is made sure of.
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

"""Files that are whole or not there."""

import os
from pathlib import Path

from bayesirt.errors import ResponseError
from bayesirt.names import one_line


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it, so that it is whole or not there.

    Parameters
    ----------
    path : Path
    content : bytes

    Raises
    ------
    ResponseError
        If it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        reason = one_line(error.strerror or str(error), 200)
        raise ResponseError(f"{one_line(str(path), 400)} cannot be written: {reason}") from error

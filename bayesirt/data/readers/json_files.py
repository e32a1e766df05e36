"""JSON files of harnesses, of bounded size; broken ones are refused with one sentence.

The sentences do not name the file: callers that read several prepend its name.
"""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

MOST_BYTES = 1 << 30
"""Largest file that is parsed as a whole."""
MOST_OF_A_LINE = 1 << 26
"""Largest line, in bytes."""
_HEAD = 1 << 16


def head_of(path: Path) -> bytes:
    """Return the first 64 KiB of a file."""
    try:
        with _opened(path) as file:
            return file.read(_HEAD)
    except OSError as error:
        raise unreadable(error) from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    content = parse_json(read_whole(path))
    if not isinstance(content, dict):
        raise ResponseError("it holds no JSON object; make the log again, or leave the file out")
    return content


def read_beside(path: Path) -> dict[str, Any]:
    """Read a JSON file that accompanies a log; errors name it."""
    try:
        return read_json(path)
    except ResponseError as error:
        raise ResponseError(f"its companion file {one_line(path.name, 80)}: {error}") from None


def read_whole(path: Path) -> bytes:
    """Read a file of at most `MOST_BYTES`."""
    try:
        with _opened(path) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable(error) from None
    if len(data) > MOST_BYTES:
        raise ResponseError(
            f"it is larger than {MOST_BYTES >> 20:,} MiB; split it, or leave out its prompts"
        )
    return data


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and object of each line of a JSON Lines file."""
    some = False
    try:
        with _opened(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_OF_A_LINE + 1), b""), 1):
                if len(line) > MOST_OF_A_LINE:
                    raise ResponseError(
                        f"line {number} is longer than {MOST_OF_A_LINE >> 20} MiB; leave it out"
                    )
                if not line.strip():
                    continue
                row = parse_json(line, f"line {number}")
                if not isinstance(row, dict):
                    raise ResponseError(
                        f"line {number} is not a JSON object; make the log again, or leave the "
                        f"line out"
                    )
                some = True
                yield number, row
    except OSError as error:
        raise unreadable(error) from None
    if not some:
        raise ResponseError("it is empty; make the log again, or leave the file out")


def parse_json(data: bytes, name: str = "it") -> Any:
    """Parse JSON in UTF-8.

    >>> parse_json(b'{"doc_id": 0}')
    {'doc_id': 0}
    """
    if not data.strip():
        raise ResponseError(f"{name} is empty; make the log again, or leave it out")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ResponseError(f"{name} is not UTF-8; make the log again, or leave it out") from None
    except RecursionError:
        raise ResponseError(f"{name} is nested too deeply; leave it out") from None
    except ValueError as error:
        reason = one_line(str(error), 80)
        raise ResponseError(
            f"{name} is not valid JSON ({reason}); it may have been cut short: make the log again, "
            f"or leave it out"
        ) from None


def _opened(path: Path) -> BinaryIO:
    """Open a regular file; refuse others, such as pipes, which may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ResponseError("it is not a regular file; save it as one, or leave it out")
    return path.open("rb")


def unreadable(error: OSError) -> ResponseError:
    """Return the error for a file that the system cannot read.

    >>> print(unreadable(PermissionError(13, "Permission denied")))
    it cannot be read (Permission denied); check the file and its permissions
    """
    reason = one_line(error.strerror or str(error), 120)
    return ResponseError(f"it cannot be read ({reason}); check the file and its permissions")

"""Results that are piped into a command, named `-`."""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from bayesirt.errors import ResponseError

_STARTS = {b"PAR1": "parquet", b"PK": "xlsx", b"\x1f\x8b": "csv.gz", b"[": "json", b"{": "json"}
"""First bytes of each format."""


def piped(path: Path | None) -> Path | None:
    """Return the path of results; save standard input to a file that is removed at exit."""
    if str(path) != "-":
        return path

    data = sys.stdin.buffer.read()
    start = data.lstrip()
    if not start:
        raise ResponseError("standard input is empty; pipe results into the command")
    ending = next((end for first, end in _STARTS.items() if start.startswith(first)), "csv")
    if ending == "json" and b"\n{" in start:
        ending = "jsonl"
    elif ending == "csv" and b"\t" in start.partition(b"\n")[0]:
        ending = "tsv"
    folder = Path(tempfile.mkdtemp(prefix="bayesirt-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / f"stdin.{ending}"
    file.write_bytes(data)
    return file

"""Members of an ``.eval`` archive, which is a ZIP file compressed with Zstandard.

Python's `zipfile` finds the members, but cannot unpack this method before version 3.14.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import zstandard

from bayesirt.data.readers.json_files import parse_json, unreadable
from bayesirt.data.readers.unpacking import most_unpacked
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

MOST_OF_A_MEMBER = 1 << 29
"""Bytes that one member may unpack to."""
MOST_IN_ALL = 1 << 30
"""Bytes that the members to be read may unpack to in total."""
_ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LARGEST_WINDOW = 1 << 27
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    struct.error,
)
"""Errors that a damaged, encrypted or foreign archive raises."""


def read_members(path: Path, wanted: Callable[[list[str]], Iterable[str]]) -> dict[str, Any]:
    """Read members that hold JSON, in the order of `wanted`."""
    contents: dict[str, Any] = {}
    try:
        room = min(MOST_IN_ALL, most_unpacked(path.stat().st_size))
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = [archive.getinfo(name) for name in wanted(archive.namelist())]
            if sum(member.file_size for member in members) > room:
                raise _too_large("it", room)
            for member in members:
                data = _unpack(archive, file, member, min(room, MOST_OF_A_MEMBER))
                room -= len(data)
                contents[member.filename] = parse_json(data, one_line(member.filename))
    except ResponseError:
        raise
    except OSError as error:
        raise unreadable(error) from None
    except _BROKEN as error:
        reason = one_line(str(error), 80)
        raise ResponseError(
            f"it is not a whole .eval archive ({reason}); copy it again, or leave it out"
        ) from None
    return contents


def _unpack(
    archive: zipfile.ZipFile, file: io.BufferedReader, member: zipfile.ZipInfo, most: int
) -> bytes:
    name = one_line(member.filename)
    if member.file_size > most:
        raise _too_large(name, most)
    if member.compress_type != _ZSTANDARD:
        with archive.open(member) as opened:
            data = opened.read(most + 1)
    else:
        file.seek(member.header_offset)
        signature, *skipped = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        if signature != b"PK\3\4":
            raise zipfile.BadZipFile(f"{name} does not begin where the directory says")
        file.seek(sum(skipped), io.SEEK_CUR)
        packed = file.read(member.compress_size)
        unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        with unpacker.stream_reader(packed, read_across_frames=True) as stream:
            data = stream.read(most + 1)
        if len(data) <= most and zlib.crc32(data) != member.CRC:
            raise zipfile.BadZipFile(f"{name} is damaged")
    if len(data) > most:
        raise _too_large(name, most)
    return data


def _too_large(name: str, most: int) -> ResponseError:
    return ResponseError(
        f"{name} unpacks to more than the {most >> 20:,} MiB that are allowed; leave it out"
    )

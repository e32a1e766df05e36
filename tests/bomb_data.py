"""Functions that write small files which would unpack to gigabytes."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import harness_data as data
import pyarrow as pa
import pyarrow.parquet

Write = Callable[[Path], Path]
_N = 20_000
_LONG = "x" * (1 << 20)
_SUBJECTS = pa.array([*"ab"] * (_N // 2)).dictionary_encode()
_ITEMS = pa.array([str(k // 2) for k in range(_N)]).dictionary_encode()
_TEXT = pa.DictionaryArray.from_arrays(pa.array([0] * _N, pa.int32()), [_LONG])
"""One megabyte per row when decoded; the file stores it once."""
_ONES = pa.repeat(pa.scalar(1, pa.int8()), _N)


def gzipped(name: str, lines: bytes, times: int = 100) -> Write:
    """Compress lines once, and repeat the result that many times."""

    def write(root: Path) -> Path:
        (root / name).write_bytes(gzip.compress(lines, mtime=0) * times)
        return root / name

    return write


def archive(members: int) -> Write:
    """Write an archive of empty lists, which take twenty times their bytes once parsed."""

    def write(root: Path) -> Path:
        nothing = b"[" + b"[]," * (4 << 20) + b"[]]"
        header = {"_journal/start.json": json.dumps(data.inspect_header()).encode()}
        parts = {f"_journal/summaries/{k}.json": nothing for k in range(members)}
        return data.write_zip(root / "x.eval", header | parts)

    return write


def lying_archive(root: Path) -> Path:
    """Write an archive that declares 100 bytes and unpacks to a gigabyte."""
    members = {"header.json": b"{}", "summaries.json": b" " * (1 << 24)}
    packed = root / "x.eval"
    return data.write_zip(
        packed, members, declared=100, spoilt=lambda b: b * 64 if len(b) > 99 else b
    )


def keys(root: Path) -> Path:
    """Write rows without a common column: as a table they would have 4 billion cells."""
    rows = [json.dumps({f"{k} {j}": 1 for j in range(50)}) for k in range(9000)]
    (root / "r.jsonl").write_text("\n".join(rows))
    return root / "r.jsonl"


def parquet(*, own: bool = False, **columns: pa.Array) -> Write:
    """Write columns; only a file of this package (`own`) stores that they are dictionaries."""

    def write(root: Path) -> Path:
        table = pa.table(columns).replace_schema_metadata({"bayesirt": "1"} if own else {})
        pa.parquet.write_table(table, root / "r.parquet", store_schema=own, compression="zstd")
        return root / "r.parquet"

    return write


def lighteval(identifier: pa.Array) -> Write:
    def write(root: Path) -> Path:
        path = data.lighteval(root, "m", [data.lighteval_row("1", 1)])
        score = pa.StructArray.from_arrays([_ONES], ["acc"])
        doc = pa.StructArray.from_arrays([identifier], ["id"])
        pa.parquet.write_table(pa.table({"doc": doc, "metric": score}), path, store_schema=False)
        return path

    return write


_ROWS = {"subject": _SUBJECTS, "item": _ITEMS}
_ENDLESS = pa.repeat(pa.scalar(1, pa.int8()), 10_000_000)
_WARNED = "unpacks to more than 2,000 times its size"
BOMBS: dict[str, tuple[Write, str]] = {
    "gzip of rows": (gzipped("r.csv.gz", b"1,1,1\n" * (2 << 20)), "more than 100 times its size"),
    "gzip of objects": (gzipped("r.jsonl.gz", b"{}\n" * (4 << 20)), "more than 100 times"),
    "archive": (archive(20), "unpacks to more than the"),
    "lying archive": (lying_archive, "unpacks to more than the"),
    "no name in common": (keys, "450,000 names in 9,000 rows"),
    "endless rows": (parquet(subject=_ENDLESS, item=_ENDLESS, score=_ENDLESS), _WARNED),
    "endless own rows": (
        parquet(own=True, subject=_ENDLESS, item=_ENDLESS, successes=_ENDLESS, trials=_ENDLESS),
        _WARNED,
    ),
    "long names": (parquet(item=_ITEMS, score=_ONES, subject=_TEXT), "10000 rows repeat"),
    "long scores": (parquet(**_ROWS, score=_TEXT), "got 'xxxx"),
    "long topics": (parquet(**_ROWS, score=_ONES, topic=_TEXT), _WARNED),
    "long names with lengths": (
        parquet(item=_ITEMS, score=_ONES, tokens=_ONES, subject=_TEXT),
        _WARNED,
    ),
    "long own topics": (
        parquet(own=True, **_ROWS, successes=_ONES, trials=_ONES, topic=_TEXT),
        _WARNED,
    ),
    "long identifiers": (lighteval(_TEXT), _WARNED),
}
"""A function that writes each bomb, and words of the error message."""

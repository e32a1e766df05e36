"""Results and logs of every kind, and ways to damage them by accident or on purpose."""

import copy
import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import harness_data as data
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from bayesirt.data.long_parquet_file import write_long_parquet
from bayesirt.data.responses import Responses

Edit = tuple[int, int]
"""The place of a change, and its kind."""
Change = Callable[[bytes, Sequence[Edit]], bytes]
LONG = "model,item,score,tokens,benchmark\na,p,1,9,x\na,q,0,,x\nb,p,0,7,x\nb,q,1,3,x\n"
_DEEP = "as deep as a parser goes"
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 0.5, 2**31, 2**63, 10**400, -1e308, float("nan"), float("inf"), "",
    " ", "1", "x", "é\n\x1b[2J", "a\0b", "\ud800", "=1+1", "n" * 9999, [], {}, [[1]], ["\ud800"],
    {"a": None}, [0.5, None], {"name": "x", "value": [1]}, _DEEP,
)  # fmt: skip
"""Values that may replace any value in a log."""
_BYTES = (b"\0", b"\xff", b"\xef\xbb\xbf", b'"', b"\n", b"\r", b",", b"[" * 2000, b"1" * 5000)
COLUMNS: tuple[pa.Array, ...] = (
    pa.nulls(4), pa.array([1, 0, None, 1]), pa.array([0.5, float("nan"), 1e308, -1]),
    pa.array(["p", None, "", "\0"]), pa.array([b"p", b"\xff", b"", None]),
    pa.array([[1], [], None, [2]]), pa.array([{"a": 1}, None, {"a": None}, {"a": 2}]),
    pa.array(["p", "p", None, "q"]).dictionary_encode(), pa.array([True, None, False, True]),
    pa.array([1, 2**62, 3, 4], pa.timestamp("ms")), pa.array([2**62, -(2**63), 0, 1]),
    pa.array([1, 2, 3, 4], pa.timestamp("s", "Nowhere/At all")), pa.nulls(4, pa.duration("s")),
    pa.array([2**31 - 1, 2, 3, -(2**31)], pa.date32()), pa.array([2**62] * 4, pa.duration("s")),
    pa.array([1, 2, 3, None], pa.time64("ns")), pa.array([1, 0, None, 1], pa.uint64()),
    pa.array([1, 2, 3, 4], pa.decimal128(30, 3)), pa.array([1.0, 0, 2, 3]).cast(pa.float16()),
    pa.array(["1"] * 4, pa.large_string()), pa.array([b"ab"] * 4, pa.binary(2)),
    pa.array([[["a"]], [[]], [None], None]), pa.array([[[1, 2]], [[]], [None], None]),
    pa.array([[("a", 1)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int8())),
    pa.array([{"acc": 2**62}] * 4, pa.struct([("acc", pa.timestamp("ms"))])),
    pa.array([{"acc": 2**31 - 1}] * 4, pa.struct([("acc", pa.date32())])),
    pa.StructArray.from_arrays([pa.array([1] * 4), pa.array([1] * 4)], ["acc", "acc"]),
    pa.array([{"id": [1]}] * 4), pa.array([{"id": b"\xff"}] * 4),
    pa.array([{"output_tokens": [[1, 2], None]}] * 4), pa.array([{"output_tokens": "abc"}] * 4),
)  # fmt: skip
"""Columns of every Parquet type, which may replace any column."""
_METADATA = (
    {"pandas": "[1]"}, {"pandas": '{"index_columns": 1}'}, {"pandas": b"\xff"},
    {"pandas": "[" * 9999}, {"bayesirt": "1"}, {"bayesirt": "99"}, {"bayesirt": "x"},
)  # fmt: skip


def change_bytes(content: bytes, edits: Sequence[Edit]) -> bytes:
    """Flip, truncate, repeat, delete or insert some bytes."""
    for place, how in edits:
        at = place % (len(content) + 1)
        kind, size = how % 5, 1 + how // 5 % 40
        before, after = content[:at], content[at:]
        if kind == 0:
            content = before + bytes(b ^ (1 << how % 8) for b in after[:1]) + after[1:]
        elif kind == 1:
            content = before
        elif kind == 2:
            content = before + after[:size] * 2 + after[size:]
        elif kind == 3:
            content = before + after[size:]
        else:
            content = before + _BYTES[how // 5 % len(_BYTES)] + after
    return content


def change_json(content: bytes, edits: Sequence[Edit]) -> bytes:
    """Change values and keys of JSON or JSON Lines; every fourth edit changes bytes instead."""
    lines = content.splitlines()
    documents = [json.loads(line) for line in lines if line.strip()]
    for edit in edits:
        if edit[1] % 4:
            _change_node(documents, *edit)
    text = "\n".join(map(json.dumps, documents)).encode()
    text = text.replace(json.dumps(_DEEP).encode(), b"[" * 900 + b"]" * 900)
    return change_bytes(text, [(place, how // 4) for place, how in edits if how % 4 == 0])


def change_archive(content: bytes, edits: Sequence[Edit]) -> bytes:
    """Change the JSON in an archive; every fourth edit changes its bytes instead."""
    inner = [edit for edit in edits if edit[1] % 4]
    changed = _rewritten(content, inner) if inner else content
    return change_bytes(changed, [(place, how // 4) for place, how in edits if how % 4 == 0])


def change_parquet(content: bytes, edits: Sequence[Edit]) -> bytes:
    """Change columns, their types and names; every fourth edit changes bytes instead."""
    table = pyarrow.parquet.read_table(io.BytesIO(content))
    for edit in edits:
        if edit[1] % 4 and table.num_columns:
            table = _change_column(table, *edit)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    rest = [(place, how // 4) for place, how in edits if how % 4 == 0]
    return change_bytes(buffer.getvalue(), rest)


def _change_node(documents: list[Any], place: int, how: int) -> None:
    nodes = list(_nodes(documents))
    if not nodes:
        return
    owner, key = nodes[place % len(nodes)]
    kind, which = how // 4 % 8, how // 32
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, dict):
        owner[("", "\ud800", "x", "type", "a" * 999)[which % 5]] = owner.pop(key)
    elif kind == 2 and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(owner[key]))
    elif kind == 3:
        other, name = nodes[which % len(nodes)]
        owner[key] = copy.deepcopy(other[name])
    else:
        owner[key] = copy.deepcopy(VALUES[which % len(VALUES)])


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of every nested value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _nodes(value[key])


def _rewritten(content: bytes, edits: Sequence[Edit]) -> bytes:
    """Return the archive uncompressed, with one member changed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(members)[edits[0][0] % len(members)]
    members[name] = change_json(members[name], edits)
    if edits[0][1] % 16 == 1:
        members[f"_journal/summaries/{edits[0][1]}.json"] = members.pop(name)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, text in members.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return buffer.getvalue()


def _change_column(table: pa.Table, place: int, how: int) -> pa.Table:
    at = place % table.num_columns
    name = table.column_names[at]
    kind, which = how // 4 % 8, how // 32
    if kind == 0:
        return table.remove_column(at)
    if kind == 1:
        names = ("subject", "item", "score", "successes", "trials", "metric", "doc", "", "latency")
        names = (*names, "model_response", "benchmark", "a" * 999, "tokens")
        renamed = table.column_names
        renamed[at] = names[which % len(names)]
        return table.rename_columns(renamed)
    if kind == 2:
        return table.append_column(name, table.column(at))
    if kind == 3:
        return table.replace_schema_metadata(_METADATA[which % len(_METADATA)])
    if kind == 4:
        return table.slice(0, which % 3)
    column = COLUMNS[which % len(COLUMNS)]
    column = column.take(pa.array([k % 4 for k in range(table.num_rows)], pa.int64()))
    return table.set_column(at, name, column)


CHANGES = {
    "inspect .eval": change_archive,
    "inspect .eval, packed": change_bytes,
    "lighteval": change_parquet,
}
LOGS: dict[str, tuple[data.Write, Change]] = {
    name: (write, CHANGES.get(name, change_json)) for name, write in data.LOGS.items()
}
"""For each log, a function that writes it for a model, and one that damages it."""


def _long_lines() -> bytes:
    rows = [{"model": m, "item": i, "score": int(m == i), "tokens": 3} for m in "ab" for i in "ab"]
    return "\n".join(map(json.dumps, rows)).encode()


def parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def own_parquet() -> bytes:
    """Return a long Parquet file written by this package, with lengths and benchmarks."""
    table = pd.read_csv(io.StringIO(LONG))
    responses = Responses.from_long(table.rename(columns={"model": "subject"}), latency="tokens",
                                    item_metadata=["benchmark"])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        write_long_parquet(responses, Path(folder, "r.parquet"))
        return Path(folder, "r.parquet").read_bytes()


_SIDES = {"model": [*"aabb"], "item": [*"pqpq"], "score": [1, 0, 0, 1]}
TABLES: dict[str, tuple[str, bytes, Change]] = {
    "CSV": ("r.csv", LONG.encode(), change_bytes),
    "wide CSV": ("r.csv", b"model,p,q\na,1,0\nb,0,1\n", change_bytes),
    "gzip": ("r.csv.gz", gzip.compress(LONG.encode(), mtime=0), change_bytes),
    "JSON Lines": ("r.jsonl", _long_lines(), change_json),
    "plain Parquet": ("r.parquet", parquet(**_SIDES), change_parquet),
    "Parquet": (
        "r.parquet",
        parquet(**_SIDES, tokens=[3, 4, 5, 6], task=[*"xxxx"]),
        change_parquet,
    ),
    "own Parquet": ("r.parquet", own_parquet(), change_parquet),
}
"""For each table, its file name, its content, and a function that damages it."""
Q_MATRICES: dict[str, tuple[str, bytes, Change]] = {
    "list": (
        "q.json",
        b'{"abilities": ["x", "y"], "items": {"p": ["x"], "q": ["x", "y"]}}',
        change_json,
    ),
    "wide": ("q.csv", b"item,x,y\np,1,0\nq,1,1\n", change_bytes),
    "long": (
        "q.jsonl",
        b'{"item": "p", "ability": "x"}\n{"item": "q", "ability": "y"}',
        change_json,
    ),
}
"""The same for Q-matrices."""

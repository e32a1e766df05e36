"""Bad logs, folders and paths give one sentence and exit code 2, and nothing is written.

`test_bad_input` covers bad tables, and `test_bombs` decompression bombs.
"""

import gzip
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness_data as data
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from cli.conftest import Cli
from cli.test_bad_input import GOOD, HEAD, sentence
from unit.test_bad_logs import BAD as BAD_LOGS

from bayesirt.data.responses import Responses

Write = Callable[[Path], Path]
NOTHING = "holds no answers in logs of inspect"


def file(name: str, content: str | bytes) -> Write:
    def write(root: Path) -> Path:
        (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return root / name

    return write


def folder(*parts: Callable[[Path], object]) -> Write:
    def write(root: Path) -> Path:
        (root / "logs").mkdir()
        for part in parts:
            part(root / "logs")
        return root / "logs"

    return write


def lm_eval(model: str, *rows: Any, **other: Any) -> Callable[[Path], object]:
    return lambda root: data.lm_eval(root, model, list(rows), **other)


def answers(model: str, *scores: Any, **other: Any) -> Callable[[Path], object]:
    rows = [data.lm_eval_row(k, score, **other) for k, score in enumerate(scores)]
    return lambda root: data.lm_eval(root, model, rows)


def pipe(name: str) -> Write:
    def write(root: Path) -> Path:
        os.mkfifo(root / name)
        return root / name

    return write


def bound_socket(root: Path) -> Path:
    here = os.getcwd()
    os.chdir(root)  # the full path would be too long for a socket's name
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("r.csv")
    finally:
        os.chdir(here)
    return root / "r.csv"


def link(name: str, target: str) -> Write:
    def write(root: Path) -> Path:
        (root / name).symlink_to(target)
        return root / name

    return write


def table(**columns: Any) -> Write:
    def write(root: Path) -> Path:
        pyarrow.parquet.write_table(pa.table(columns), root / "r.parquet")
        return root / "r.parquet"

    return write


def own(change: Callable[[pa.Table], pa.Table]) -> Write:
    """Write a file as `convert` does, then change it."""

    def write(root: Path) -> Path:
        path = root / "r.parquet"
        Responses.from_arrays([[1, 0], [0, 1]]).to_parquet(path)
        pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(path)), path)
        return path

    return write


def spoilt(write: Write, change: Callable[[bytes], bytes]) -> Write:
    def spoil(root: Path) -> Path:
        path = write(root)
        path.write_bytes(change(path.read_bytes()))
        return path

    return spoil


def beside(name: str, content: str) -> Callable[[Path], object]:
    """Write a file next to the log of model m."""
    return lambda root: (root / "m" / name).write_text(content)


def nested(root: Path) -> Path:
    """Create empty folders, nested nearly as deep as the limit on path lengths allows."""
    place = root / "logs"
    place.joinpath(*["d" * 200] * 15).mkdir(parents=True)
    return place


LONG = "n" * 10_000
TWO = {"subject": [*"aabb"], "item": [*"pqpq"]}
DATED = f"_{data.DATE}.json"
ROW = data.lm_eval_row(0, 1)

# For each: the function that writes it, and words of the message.
PLACES: dict[str, tuple[Write, str]] = {
    "a pipe as a table": (pipe("r.csv"), "is not a regular file; save the results to one"),
    "a pipe as Parquet": (pipe("r.parquet"), "is not a regular file"),
    "a pipe as an archive": (pipe("r.eval"), "is not a regular file"),
    "a pipe as JSON": (pipe("r.json"), "is not a regular file"),
    "a socket": (bound_socket, "is not a regular file"),
    "a device": (link("r.csv", "/dev/zero"), "is not a regular file"),
    "no such file": (lambda root: root / "nowhere.csv", "does not exist; check the path"),
    "a link to nothing": (link("r.csv", "nowhere.csv"), "does not exist; check the path"),
    "a link to itself": (link("r.csv", "r.csv"), "does not exist"),
    "a path below a file": (lambda root: file("r.csv", GOOD)(root) / "x.csv", "does not exist"),
    "a path below a link to itself": (
        lambda root: link("round", "round")(root) / "r.csv",
        "does not exist",
    ),
    "a folder called like a file": (
        lambda root: (root / "r.csv").mkdir() or root / "r.csv",
        NOTHING,
    ),
    "nothing at all, as a device": (link("r.csv", "/dev/null"), "is not a regular file"),
    "a name of 10,000 characters": (lambda root: root / f"{LONG}.csv", "does not exist"),
    "a path of 10,000 folders": (lambda root: root / ("d/" * 10_000) / "r.csv", "does not exist"),
    "a name that is not UTF-8": (file(os.fsdecode(b"r\xff.csv"), ""), "r·.csv is empty"),
    "a folder that is not UTF-8": (
        lambda root: root / os.fsdecode(b"\xff") / "r.csv",
        "does not exist",
    ),
    "a name of control characters": (file("\x1b[31m\n.csv", ""), "·[31m·.csv is empty"),
    "a name that turns the text": (file("\u202ecsv.csv", ""), "·csv.csv is empty"),
    "a name like a formula": (file("=cmd|' -C calc'!A0.csv", ""), "is empty"),
    "a name like markup": (file("[red]r.csv", ""), "[red]r.csv is empty"),
    "a name like a format": (file("{0}%s$x.csv", ""), "{0}%s$x.csv is empty"),
}
FOLDERS: dict[str, tuple[Write, str]] = {
    "an empty folder": (folder(), NOTHING),
    "a folder of empty folders": (nested, NOTHING),
    "a folder of hidden logs": (folder(answers(".hidden", 1, 0)), NOTHING),
    "a folder that links to itself": (folder(link("round", ".")), NOTHING),
    "a file that links to itself": (folder(link("round.json", "round.json")), NOTHING),
    "links in a ring": (folder(link("a.eval", "b.eval"), link("b.eval", "a.eval")), NOTHING),
    "an empty file of JSON": (file("r.json", ""), "is not a log of inspect"),
    "links out of the folder": (folder(link("a.json", "/etc/passwd")), NOTHING),
    "a pipe in a folder": (folder(pipe("x.eval")), "not a regular file"),
    "tables in a folder": (folder(file("r.csv", GOOD)), "a table; read it separately"),
    "only totals": (folder(file(f"results{DATED}", "{}")), "run lm-eval with --log_samples"),
    "the log of one subject": (answers("m", 1, 0), "got 1 ('m'); name a folder with the logs of"),
    "totals by name": (file(f"results{DATED}", "{}"), "run lm-eval with --log_samples"),
    "totals of a log": (
        lambda root: next(answers("m", 1, 0)(root).parent.glob("results_*.json")),
        "belongs to the logs of its run; name one of them, or their folder",
    ),
    "one subject": (folder(answers("m", 1, 0)), "at least 2 subjects, got 1"),
    "one item": (folder(answers("a", 1), answers("b", 0)), "at least 2 items, got 1"),
    "scores of a half": (folder(answers("a", 0.5, 1), answers("b", 0, 1)), "pass --threshold"),
    "endless scores": (folder(answers("a", 10**400), answers("b", 0)), "finite number, got 'inf'"),
    "only missing scores": (folder(answers("m", float("nan"))), NOTHING),
    "scores as text": (folder(answers("m", "1")), NOTHING),
    "two filters": (
        folder(lm_eval("m", ROW, ROW | {"filter": "strict"})),
        "offers the filters `none`, `strict`: choose with --filter",
    ),
    "damaged totals beside a log": (
        folder(answers("m", 1, 0), beside(f"results{DATED}", "{")),
        "its companion file results_2026-11-21T10-58-10.577750.json: it is not valid JSON",
    ),
    "a pipe beside a log": (
        folder(answers("m", 1, 0), lambda root: pipe(f"x{DATED}")(root / "m")),
        "its companion file x_2026-11-21T10-58-10.577750.json: it is not a regular file",
    ),
    "a log in a folder that is not UTF-8": (
        folder(answers(os.fsdecode(b"\xff"), 1, 0), answers("b", 0, 1)),
        "is not valid text",
    ),
    "a log whose name is a folder": (
        folder(lambda root: (root / f"samples_arc_{data.DATE}.jsonl").mkdir()),
        NOTHING,
    ),
    "half a character as an item": (
        folder(lm_eval("m", ROW | {"doc_id": "\ud800"})),
        "is not valid text",
    ),
    "half a character as a model": (
        folder(
            lambda root: data.inspect_eval(
                root / "x.eval", [data.sample(1, "C")], data.inspect_header("\ud800")
            )
        ),
        "is not valid text",
    ),
    "NUL in an item": (
        folder(*(lm_eval(m, ROW | {"doc_id": "a\0b"}, ROW) for m in "ab")),
        "'arc/a·b' is not valid text; rename it",
    ),
    "lists without an end": (
        folder(file(f"samples_a_{data.DATE}.jsonl", '{"doc_id":"1","doc_hash":' + "[" * 900)),
        "line 1 is not valid JSON",
    ),
}
PARQUETS: dict[str, tuple[Write, str]] = {
    "dates as scores": (table(**TWO, score=pa.array([1] * 4, pa.date32())), "finite number"),
    "dates that no calendar has": (
        table(**TWO, score=pa.array([2**31 - 1] * 4, pa.date32())),
        "`score` must hold numbers",
    ),
    "dates that no calendar has as topics": (
        table(**TWO, score=[1, 0, 0, 1], topic=pa.array([2**31 - 1] * 4, pa.date32())),
        "`topic` holds values that cannot be read, such as impossible dates",
    ),
    "times of no place as topics": (
        table(**TWO, score=[1, 0, 0, 1], topic=pa.array([1] * 4, pa.timestamp("s", "No/where"))),
        "`topic` holds values that cannot be read",
    ),
    "lists as scores": (table(**TWO, score=[[1]] * 4), "must be a finite number, got '[1"),
    "structures as names": (
        table(subject=[{"a": 1}] * 4, item=[*"pqpq"], score=[1] * 4),
        "2 rows rep",
    ),
    "bytes as names": (table(subject=[b"\xff"] * 4, item=[*"pqrs"], score=[1] * 4), "valid text"),
    "a column twice": (
        lambda root: (
            pyarrow.parquet.write_table(
                pa.Table.from_arrays([pa.array([1]), pa.array([1])], ["model", "model"]),
                root / "r.parquet",
            )
            or root / "r.parquet"
        ),
        "has the column 'model' twice",
    ),
    "no column": (table(), "header but no rows"),
    "metadata of pandas that are none": (
        lambda root: (
            pyarrow.parquet.write_table(
                pa.table({"x": [1, 2]}).replace_schema_metadata({"pandas": "[" * 9999}),
                root / "r.parquet",
            )
            or root / "r.parquet"
        ),
        "starts with the column 'x'",
    ),
    "Parquet cut in the middle": (
        spoilt(table(**TWO, score=[1, 0, 0, 1]), lambda b: b[: len(b) // 2]),
        "is not a Parquet file",
    ),
    "Parquet with other bytes within": (
        spoilt(table(**TWO, score=[1, 0, 0, 1]), lambda b: b[:9] + b"\xff" * 40 + b[49:]),
        "is not a Parquet file",
    ),
    "own Parquet without items": (
        own(lambda t: t.drop_columns(["item"])),
        "subject 'subject 1' appears 2 times",
    ),
    "own Parquet without rows": (own(lambda t: t.slice(0, 0)), "header but no rows"),
    "own Parquet of a later version": (
        own(lambda t: t.replace_schema_metadata({"bayesirt": "999999999"})),
        "was written by a newer bayesirt",
    ),
}
TABLES: dict[str, tuple[Write, str]] = {
    "a formula as a score": (file("r.csv", HEAD + "a,p,=1+1\n"), "got '=1+1'"),
    "a number of 400 digits": (
        file("r.jsonl", json.dumps({"model": "a", "item": "p", "score": 10**400})),
        "must be a finite number, got '1000",
    ),
    "NUL after the first page": (
        file("r.csv", GOOD + "x" * 5000 + "\0,q1,1\nm3,q2,0\n"),
        "is not valid text; rename it",
    ),
    "gzip in gzip": (file("r.csv.gz", gzip.compress(gzip.compress(GOOD.encode()))), "is not text"),
    "gzip with more behind it": (
        file("r.csv.gz", gzip.compress(GOOD.encode()) + b"more"),
        "not a whole gzip file",
    ),
    "a header of a million columns": (
        file("r.csv", "name," * (1 << 20) + "\n"),
        "has the column 'name' twice",
    ),
    "a header of one endless name": (
        file("r.csv", "a" * (1 << 18) + ",b\n1,2\n"),
        "is not a table",
    ),
}
BAD = PLACES | FOLDERS | PARQUETS | TABLES
BAD |= {f"log: {name}": entry for name, entry in BAD_LOGS.items()}


def contents(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(("write", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence(cli: Cli, tmp_path: Path, write: Write, said: str):
    path = write(tmp_path)
    before = contents(tmp_path)
    began = time.monotonic()
    checked = sentence(cli("check", path))
    assert said in checked
    assert sentence(cli("convert", path, tmp_path / "new.parquet")) == checked
    assert time.monotonic() - began < 20
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["r.csv", "x.eval", "r.jsonl", "r.parquet"])
def test_what_must_not_be_read_is_one_sentence(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    pd.DataFrame({"model": [*"ab"], "p": [1, 0], "q": [0, 1]}).to_parquet(tmp_path / name)
    refused = PermissionError(13, "Permission denied", name)
    for how in ("open", "read_bytes"):
        opened = getattr(Path, how)

        def check(path: Path, *given: Any, opened: Any = opened, **more: Any) -> Any:
            if path.name == name:
                raise refused
            return opened(path, *given, **more)

        monkeypatch.setattr(Path, how, check)
    said = sentence(cli("check", tmp_path / name))
    assert "cannot be read" in said
    assert "Permission denied" in said

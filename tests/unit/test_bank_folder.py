"""The folder of an item bank: what it refuses, and that no accident damages it."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from bank_data import (
    answers_to,
    assert_same_bank,
    breaking_in,
    contents,
    finished,
    items_of,
    items_step,
    python,
    score_step,
    scores_of,
)

from bayesirt.bank.folder import append_step, create_bank_folder, read_bank
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.step import BankStep
from bayesirt.errors import ResponseError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a bank with one step."""
    create_bank_folder(tmp_path / "bank", items_step("maths"), 2)
    return tmp_path / "bank"


@pytest.fixture
def grown(folder: Path) -> ItemBank:
    append_step(folder, score_step("maths"))
    append_step(folder, items_step("law", "add"))
    return read_bank(folder)


UNFIT = [
    (items_step("law"), "the first step of a bank, and no other, must be of kind 'create'"),
    (
        items_step("maths", "add", items=replace(items_of("maths", 2), benchmarks=("law",) * 2)),
        "item 'maths 1', 'maths 2' are in the bank already",
    ),
    (
        items_step("law", "add", items=replace(items_of("law"), benchmarks=("maths",) * 3)),
        "benchmark 'maths' is in the bank already",
    ),
    (
        BankStep("add", items_of("law", n_abilities=3)),
        "the items of step 001-add have 3 abilities, those of the bank 2",
    ),
    (score_step("law"), "refers to benchmark 'law', which is not in the bank"),
    (
        BankStep("score", scores=scores_of("maths"), figures={"law": {}}),
        "refers to benchmark 'law'",
    ),
    (
        items_step("law", "add", answers=answers_to("law 2")),
        "answers to item 'law 2', which is not an anchor of the bank",
    ),
    (
        items_step("law", "add", answers=answers_to("maths 1", subjects=("llama",))),
        "subject 'llama' answered item 'maths 1' differently in an earlier step",
    ),
]


@pytest.mark.parametrize(("step", "sentence"), UNFIT)
def test_a_step_that_does_not_fit_is_refused(folder: Path, step: BankStep, sentence: str):
    before = contents(folder)
    with pytest.raises(ResponseError, match=sentence):
        append_step(folder, step)
    assert contents(folder) == before


def test_a_taken_folder_is_refused(tmp_path: Path, folder: Path):
    before = contents(folder)
    with pytest.raises(ResponseError, match="is not empty; name another folder"):
        create_bank_folder(folder, items_step("maths"), 2)
    assert contents(folder) == before
    (tmp_path / "file").touch()
    with pytest.raises(ResponseError, match="is a file; name a folder"):
        create_bank_folder(tmp_path / "file", items_step("maths"), 2)
    with pytest.raises(ResponseError, match="cannot be written"):
        create_bank_folder(tmp_path / "file" / "bank", items_step("maths"), 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bank", "file"]


def test_an_empty_folder_or_a_new_one_below_others_is_taken(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty", target_is_directory=True)
    for name in ("link", "a/b/c"):
        create_bank_folder(tmp_path / name, items_step("maths"), 2)
        assert read_bank(tmp_path / name).benchmark_names == ("maths",)


def test_what_is_no_bank_is_refused(tmp_path: Path, folder: Path):
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        for use in (read_bank, lambda path: append_step(path, items_step("law", "add"))):
            with pytest.raises(
                ResponseError, match="holds no item bank; name the folder of a bank"
            ):
                use(place)
    (folder / "bank.json").write_text('{"format": "other"}', "utf-8")
    with pytest.raises(ResponseError, match="is not of an item bank"):
        read_bank(folder)


def sealed(folder: Path, document: dict) -> None:
    """Write a `bank.json` with a valid SHA-256 of itself."""

    def text(digest: str) -> bytes:
        return json.dumps(document | {"sha256": digest}).encode()

    (folder / "bank.json").write_bytes(text(hashlib.sha256(text("")).hexdigest()))


def document_of(folder: Path) -> dict:
    return json.loads((folder / "bank.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("version", "sentence"),
    [(3, "a newer bayesirt .*; upgrade bayesirt"), (1, "an earlier bayesirt .*; create it again")],
)
def test_a_bank_of_another_version_says_what_to_do(folder: Path, version: int, sentence: str):
    document = document_of(folder) | {"version": version}
    (folder / "bank.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(ResponseError, match=f"made by {sentence}"):
        read_bank(folder)


@pytest.mark.parametrize("name", ["items", "subjects", "answers"])
def test_damaged_files_are_named(folder: Path, name: str):
    file = folder / "steps" / "000-create" / f"{name}.parquet"
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(ResponseError, match=f"damaged: .*{name}.parquet is not as it was written"):
        read_bank(folder)
    file.unlink()
    with pytest.raises(ResponseError, match=f"damaged: .*{name}.parquet is missing; restore it"):
        append_step(folder, items_step("law", "add"))
    file.mkdir()
    with pytest.raises(ResponseError, match=f"{name}.parquet in .* cannot be read"):
        read_bank(folder)


def without(entry: dict, key: str) -> dict:
    return {k: v for k, v in entry.items() if k != key}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d | {"steps": []}, "the first step of a bank"),
        (lambda d: d | {"steps": 3}, "not iterable"),
        (lambda d: d | {"steps": [3]}, "subscriptable"),
        (lambda d: without(d, "abilities"), "'abilities'"),
        (lambda d: d | {"abilities": 3}, "have 2 abilities, those of the bank 3"),
        (lambda d: d | {"steps": [without(d["steps"][0], "files")]}, "'files'"),
        (lambda d: d | {"steps": [d["steps"][0] | {"files": {}}]}, "must have `items`"),
        (
            lambda d: d | {"steps": [d["steps"][0] | {"files": {"/etc/passwd": ""}}]},
            "is not a file",
        ),
        (lambda d: d | {"steps": [d["steps"][0] | {"name": "../bank"}]}, "not the name of a step"),
        (lambda d: d | {"steps": [d["steps"][0] | {"kind": "add"}]}, "first step"),
        (lambda d: d | {"steps": [d["steps"][0] | {"figures": []}]}, "must be a dictionary"),
        (lambda d: d | {"steps": [d["steps"][0]] * 2}, "the first step of a bank, and no other"),
    ],
)
def test_a_forged_record_is_refused(folder: Path, change, reason: str):
    sealed(folder, change(document_of(folder)))
    with pytest.raises(ResponseError, match=f"is damaged: .*{reason}"):
        read_bank(folder)


def forge(folder: Path, name: str, table: pd.DataFrame) -> None:
    """Replace a file of the first step, and seal the bank again."""
    file = folder / "steps" / "000-create" / f"{name}.parquet"
    doubles = table.select_dtypes("float").columns
    columns = {c: table[c].to_numpy() if c in doubles else table[c].tolist() for c in table}
    pa.parquet.write_table(pa.table(columns), file)
    document = document_of(folder)
    sums = document["steps"][0]["files"]
    sums[f"{name}.parquet"] = hashlib.sha256(file.read_bytes()).hexdigest()
    sealed(folder, document)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("items", lambda t: t.iloc[:0], "items.parquet has no rows"),
        ("items", lambda t: t.drop(columns="d"), "d"),
        ("items", lambda t: t.assign(d=["a", "b", "c"]), "`d` does not hold numbers"),
        ("items", lambda t: t.assign(d=np.inf), "`d` of the known item 'maths 1' is not finite"),
        ("items", lambda t: t.assign(item="x"), "'x' appears 3 times"),
        ("items", lambda t: t.assign(item=1), "`item` does not hold text"),
        ("items", lambda t: t.assign(weight=0.5), "not anchors have weights"),
        ("items", lambda t: t.assign(weight=0.5, anchor=True), "their sum is 1.5"),
        ("items", lambda t: t.assign(a=[[0.0], [0.0, 0.0], [0.0]]), "`a` differ in length"),
        ("items", lambda t: t.assign(covariance=[[0.0] * 4] * 3), "reshape"),
        ("items", lambda t: t.assign(a=[[0.0]] * 3, covariance=[[0.0] * 4] * 3), "abilities"),
        ("subjects", lambda t: t.iloc[:0], "subjects.parquet has no rows"),
        ("subjects", lambda t: t.assign(theta=[[0.0] * 3] * 3), "reshape"),
        ("subjects", lambda t: t.assign(accuracy=[[0.0] * 2] * 3), "accuracies on 2 benchmarks"),
        (
            "answers",
            lambda t: t.assign(item="maths 2").iloc[:1],
            "'maths 2', which is not an anchor",
        ),
        ("answers", lambda t: t.assign(trials="x"), "`trials` must be a finite number"),
    ],
)
def test_forged_tables_are_refused(folder: Path, name: str, change, reason: str):
    table = pd.read_parquet(folder / "steps" / "000-create" / f"{name}.parquet")
    forge(folder, name, change(table))
    with pytest.raises(ResponseError, match=f"is damaged: .*{reason}"):
        read_bank(folder)


def test_steps_out_of_order_are_refused(folder: Path, grown: ItemBank):
    document = document_of(folder)
    first, *others = document["steps"]
    sealed(folder, document | {"steps": [first, *others[1:]]})
    with pytest.raises(ResponseError, match="its steps are out of order"):
        read_bank(folder)


def test_unfinished_steps_are_ignored_then_removed(folder: Path):
    before = read_bank(folder)
    for name in ("001-add", "001-add.partial", "007-score"):
        (folder / "steps" / name).mkdir()
        (folder / "steps" / name / "items.parquet").write_bytes(b"unfinished")
    (folder / "steps" / "notes").mkdir()
    (folder / "bank.json.partial").write_bytes(b"{")
    assert_same_bank(read_bank(folder), before)
    after = append_step(folder, items_step("law", "add"))
    assert_same_bank(read_bank(folder), after)
    names = sorted(p.name for p in (folder / "steps").iterdir())
    assert names == ["000-create", "001-add", "notes"]
    assert sorted(p.name for p in folder.iterdir()) == ["bank.json", "bank.lock", "steps"]


def fail() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt() -> None:
    raise KeyboardInterrupt


def assert_sound(folder: Path, before: ItemBank, after: ItemBank, *, counts: bool | None) -> None:
    """Check that a step counts or does not, and that the next one can be written."""
    found = read_bank(folder)
    if counts is None:
        counts = len(found.steps) > len(before.steps)
    assert_same_bank(found, after if counts else before)
    grown = append_step(folder, items_step("arts", "add"))
    assert_same_bank(read_bank(folder), grown)
    assert sorted(p.name for p in (folder / "steps").iterdir()) == list(grown.step_names)
    assert sorted(p.name for p in folder.iterdir()) == ["bank.json", "bank.lock", "steps"]


@pytest.mark.parametrize("action", [fail, interrupt])
def test_a_failure_at_any_operation_leaves_the_bank_as_it_was(
    tmp_path: Path, folder: Path, action: Callable[[], None]
):
    before, step = read_bank(folder), items_step("law", "add")
    after = ItemBank(2, (*before.steps, step))
    n_failed, at, done = 0, 0, False
    while not done:
        at += 1
        copy = shutil.copytree(folder, tmp_path / str(at) / "bank")
        raised: type[BaseException] | None = None
        with breaking_in(copy, at, action) as seen:
            try:
                append_step(copy, step)
            except (ResponseError, KeyboardInterrupt) as error:
                raised = type(error)
        done = len(seen) < at
        n_failed += raised is not None
        assert_sound(
            copy, before, after, counts=None if raised is KeyboardInterrupt else raised is None
        )
    assert n_failed > 15


@pytest.mark.parametrize("action", [fail, interrupt])
def test_a_bank_is_created_whole_or_not_at_all(tmp_path: Path, action):
    at, done = 0, False
    while not done:
        at += 1
        folder = tmp_path / str(at) / "bank"
        folder.mkdir(parents=True)
        accepted = suppress(ResponseError, KeyboardInterrupt)
        with breaking_in(folder, at, action) as seen, accepted:
            create_bank_folder(folder, items_step("maths"), 2)
        done = len(seen) < at
        if folder.exists() and any(folder.iterdir()):
            assert len(read_bank(folder).steps) == 1
        else:
            create_bank_folder(folder, items_step("maths"), 2)
    assert at > 10


KILLED = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
from bank_data import breaking_in, items_step
from bayesirt.bank.folder import append_step

folder = Path(sys.argv[1])
for at in count(1):
    copy = shutil.copytree(folder, folder.parent / str(at) / "bank")
    child = os.fork()
    if not child:
        with breaking_in(copy, at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            append_step(copy, items_step("law", "add"))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
print(at)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_a_kill_at_any_operation_leaves_the_bank_as_it_was(folder: Path):
    before, step = read_bank(folder), items_step("law", "add")
    after = ItemBank(2, (*before.steps, step))
    n_kills = int(finished(python(KILLED, folder))) - 1
    counted = []
    for at in range(1, n_kills + 1):
        copy = folder.parent / str(at) / "bank"
        counted.append(len(read_bank(copy).steps) > 1)
        assert_sound(copy, before, after, counts=None)
    assert counted == sorted(counted)
    assert counted.index(True) > 15

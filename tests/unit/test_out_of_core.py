"""Responses kept on disk: the same fit, the same refusals, and no files left behind."""

import gc
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stored_data import ROLES, counts, listed

from bayesirt.data.readers import LeftOutWarning, read_responses
from bayesirt.data.readers.long_parquet import LongParquet
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.recognise import read_results
from bayesirt.data.responses import Responses
from bayesirt.data.stored_cells import StoredCells
from bayesirt.errors import ResponseError
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.inference.memory import check_memory
from bayesirt.inference.options import RunOptions
from bayesirt.models import TwoPL
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.simple_averages import average_rule

BLOCK = 100
Put = Callable[[pd.DataFrame], Path]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put temporary files into the test's folder, and read few rows at a time."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr("bayesirt.data.readers.long_parquet._AT_ONCE", 64)
    return place


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(frame: pd.DataFrame) -> Path:
        frame.to_parquet(tmp_path / "r.parquet", row_group_size=90)
        return tmp_path / "r.parquet"

    return write


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep even small tables as lists of cells."""
    monkeypatch.setattr("bayesirt.data.cells._SPARSE_FROM", 0)
    monkeypatch.setattr("bayesirt.data.cells._SPARSE_BELOW", 2)


def on_disk(path: Path, rule: str = "error", roles: dict[str, str] = ROLES) -> Responses:
    return LongParquet(path, roles, None, len(pd.read_parquet(path))).on_disk(
        rule, block_rows=BLOCK
    )


def in_memory(frame: pd.DataFrame, rule: str = "error") -> Responses:
    return Responses.from_long(
        frame, subject="model", score="successes", trials="trials", duplicates=rule
    )


def assert_same(stored: Responses, held: Responses) -> None:
    assert isinstance(stored.cells, StoredCells)
    assert stored.cells.n_blocks > 3
    assert (stored.subjects, stored.items) == (held.subjects, held.items)
    np.testing.assert_array_equal(listed(stored), listed(held))
    for axis in (0, 1):
        np.testing.assert_array_equal(stored.cells.totals(axis), held.cells.totals(axis))
    pd.testing.assert_frame_equal(stored.summary, held.summary)
    assert repr(stored) == repr(held)


def assert_same_fit(stored: Responses, held: Responses) -> None:
    fit, expected = (fit_cbmm(responses, tol=1e-7) for responses in (stored, held))
    assert fit.iterations == expected.iterations > 3
    for name in ("theta", "a", "d", "theta_se", "a_se", "d_se"):
        np.testing.assert_allclose(fit[name], expected[name], rtol=0, atol=1e-8)
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_file_on_disk_holds_what_memory_would(put, seed):
    frame = counts(seed)
    stored = on_disk(put(frame))
    assert not stored.cells.is_sparse
    assert_same(stored, in_memory(frame))
    if seed == 0:
        assert_same_fit(stored, in_memory(frame))


def test_lists_of_cells_on_disk_hold_what_memory_would(put, lists):
    frame = counts()
    stored, held = on_disk(put(frame)), in_memory(frame)
    assert stored.cells.is_sparse
    assert_same(stored, held)
    assert_same_fit(stored, held)


def test_more_blocks_than_subjects_are_not_made(put):
    stored = LongParquet(put(counts()), ROLES, None, len(counts())).on_disk("error", block_rows=5)
    assert (stored.cells.n_blocks, stored.cells.n_rows) == (31, 1)
    np.testing.assert_array_equal(listed(stored), listed(in_memory(counts())))


def test_the_reader_decides_by_the_memory_that_is_free(put, monkeypatch):
    path = put(counts().assign(tokens=7, topic="x"))
    assert not isinstance(read_responses(path).cells, StoredCells)
    with pytest.warns(LeftOutWarning):
        assert isinstance(read_responses(path, out_of_core=True).cells, StoredCells)
    monkeypatch.setattr("bayesirt.data.readers.streamed.host_bytes_free", lambda: 1e4)
    said = r"^485 rows are left on disk without `tokens`: lengths, times, costs and lists"
    with pytest.warns(LeftOutWarning, match=said):
        stored = read_responses(path)
    assert isinstance(stored.cells, StoredCells)
    assert stored.latency is None
    held = read_responses(path, out_of_core=False)
    assert held.latency is not None
    pd.testing.assert_frame_equal(stored.item_metadata, held.item_metadata)
    assert set(stored.item_metadata["topic"]) == {"x"}
    np.testing.assert_array_equal(listed(stored), listed(held))


@pytest.mark.parametrize("kind", ["int8", "bool", "float32", "str", "category"])
def test_single_answers_of_every_type(put, kind):
    frame = counts().query("trials > 0").assign(score=lambda f: f["successes"] > 0)
    stored = on_disk(
        put(frame.astype({"score": "int8"}).astype({"score": kind})),
        roles={"subject": "model", "item": "item", "score": "score"},
    )
    assert_same(stored, Responses.from_long(frame, subject="model"))


def test_fractions_are_told_from_the_whole_file(put):
    frame = counts().query("trials > 0").sort_values("trials", ignore_index=True)
    frame["score"] = frame["successes"] / frame["trials"]
    stored = on_disk(put(frame), roles=ROLES | {"score": "score"})
    assert_same(stored, in_memory(frame))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rule", ["trials", "first", "last"])
def test_rows_that_repeat_follow_the_rule(put, request, rule, sparse):
    if sparse:
        request.getfixturevalue("lists")
    frame = counts()
    twice = pd.concat([frame, frame.head(60).assign(successes=0), frame.tail(40)])
    assert_same(on_disk(put(twice), rule), in_memory(twice, rule))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_repeat_are_refused_as_elsewhere(put, folder, request, sparse):
    if sparse:
        request.getfixturevalue("lists")
    frame = counts().query("trials > 0")
    twice = pd.concat([frame, frame.iloc[[200, 5, 30, 77, 200]]], ignore_index=True)
    with pytest.raises(ResponseError, match=r"^5 rows repeat") as elsewhere:
        in_memory(twice)
    with pytest.raises(ResponseError) as refused:
        on_disk(put(twice))
    assert str(refused.value) == str(elsewhere.value)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("column", "value"),
    [("successes", 9), ("successes", -1), ("trials", -2), ("model", None), ("model", "")],
)
def test_a_bad_row_is_refused_as_elsewhere(put, folder, column, value):
    frame = counts()
    frame.loc[333, column] = value
    with pytest.raises(ResponseError) as elsewhere:
        in_memory(frame)
    for read in (on_disk, read_responses):
        with pytest.raises(ResponseError) as refused:
            read(put(frame))
        assert str(refused.value) == str(elsewhere.value)
    assert not list(folder.iterdir())


def test_pages_that_are_broken_are_refused(put, folder):
    path = put(counts())
    data = bytearray(path.read_bytes())
    data[200:3000] = b"\xff" * 2800
    path.write_bytes(data)
    for out_of_core in (True, False):
        with pytest.raises(ResponseError, match=r"^r\.parquet is not a Parquet file: "):
            read_responses(path, out_of_core=out_of_core)
    assert not list(folder.iterdir())


def test_what_cannot_be_left_on_disk_is_refused(put, tmp_path):
    csv = tmp_path / "r.csv"
    csv.write_text("model,item,score\na,p,1\n")
    with pytest.raises(ResponseError, match=r"^r\.csv cannot be left on disk; make it a long"):
        read_responses(csv, out_of_core=True)
    floating = put(counts().astype({"item": float}))
    with pytest.raises(ResponseError, match="whose names are text or whole numbers"):
        read_responses(floating, out_of_core=True)
    assert read_responses(floating).items[0].endswith(".0")
    timed = put(counts().assign(t=1.0))
    with pytest.raises(ResponseError, match="lengths, times and costs cannot be left on disk"):
        read_responses(timed, latency="t", out_of_core=True)


def test_a_full_disk_is_told_before_anything_is_written(put, folder, monkeypatch):
    usage = type("usage", (), {"free": 1_000})
    monkeypatch.setattr("bayesirt.data.cell_store.shutil.disk_usage", lambda _: usage)
    with pytest.raises(ResponseError, match=r"but 0\.0 GB are free in .*; set TMPDIR to a folder"):
        read_responses(put(counts()), out_of_core=True)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    usage.free = 1e9
    monkeypatch.setattr("bayesirt.data.cell_store.save_block", full)
    with pytest.raises(
        ResponseError, match=r"cannot be stored in .*: No space left on device; set TMPDIR"
    ):
        read_responses(put(counts()), out_of_core=True)
    assert not list(folder.iterdir())


def test_what_needs_all_cells_says_so(put):
    stored = on_disk(put(counts()))
    for use in (
        stored.to_long,
        lambda: stored.select(np.arange(3), np.arange(3)),
        stored.cells.matrices,
        lambda: fit_cbmm(stored, step="mm", start="logits"),
    ):
        with pytest.raises(ResponseError, match="responses were left on disk, and only fit_cbmm"):
            use()
    for use in (
        lambda: check_memory("blocked", stored, model=TwoPL(), options=RunOptions()),
        lambda: rank_responses(stored),
    ):
        said = r"^blocked would need about \d\.\d GB of memory for \d+ .*; fit_cbmm gives a point"
        with pytest.raises(ResponseError, match=said):
            use()


def test_groups_are_found_across_blocks(put):
    frame = counts().query("trials > 0")
    other = frame.assign(model=frame["model"] + "b", item=frame["item"] + 100)
    both = pd.concat([frame.head(250), other.head(300)], ignore_index=True)
    stored, held = on_disk(put(both)), in_memory(both)
    assert_same(stored, held)
    assert len(stored.components()) == 2
    for one, another in zip(stored.components(), held.components(), strict=True):
        for found, expected in zip(one, another, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_the_median_of_trials_is_that_of_memory(put, monkeypatch):
    monkeypatch.setattr("bayesirt.ranking.simple_averages._MOST_RESPONSES", 0)
    frame = counts()
    rules = [average_rule(data) for data in (on_disk(put(frame)), in_memory(frame))]
    assert rules[0].trials == rules[1].trials == frame.query("trials > 0")["trials"].median()


def test_the_store_goes_with_the_responses(put, folder):
    stored = on_disk(put(counts()))
    assert [f.name for f in folder.iterdir()] == [stored.cells.folder.name]
    names = {f.name.split("_")[0] for f in stored.cells.folder.iterdir()}
    assert names == {"counts"}
    del stored
    gc.collect()
    assert not list(folder.iterdir())


def test_the_store_goes_with_the_process(put, folder):
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[2]\n"
        "from bayesirt import read_responses\n"
        "kept = read_responses(sys.argv[1], out_of_core=True).cells\n"
        "print(kept.folder.is_dir())"
    )
    command = [sys.executable, "-c", code, put(counts()), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert not list(folder.iterdir())


def test_rows_stay_in_order_when_counts_follow_single_answers(put):
    frame = counts().query("trials > 0")
    single = frame.assign(successes=(frame["successes"] > 0).astype(int), trials=1)
    both = pd.concat([single, frame, single.head(50)], ignore_index=True)
    for rule in ("first", "last"):
        assert_same(on_disk(put(both), rule), in_memory(both, rule))


def test_progress_tells_rows_then_blocks(put):
    told: list[tuple[int, int]] = []
    path = put(counts())
    n = len(counts())

    def note(done: int, total: int) -> None:
        told.append((done, total))

    LongParquet(path, ROLES, None, n, progress=note).on_disk("error", block_rows=BLOCK)
    rows = [done for done, total in told if total == n]
    assert rows[-1] == n
    assert rows == sorted(rows)
    blocks = -(-n // BLOCK)
    assert told[len(rows) :] == [(k, blocks) for k in range(1, blocks + 1)]
    told.clear()
    read_results(path, Reading(score="successes", out_of_core=False), progress=note)
    assert told[-1] == (n, n)

"""Item metadata and the order of names are kept when responses stay on disk."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored_data import ROLES, counts, listed

from bayesirt.data.long_parquet_file import read_long_parquet
from bayesirt.data.readers import LeftOutWarning, read_responses
from bayesirt.data.responses import Responses
from bayesirt.data.stored_cells import StoredCells
from bayesirt.errors import ResponseError


@pytest.fixture(autouse=True)
def few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read few rows at a time, and put temporary files into the test's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("bayesirt.data.readers.long_parquet._AT_ONCE", 64)


def described(seed: int = 0) -> pd.DataFrame:
    """Return counts with item metadata of several types and with missing values."""
    frame, values = counts(seed).query("trials > 0"), np.random.default_rng(1)
    item = frame["item"].to_numpy()
    per_item = {
        "topic": pd.Series([None if k == 3 else f"t{k % 4}" for k in range(20)], dtype=object),
        "level": pd.Series(np.where(np.arange(20) == 5, np.nan, values.normal(size=20))),
        "hard": pd.Series(np.arange(20) % 3 == 0),
        "year": pd.Series(np.arange(20) % 5),
    }
    columns = {name: column.to_numpy()[item] for name, column in per_item.items()}
    return frame.assign(**columns).reset_index(drop=True)


def own(frame: pd.DataFrame, path: Path) -> Responses:
    """Write a file of this package, and return its responses."""
    about = [c for c in frame if c not in ROLES.values()]
    held = Responses.from_long(
        frame, subject="model", score="successes", trials="trials", item_metadata=about
    )
    order = np.arange(held.n_subjects)[::-1], np.roll(np.arange(held.n_items), 7)
    held = held.select(*order)  # an order that no reader would produce by itself
    held.to_parquet(path)
    return held


@pytest.mark.parametrize("out_of_core", [True, False])
def test_a_file_of_this_package_is_read_as_it_was_written(tmp_path: Path, out_of_core: bool):
    held = own(described(), tmp_path / "own.parquet")
    found = read_responses(tmp_path / "own.parquet", out_of_core=out_of_core)
    assert isinstance(found.cells, StoredCells) == out_of_core
    assert (found.subjects, found.items) == (held.subjects, held.items)
    np.testing.assert_array_equal(listed(found), listed(held))
    whole = read_long_parquet(tmp_path / "own.parquet")
    pd.testing.assert_frame_equal(found.item_metadata, whole.item_metadata)
    pd.testing.assert_frame_equal(found.item_metadata, held.item_metadata, check_dtype=False)


@pytest.mark.parametrize("kind", ["str", "category"])
def test_what_describes_items_is_kept_wherever_it_can_be(tmp_path: Path, kind: str):
    frame = described()[[*ROLES.values(), "topic", "level"]]
    frame = frame.assign(task=np.arange(len(frame))).astype({"item": str})
    expected = Responses.from_long(
        frame, subject="model", score="successes", trials="trials",
        item_metadata=["topic", "level"],
    )  # fmt: skip
    path = tmp_path / "r.parquet"
    frame.astype({"model": kind, "item": kind}).to_parquet(path, row_group_size=90)
    for out_of_core in (True, False):
        found = read_responses(path, score="successes", out_of_core=out_of_core)
        assert list(found.item_metadata) == ["topic", "level"]  # a task varies within items
        pd.testing.assert_frame_equal(
            found.item_metadata, expected.item_metadata, check_dtype=False
        )


@pytest.mark.parametrize("out_of_core", [True, False])
def test_what_varies_within_an_item_is_refused_in_files_of_this_package(
    tmp_path: Path, out_of_core: bool
):
    path = tmp_path / "own.parquet"
    own(described(), path)
    table = pq.read_table(path)
    topic = pa.array([f"t{k}" for k in range(len(table))]).dictionary_encode()
    pq.write_table(table.set_column(table.schema.get_field_index("topic"), "topic", topic), path)
    with pytest.raises(
        ResponseError, match=r"^`topic` differs between the rows of item '\d+'; conv"
    ):
        read_responses(path, out_of_core=out_of_core)


def test_lists_and_lengths_are_left_out_with_a_word(tmp_path: Path):
    path = tmp_path / "own.parquet"
    frame = described()[[*ROLES.values(), "topic"]]
    held = own(frame, path)
    tags = pd.DataFrame({"tags": [["a", "b"]] * held.n_items}, index=list(held.items))
    about = pd.concat([held.item_metadata, tags], axis=1)
    timed = Responses(held.subjects, held.items, held.cells, np.ones(held.n_observed), about)
    timed.to_parquet(path, overwrite=True)
    said = r"^\d+ rows are left on disk without `tags`, `latency`: lengths, times, costs and"
    with pytest.warns(LeftOutWarning, match=said):
        found = read_responses(path, out_of_core=True)
    assert list(found.item_metadata) == ["topic"]
    assert list(read_responses(path).item_metadata["tags"].iloc[0]) == ["a", "b"]

"""Reading any file gives responses or one sentence."""

import io
from datetime import timedelta
from pathlib import Path

import hostile_data as hostile
import pyarrow.parquet
import pytest
from hostile_readings import MOST_SECONDS, READERS, Reader, read_or_refuse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesirt.data.readers.q_matrix import read_q_matrix
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.recognise import read_results

EDITS = st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 9999)), min_size=1, max_size=2)
PARQUET = [
    name for name, (*_, change) in hostile.TABLES.items() if change is hostile.change_parquet
]


@pytest.mark.parametrize(
    "reader", READERS, ids=lambda reader: f"{reader.of.__name__} {reader.name}"
)
def test_any_change_ends_in_responses_or_in_one_sentence(tmp_path: Path, reader: Reader):
    steady = settings(
        max_examples=reader.n_few,
        derandomize=True,
        database=None,
        deadline=timedelta(seconds=MOST_SECONDS),
        suppress_health_check=list(HealthCheck),
    )
    case, ended = reader.of(tmp_path, reader.name), []

    def change_and_read(edits: list[hostile.Edit]) -> None:
        case(edits)
        ended.append(edits)

    steady(given(EDITS)(change_and_read))()
    assert len(ended) >= reader.n_few


@pytest.mark.parametrize("name", PARQUET)
def test_any_type_in_any_column_ends_in_responses_or_in_one_sentence(tmp_path: Path, name: str):
    file, content, _ = hostile.TABLES[name]
    table = pyarrow.parquet.read_table(io.BytesIO(content))
    for at, column in enumerate(table.column_names):
        for values in hostile.COLUMNS:
            pyarrow.parquet.write_table(table.set_column(at, column, values), tmp_path / file)
            found = read_or_refuse(lambda: read_results(tmp_path / file, Reading()))
            assert found is None or found[0].n_observed > 0


def test_what_was_not_changed_is_read(tmp_path: Path):
    for k, name in enumerate(hostile.LOGS):
        root = tmp_path / str(k)
        for model in ("acme/large", "acme/small"):
            hostile.LOGS[name][0](root, model)
        reading = Reading(metric=("acc",) if name == "lm-eval" else ())
        assert read_results(root, reading)[0].n_observed == 8
    for file, content, _ in hostile.TABLES.values():
        (tmp_path / file).write_bytes(content)
        assert read_results(tmp_path / file, Reading())[0].n_observed == 4
    for file, content, _ in hostile.Q_MATRICES.values():
        (tmp_path / file).write_bytes(content)
        assert read_q_matrix(tmp_path / file).n_items == 2

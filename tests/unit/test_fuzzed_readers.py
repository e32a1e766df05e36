"""Whatever a file holds, reading it ends in responses or in one sentence."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import hostile_data as hostile
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesirt.errors import ResponseError
from bayesirt.q_matrix import QMatrix
from bayesirt.readers.choices import Choices
from bayesirt.readers.harness import ANSWER_COLUMNS
from bayesirt.readers.log_folder import find_harness
from bayesirt.readers.q_matrix import read_q_matrix
from bayesirt.readers.reading import Reading
from bayesirt.readers.recognise import read_results
from bayesirt.responses import Responses

EDITS = st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 9999)), min_size=1, max_size=2)
Case = Callable[[list[hostile.Edit]], None]
"""Changes a file and reads it."""


def read_or_refuse(read: Callable[[], Any]) -> Any:
    """Return what is read, or None after one sentence."""
    try:
        return read()
    except ResponseError as error:
        sentence = str(error)
        assert sentence.splitlines() == [sentence]
        assert len(sentence) < 1500
        return None


def of_log(root: Path, name: str) -> Case:
    write, change = hostile.LOGS[name]
    path = write(root, "acme/large")
    content, harness = path.read_bytes(), find_harness(path)
    assert harness is not None

    def run(edits: list[hostile.Edit]) -> None:
        path.write_bytes(change(content, edits))
        for rows in read_or_refuse(lambda: harness.read(path, Choices(("acc",)))) or ():
            assert tuple(rows.answers.columns) == ANSWER_COLUMNS
            assert not rows.answers["score"].isna().any()

    return run


def of_folder(root: Path, name: str) -> Case:
    write, change = hostile.LOGS[name]
    path, _ = (write(root, model) for model in ("acme/large", "acme/small"))
    content = path.read_bytes()
    reading = Reading(metric=("acc",) if name == "lm-eval" else (), threshold=0.5)

    def run(edits: list[hostile.Edit]) -> None:
        path.write_bytes(change(content, edits))
        found = read_or_refuse(lambda: read_results(root, reading))
        if found is not None:
            assert isinstance(found[0], Responses)
            assert len(found[1].to_text().encode()) < 20_000

    return run


def of_table(root: Path, name: str) -> Case:
    file, content, change = hostile.TABLES[name]
    path = root / file

    def run(edits: list[hostile.Edit]) -> None:
        path.write_bytes(change(content, edits))
        found = read_or_refuse(lambda: read_results(path, Reading()))
        assert found is None or isinstance(found[0], Responses)

    return run


def of_q_matrix(root: Path, name: str) -> Case:
    file, content, change = hostile.Q_MATRICES[name]
    path = root / file

    def run(edits: list[hostile.Edit]) -> None:
        path.write_bytes(change(content, edits))
        found = read_or_refuse(lambda: read_q_matrix(path))
        assert found is None or isinstance(found, QMatrix)

    return run


def many(change: hostile.Change, n_cases: int) -> int:
    """Return fewer cases for Parquet, which is slow to write."""
    return n_cases // 3 if change is hostile.change_parquet else n_cases


READERS = [
    *((of_log, name, 100, many(seed[-1], 7000)) for name, seed in hostile.LOGS.items()),
    *((of_folder, name, 10, 300) for name in hostile.LOGS),
    *((of_table, name, 80, many(seed[-1], 6000)) for name, seed in hostile.TABLES.items()),
    *((of_q_matrix, name, 40, 1700) for name in hostile.Q_MATRICES),
]
"""What is read, and how many cases are tried: few in seconds, many in the slow set."""


def test_the_slow_set_has_a_hundred_thousand_cases():
    assert sum(n for *_, n in READERS) >= 100_000


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("of", "name", "n_few", "n_many"), READERS)
def test_any_change_ends_in_responses_or_in_one_sentence(
    tmp_path: Path, of: Callable[[Path, str], Case], name: str, n_few: int, n_many: int, slow: bool
):
    steady = settings(
        max_examples=n_many if slow else n_few,
        derandomize=True,
        database=None,
        deadline=timedelta(seconds=10),
        suppress_health_check=list(HealthCheck),
    )
    steady(given(EDITS)(of(tmp_path, name)))()


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

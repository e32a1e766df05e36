"""Read damaged files: every reading must return a result or raise an error of one sentence.

As a script, read many files with one half of the readers, and print their times and failures.
"""

import faulthandler
import json
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import hostile_data as hostile

from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import ANSWER_COLUMNS
from bayesirt.data.readers.log_folder import find_harness
from bayesirt.data.readers.q_matrix import read_q_matrix
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.recognise import read_results
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError

Case = Callable[[list[hostile.Edit]], None]
"""A function that damages a file and reads it."""
MOST_SECONDS = 10
"""Limit for one case."""
_MOST_OF_A_READER = 600
"""Seconds until a case that hangs is reported with its traceback, and the script ends."""
_MOST_WRONG = 5


class Reader(NamedTuple):
    """A kind of file to read, and the number of cases.

    Attributes
    ----------
    of : callable
        Makes a case from a folder and a name.
    name : str
        A key of `hostile_data.LOGS`, `TABLES` or `Q_MATRICES`.
    n_few, n_many : int
        Number of cases in the quick and in the slow tests.
    """

    of: Callable[[Path, str], Case]
    name: str
    n_few: int
    n_many: int


def read_or_refuse(read: Callable[[], Any]) -> Any:
    """Return the result, or None after an error of one sentence."""
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


def _many(change: hostile.Change, n_cases: int) -> int:
    """Return fewer cases for Parquet, which is slow to write."""
    return n_cases // 3 if change is hostile.change_parquet else n_cases


LOGS = (
    *(Reader(of_log, name, 100, _many(seed[-1], 2300)) for name, seed in hostile.LOGS.items()),
    *(Reader(of_folder, name, 10, 100) for name in hostile.LOGS),
)
TABLES = (
    *(Reader(of_table, name, 80, _many(seed[-1], 1700)) for name, seed in hostile.TABLES.items()),
    *(Reader(of_q_matrix, name, 40, 1200) for name in hostile.Q_MATRICES),
)
READERS = LOGS + TABLES


def read_many(reader: Reader, root: Path) -> dict[str, Any]:
    """Read a file after each of `n_many` random changes, with a fixed seed.

    Parameters
    ----------
    reader : Reader
    root : Path
        An empty folder.

    Returns
    -------
    dict
        The longest time of a case in seconds, and the first failures.
    """
    name = f"{reader.of.__name__}, {reader.name}"
    case, rng = reader.of(root, reader.name), random.Random(name)
    slowest, wrong = 0.0, []
    for _ in range(reader.n_many):
        edits = [(rng.randrange(10_000), rng.randrange(10_000)) for _ in range(rng.randint(1, 3))]
        began = time.perf_counter()
        try:
            case(edits)
        except Exception:
            wrong.append(f"{name}: {edits}\n{traceback.format_exc()}")
        slowest = max(slowest, time.perf_counter() - began)
        if len(wrong) == _MOST_WRONG:
            break
    return {"reader": name, "slowest": slowest, "wrong": wrong}


def main(half: str) -> None:
    """Read many damaged files, and print the results of `read_many` and the peak memory in MB."""
    warnings.simplefilter("error")
    told = []
    for reader in {"logs": LOGS, "tables": TABLES}[half]:
        faulthandler.dump_traceback_later(_MOST_OF_A_READER, exit=True)
        with tempfile.TemporaryDirectory() as root:
            told.append(read_many(reader, Path(root)))
    status = Path("/proc/self/status").read_text()  # ru_maxrss would begin with the parent's
    megabytes = int(status.split("VmHWM:")[1].split()[0]) >> 10
    print(json.dumps({"megabytes": megabytes, "readers": told}))


if __name__ == "__main__":
    main(sys.argv[1])

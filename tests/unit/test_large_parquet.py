"""A long Parquet file of 20 million rows is read in memory that hardly grows with its rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

N_SUBJECTS, N_ITEMS, N_SUITES = 2000, 10_000, 7
AT_ONCE = 1_000_000
STRIDE = 982_451_653
"""A large prime: its multiples visit each cell of the matrix once, in an order far from sorted."""
ON_DISK = 300e6
"""Bytes for about two million rows while they are sorted, and for PyArrow's read buffers."""
IN_MEMORY = ON_DISK + 12 * N_SUBJECTS * N_ITEMS
"""Bytes, including 10 per row and 2 per cell."""

SCRIPT = """
import json, sys, time
import pyarrow.parquet
from bayesirt.ranking.simple_averages import average_rule
from bayesirt.data.readers import read_responses

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

path, on_disk = sys.argv[1], sys.argv[2] == "on disk"
before = peak()
responses = read_responses(path, out_of_core=on_disk)
facts = responses.summary["value"].to_dict()
average_rule(responses)
kept = responses.cells.folder if on_disk else None
print(json.dumps({
    "growth": peak() - before,
    "bytes on disk": sum(f.stat().st_size for f in kept.iterdir()) if on_disk else 0,
    "facts": facts,
    "right": responses.cells.totals(0).successes.tolist(),
    "items": responses.items,
    "suites": responses.item_metadata["benchmark"].tolist(),
}))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.Series]:
    """Return a file of unordered rows, and the number of correct answers to each item."""
    path = tmp_path_factory.mktemp("large") / "r.parquet"
    rng = np.random.default_rng(0)
    right = np.zeros(N_ITEMS, int)
    names = [
        pa.array([f"{kind}{k}" for k in range(n)])
        for kind, n in (("model ", N_SUBJECTS), ("question ", N_ITEMS), ("suite ", N_SUITES))
    ]
    kinds = [*[pa.dictionary(pa.int32(), pa.string())] * 3, pa.int8()]
    schema = pa.schema(zip(("model", "item", "benchmark", "score"), kinds, strict=True))
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, N_SUBJECTS * N_ITEMS, AT_ONCE):
            cell = np.arange(start, start + AT_ONCE) * STRIDE % (N_SUBJECTS * N_ITEMS)
            subject, item = np.divmod(cell, N_ITEMS)
            score = rng.uniform(size=AT_ONCE) < subject / N_SUBJECTS
            right += np.bincount(item, score, N_ITEMS).astype(int)
            codes = (subject, item, item % N_SUITES)
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), known)
                for code, known in zip(codes, names, strict=True)
            ]
            file.write_table(pa.table([*columns, pa.array(score.astype(np.int8))], schema=schema))
    return path, pd.Series(right, names[1].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(("where", "most"), [("on disk", ON_DISK), ("in memory", IN_MEMORY)])
def test_twenty_million_rows_take_bounded_memory(
    large: tuple[Path, pd.Series], tmp_path: Path, where: str, most: float
):
    path, right = large
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, path, where],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["growth"] < most
    assert found["bytes on disk"] <= 2.1 * N_SUBJECTS * N_ITEMS
    assert (found["facts"]["responses"], found["facts"]["coverage"]) == (N_SUBJECTS * N_ITEMS, 1)
    assert found["right"] == right[found["items"]].tolist()
    numbers = [int(name.split()[1]) for name in found["items"]]
    assert found["suites"] == [f"suite {k % N_SUITES}" for k in numbers]
    assert not list(tmp_path.glob("bayesirt-*"))

"""Time and peak memory of reading a Parquet file and fitting its responses from disk.

The order of the file's rows jumps across all subjects and items. Each size runs in a separate
process, so that peaks are measured separately, and PyArrow decodes the same file for comparison.
`BAYESIRT_BENCH_RESPONSES` sets other sizes of complete data, up to 1e9, and
`BAYESIRT_BENCH_SPARSE` sizes of data with one cell in twenty observed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COMPLETE = os.environ.get("BAYESIRT_BENCH_RESPONSES", "1e6 1e7 1e8").split()
SPARSE = os.environ.get("BAYESIRT_BENCH_SPARSE", "1e6 1e7").split()
SHAPES = {
    ("1e6", 1.0): (1000, 1000),
    ("1e7", 1.0): (2500, 4000),
    ("1e8", 1.0): (10_000, 10_000),
    ("1e9", 1.0): (25_000, 40_000),
    ("1e6", 0.05): (4000, 5000),
    ("1e7", 0.05): (10_000, 20_000),
    ("1e8", 0.05): (40_000, 50_000),
    ("1e9", 0.05): (100_000, 200_000),
}
MOST_TIMES = {1.0: 10.0, 0.05: 20.0}
"""Largest ratio of processor time to PyArrow's decoding, by coverage, from ten million rows on:
reading writes the rows, reads them again to place them, and sorts lists of cells."""
MOST_BYTES = 1.2e9
"""Largest peak memory at any size: Python, JAX, compiled code and a few blocks."""
ROWS = 1 << 20
STRIDE = 982_451_653
"""A large prime: its multiples visit each cell of a matrix once, in an order far from sorted."""

SCRIPT = """
import json, sys, time
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import pyarrow.parquet as pq
from bayesirt import fit_cbmm, read_responses

def decode():
    columns = ["model", "item"]
    with pq.ParquetFile(sys.argv[1], read_dictionary=columns, pre_buffer=False) as file:
        for _ in file.iter_batches(1 << 20, columns=[*columns, "score"], use_threads=False):
            pass

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

found = {"gigabytes at the start": peak() / 1e9}
began = time.process_time()
decode()
decoded = time.process_time() - began
began, worked = time.perf_counter(), time.process_time()
responses = read_responses(sys.argv[1], out_of_core=True)
found["seconds of reading"] = time.perf_counter() - began
found["reading / decoding by pyarrow"] = (time.process_time() - worked) / decoded
found["gigabytes after reading"] = peak() / 1e9
began = time.perf_counter()
fit = fit_cbmm(responses)
found["seconds of fitting"] = time.perf_counter() - began
found["passes"] = fit.settings["passes"]
found["gigabytes"] = peak() / 1e9
found["responses"] = responses.n_observed
found["converged"] = fit.converged
truth = np.load(sys.argv[2])
place = np.array([int(name[1:]) for name in responses.subjects])
found["correlation of abilities"] = np.corrcoef(fit["theta"], truth[place])[0, 1]
print(json.dumps(found))
"""


def write_long(folder: Path, n_responses: int, shape: tuple[int, int]) -> None:
    """Write responses drawn from the 2PL, and their true abilities."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=shape[0])
    a, d = np.exp(0.4 * rng.normal(size=shape[1])), rng.normal(size=shape[1])
    names = [pa.array([f"{k}{i}" for i in range(n)]) for k, n in zip("si", shape, strict=True)]
    kinds = [pa.dictionary(pa.int32(), pa.string())] * 2
    schema = pa.schema([*zip(("model", "item"), kinds, strict=True), ("score", pa.int8())])
    with pq.ParquetWriter(folder / "long.parquet", schema) as writer:
        for start in range(0, n_responses, ROWS):
            row = np.arange(start, min(start + ROWS, n_responses), dtype=np.int64)
            subject, item = np.divmod(row * STRIDE % (shape[0] * shape[1]), shape[1])
            p = 1 / (1 + np.exp(-(theta[subject] * a[item] + d[item])))
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), known)
                for code, known in zip((subject, item), names, strict=True)
            ]
            score = pa.array((rng.uniform(size=len(row)) < p).astype(np.int8))
            writer.write_table(pa.Table.from_arrays([*columns, score], schema=schema))
    np.save(folder / "theta.npy", theta)


@pytest.mark.bench
@pytest.mark.parametrize(
    ("size", "coverage"), [*((size, 1.0) for size in COMPLETE), *((size, 0.05) for size in SPARSE)]
)
def test_a_file_larger_than_memory(size: str, coverage: float, tmp_path: Path, capsys):
    n = int(float(size))
    write_long(tmp_path, n, SHAPES[size, coverage])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "long.parquet", tmp_path / "theta.npy"],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    growth = found["gigabytes"] - found["gigabytes at the start"]
    found["bytes of memory a response"] = 1e9 * growth / n
    for step in ("reading", "fitting"):
        found[f"{step}, seconds per million"] = 1e6 * found[f"seconds of {step}"] / n
    with capsys.disabled():
        print(f"\n{size} responses, coverage {coverage:g}")
        for name, value in found.items():
            print(f"  {name:34} {value:14.3f}")
    assert found["responses"] == n
    assert found["converged"]
    assert found["correlation of abilities"] > 0.95
    assert 1e9 * found["gigabytes"] < MOST_BYTES
    assert n < 1e7 or found["reading / decoding by pyarrow"] < MOST_TIMES[coverage]
    assert not list(tmp_path.glob("bayesirt-*"))

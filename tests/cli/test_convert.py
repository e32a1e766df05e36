"""`convert` writes any input to one file, from which the same responses are read."""

import json
from pathlib import Path

import harness_data as data
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from cli.conftest import Cli
from cli.test_bad_input import sentence

from bayesirt.data.readers import LeftOutWarning, read_responses
from bayesirt.data.responses import Responses

LONG = "model,item,score,tokens,benchmark\nb,p,1,9,x\nb,q,0,,x\na,p,0,7,x\na,q,1,3,x\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "r.csv"
    path.write_text(LONG)
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for model in ("a", "b"):
        two = {"metrics": ["acc", "norm"], "norm": int(model == "b")}
        rows = [data.lm_eval_row(k, int(k == (model == "a")), **two) for k in (0, 1)]
        data.lm_eval(tmp_path / "logs", model, rows)
    (tmp_path / "logs" / "notes.txt").write_text("fine")
    return tmp_path / "logs"


def same(one: Responses, other: Responses) -> None:
    pd.testing.assert_frame_equal(one.to_long(), other.to_long(), check_dtype=False)
    assert (one.subjects, one.items) == (other.subjects, other.items)


def test_a_table_is_converted(cli: Cli, table: Path, tmp_path: Path):
    out = tmp_path / "new.parquet"
    shown = cli("convert", table, out)
    assert (shown.code, shown.err) == (0, "")
    assert shown.words == (
        f"Responses: 2 subjects x 2 items, 4 responses (100% observed), 50% right, with lengths or "
        f"times Wrote {out}"
    )
    same(read_responses(out), read_responses(table))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.parquet", "r.csv"]


def test_the_file_is_the_documented_interchange(cli: Cli, table: Path, tmp_path: Path):
    out = tmp_path / "new.parquet"
    assert cli("convert", table, out, "-q") == (0, "", "")
    file = pyarrow.parquet.read_table(out)
    assert file.schema.metadata[b"bayesirt"] == b"1"
    assert file.column_names == ["subject", "item", "successes", "trials", "latency", "benchmark"]
    for name in ("subject", "item", "benchmark"):
        assert pa.types.is_dictionary(file.schema.field(name).type)
    assert file["subject"].to_pylist() == ["b", "b", "a", "a"]
    assert file["latency"].to_pylist() == [9, None, 7, 3]


def test_logs_are_converted_with_the_choices_of_rank(cli: Cli, logs: Path, tmp_path: Path):
    out = tmp_path / "new.parquet"
    assert "choose with --metric NAME" in sentence(cli("convert", logs, out))
    assert not out.exists()
    shown = cli("convert", logs, out, "--metric", "arc=acc")
    assert "arc (lm-eval, metric acc): 2 subjects x 2 items, 4 answers in 2 files" in shown.out
    assert "1 file: not a log of a known harness (notes.txt)" in shown.out
    responses = read_responses(out)
    same(responses, read_responses(logs, metric="acc"))
    assert responses.item_metadata["benchmark"].tolist() == ["arc", "arc"]


def test_check_says_what_was_found_in_logs(cli: Cli, logs: Path):
    shown = cli("check", logs, "--metric", "acc")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("Found in logs:\n  arc (lm-eval, metric acc): 2 subjects x 2 items")
    assert "this can be ranked" in shown.out
    facts = json.loads(cli("check", logs, "--metric", "acc", "--json").out)
    assert facts["logs"]["benchmarks"][0]["metric"] == "acc"
    assert facts["logs"]["left out"] == [
        {"what": "notes.txt", "kind": "file", "number": 1, "why": "not a log of a known harness"}
    ]


def test_a_damaged_log_is_skipped_if_told(cli: Cli, logs: Path):
    (logs / "x.eval").write_bytes(b"PK")
    chosen = ("check", logs, "--metric", "acc")
    assert "x.eval: it is not a whole .eval archive" in sentence(cli(*chosen))
    assert "damaged: it is not a whole .eval archive" in cli(*chosen, "--skip-damaged").out


@pytest.mark.slow
def test_a_folder_of_logs_is_ranked(cli: Cli, logs: Path, tmp_path: Path):
    fast = ("--warmup", "40", "--draws", "60", "--chains", "2", "--no-check-fit")
    shown = cli("rank", logs, "--metric", "acc", "--out", tmp_path / "run", *fast)
    assert shown.code == 0
    assert shown.err.startswith("Found in logs:\n  arc (lm-eval, metric acc)")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["data"]["source"] == "logs"
    assert len(record["data"]["sha256"]) == 64


def test_what_is_there_stays_unless_told(cli: Cli, table: Path, tmp_path: Path):
    out = tmp_path / "new.parquet"
    out.write_text("mine")
    assert "already exists; pass --overwrite" in sentence(cli("convert", table, out))
    assert out.read_text() == "mine"
    assert cli("convert", table, out, "--overwrite").code == 0
    assert cli("convert", out, out, "--overwrite").code == 0
    same(read_responses(out), read_responses(table))


def test_what_is_written_is_called_parquet(cli: Cli, table: Path, tmp_path: Path):
    assert "does not end in .parquet" in sentence(cli("convert", table, tmp_path / "new.csv"))
    assert list(tmp_path.iterdir()) == [table]


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("successes", [2, 0, 0, 1], "`successes` is above `trials`: 2 of 1 at subject 'b'"),
        ("trials", [1, -1, 1, 1], "`trials` must be a whole number"),
        ("latency", [1.0, -1, 1, 1], "`latency` must not be negative"),
        ("item", ["p", "p", "p", "q"], "does not hold the names of items; convert it again"),
        ("benchmark", ["x", "x", "y", "x"], "`benchmark` differs between the rows of item 'p'"),
    ],
)
def test_a_file_that_was_tampered_with_is_one_sentence(
    cli: Cli, table: Path, tmp_path: Path, column: str, values: list[object], said: str
):
    out = tmp_path / "new.parquet"
    cli("convert", table, out, "-q")
    file = pyarrow.parquet.read_table(out)
    changed = pa.array(values)
    changed = changed.dictionary_encode() if column == "benchmark" else changed
    place = file.column_names.index(column)
    pyarrow.parquet.write_table(file.set_column(place, column, changed), out)
    assert said in sentence(cli("check", out))


def test_rows_that_were_added_are_repeats_as_in_any_table(cli: Cli, table: Path, tmp_path: Path):
    out = tmp_path / "new.parquet"
    cli("convert", table, out, "-q")
    file = pyarrow.parquet.read_table(out)
    pyarrow.parquet.write_table(pa.concat_tables([file, file.slice(0, 1)]), out)
    said = sentence(cli("check", out))
    assert "1 rows repeat a subject and item, the first at subject 'b', item 'p'" in said
    assert "--duplicates trials" in said
    assert read_responses(out, duplicates="trials").cells.matrices()[1].tolist() == [[2, 1], [1, 1]]


def test_names_are_kept_in_their_order_however_many(tmp_path: Path):
    rng = np.random.default_rng(0)
    items = [f"a rather long name of an item that stands at {k}" for k in range(40_000)][::-1]
    trials = rng.integers(0, 2, (3, len(items)))
    trials[0], trials[:, 0] = np.where(trials.sum(0) == 0, 1, trials[0]), 1
    responses = Responses.from_arrays(0 * trials, trials, items=items)
    responses.to_parquet(tmp_path / "r.parquet")
    found = read_responses(tmp_path / "r.parquet")
    assert list(found.items) == items
    same(found, responses)


def test_a_fast_file_is_no_other_for_its_options(cli: Cli, table: Path, tmp_path: Path):
    out = tmp_path / "new.parquet"
    cli("convert", table, out, "-q")
    named = read_responses(out, subject="item", item="subject", score="successes")
    assert set(named.subjects) == {"p", "q"}
    with pytest.warns(LeftOutWarning, match="without `latency`"):
        assert read_responses(out, out_of_core=True).n_observed == 4

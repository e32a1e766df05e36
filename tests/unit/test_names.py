"""Hostile names are kept unchanged, and every output is safe from them."""

import csv
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cli.conftest import run_command
from quick_engine import draw_near

from bayesirt.data.readers import read_responses
from bayesirt.errors import ResponseError
from bayesirt.names import check_names, one_line, spreadsheet_safe

HOSTILE = (
    "<script>alert(1)</script>", "[/]", "[bold]x", r"$\bad$", "=1+1", "+1", "-1", "@SUM(1)",
    "../../x", "two\nlines", "a\rb", "long" * 2500, "left \u202eright", "NA", "None", "null", "007",
    "1e3", "True", "nan", " spaced ", 'a"b,c;d\te', "subject", "item", "é\u2028ü\x85", "😀",
)  # fmt: skip
SCORES = np.random.default_rng(0).integers(0, 2, (len(HOSTILE), len(HOSTILE)))


def long_table() -> pd.DataFrame:
    row, column = np.divmod(np.arange(SCORES.size), len(HOSTILE))
    names = np.array(HOSTILE, object)
    return pd.DataFrame({"model": names[row], "item": names[column], "score": SCORES.ravel()})


def write_csv(table: pd.DataFrame, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(
            [list(table.columns), *table.to_numpy(object).tolist()]
        )


def write_json(table: pd.DataFrame, path: Path) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_dict("records"))
    path.write_text("".join(lines), "utf-8", newline="\n")


WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    "r.csv": write_csv,
    "r.tsv": write_csv,
    "r.jsonl": write_json,
    "r.parquet": pd.DataFrame.to_parquet,
}


def test_names_that_are_no_text_are_named_as_python_writes_them(tmp_path):
    rows = [{"model": m, "item": i, "score": 1} for m in (1, True, "1.0") for i in (7, 0.5)]
    write_json(pd.DataFrame(rows, dtype=object), tmp_path / "r.jsonl")
    responses = read_responses(tmp_path / "r.jsonl")
    assert responses.subjects == ("1", "True", "1.0")
    assert responses.items == ("7", "0.5")


def test_names_in_bytes_are_text(tmp_path):
    rows = [{"model": m, "item": i, "score": 1} for m in (b"a", "é".encode()) for i in (b"p", b"q")]
    pd.DataFrame(rows).to_parquet(tmp_path / "r.parquet")
    assert read_responses(tmp_path / "r.parquet").subjects == ("a", "é")


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("hostile")
    write_json(long_table(), folder / "r.jsonl")
    fast = ("--warmup", "50", "--draws", "50", "--chains", "2", "--no-check-fit")
    near = patch("bayesirt.ranking.run.sample_posterior", draw_near)
    with near, redirect_stdout(io.StringIO()) as said:
        assert run_command("rank", folder / "r.jsonl", "--out", folder / "run", *fast) == 0
    return folder / "run", said.getvalue()


@pytest.mark.parametrize(
    ("file", "column"), [("ranking.csv", "subject"), ("items.csv", "item"), ("pairwise.csv", None)]
)
def test_no_cell_of_a_csv_is_a_formula(ranked, file, column):
    with (ranked[0] / file).open(encoding="utf-8", newline="") as opened:
        header, *body = csv.reader(opened)
    safe = sorted(map(spreadsheet_safe, HOSTILE))
    assert sorted(row[0] for row in body) == safe
    assert header[0] == column or sorted(header[1:]) == safe
    for cell in (cell for row in (header, *body) for cell in row if cell[:1] in "=+-@\t\r\n|%"):
        assert cell == "" or float(cell) < 0


def test_the_report_holds_names_as_text(ranked):
    report = (ranked[0] / "report.html").read_text("utf-8")
    assert "<script>alert" not in report
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report
    assert r"$\bad$" in report
    assert "\u202e" not in report


def test_the_terminal_shows_names_as_text(ranked):
    for shown in ("[/]", "[bold]x", "two·lines", "left ·right", "longlon"):
        assert shown in ranked[1]
    assert not {"\u202e", "\r", "\x85", "\x1b"} & set(ranked[1])
    assert max(map(len, ranked[1].splitlines())) < 300


def test_the_draws_keep_names(ranked):
    with xr.open_datatree(ranked[0] / "posterior.nc", engine="h5netcdf") as tree:
        assert tuple(tree["posterior"]["subject"].values) == HOSTILE
        assert tuple(tree["posterior"]["item"].values) == HOSTILE


@pytest.mark.parametrize("command", ["check", "compare"])
def test_other_commands_take_hostile_names(ranked, command, capsys):
    path = ranked[0] if command == "compare" else ranked[0].parent / "r.jsonl"
    assert run_command(command, path) == 0
    shown = capsys.readouterr().out
    assert "\u202e" not in shown
    assert command == "check" or "[bold]x" in shown


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("gpt-x", 48, "gpt-x"),
        ("two\nlines", 48, "two·lines"),
        ("\x1b[2J\t\r\0", 48, "·[2J···"),
        ("\u202e\u200b\ufeff\u2028\u2029\ud800", 48, "······"),
        ("😀é", 48, "😀é"),
        ("abcdefghij", 7, "abc…hij"),
        ("abcdefghij", 8, "abcd…hij"),
        ("abcdefghij", 10, "abcdefghij"),
        ("", 48, ""),
    ],
)
def test_a_name_is_shown_on_one_line(name, width, shown):
    assert one_line(name, width) == shown


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "|", "%"])
def test_what_a_spreadsheet_would_run_is_quoted(start):
    assert spreadsheet_safe(f"{start}cmd") == f"'{start}cmd"


@pytest.mark.parametrize("text", ["gpt-x", "", "'=1", "1-1", " =1", "007"])
def test_other_text_goes_to_a_spreadsheet_as_it_is(text):
    assert spreadsheet_safe(text) == text


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", ""], "one item has an empty name; give each item a name"),
        (["a", "b\0"], "item 'b·' is not valid text; rename it"),
        (["a", "\udfff"], "item '·' is not valid text; rename it"),
        (["a", "b", "a", "b", "b"], "item 'b' appears 3 times; rename or drop all but one"),
    ],
)
def test_names_that_cannot_stay_are_refused(names, said):
    with pytest.raises(ResponseError, match=f"^{said}$"):
        check_names(names, "item")


def test_names_that_differ_by_a_little_are_different():
    names = ["a", "A", " a", "a ", "а", "á", "a\u0301"]
    check_names(names, "item")
    assert len(set(names)) == len(names)

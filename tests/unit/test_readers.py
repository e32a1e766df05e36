"""Readers find the columns, keep names as text, and never guess."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesirt.data.readers import read_responses
from bayesirt.data.readers.column_roles import (
    ITEM_NAMES,
    LATENCY_NAMES,
    METADATA_NAMES,
    SCORE_NAMES,
    SUBJECT_NAMES,
    TRIALS_NAMES,
)
from bayesirt.data.responses import Responses
from bayesirt.data.scales import Scale
from bayesirt.errors import ResponseError

Write = Callable[..., Path]

LONG = "model,item,score\na,p,1\na,q,0\nb,p,0\nb,q,1\n"
ANSWERS = [[1, 0], [0, 1]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(content: str | bytes, name: str = "r.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


def answers(responses: Responses) -> list[list[int]]:
    """Return successes, and -1 where nothing was observed."""
    successes, trials = responses.cells.matrices()
    return np.where(trials > 0, successes, -1).tolist()


def assert_good(responses: Responses) -> None:
    assert (responses.subjects, responses.items) == (("a", "b"), ("p", "q"))
    assert answers(responses) == ANSWERS
    assert responses.latency is None


FORMATS = {
    "CSV": ("r.csv", LONG),
    "upper case": ("R.CSV", LONG),
    "gzip": ("r.csv.gz", gzip.compress(LONG.encode())),
    "TSV": ("r.tsv", LONG.replace(",", "\t")),
    "TSV called CSV": ("r.csv", LONG.replace(",", "\t")),
    "semicolons": ("r.csv", LONG.replace(",", ";")),
    "semicolons called TSV": ("r.tsv.gz", gzip.compress(LONG.replace(",", ";").encode())),
    "byte order mark": ("r.csv", "\ufeff" + LONG),
    "CRLF": ("r.csv", LONG.replace("\n", "\r\n")),
    "CR": ("r.csv", LONG.replace("\n", "\r")),
    "no last line break": ("r.csv", LONG.rstrip()),
    "blank lines": ("r.csv", "\n\r\n" + LONG.replace("b,p", "\n\nb,p") + "\n\n"),
    "quoted cells": ("r.csv", LONG.replace("a", '"a"').replace("model", '"model"')),
    "spaces around columns": ("r.csv", LONG.replace("model,item", " Model , ITEM ")),
    "other delimiters in quotes": ("r.csv", LONG.replace("score", 'score,"x;y;z;\n"').replace(
        "1\n", "1,\n").replace("0\n", "0,\n")),
    "JSON Lines": ("r.jsonl", '{"model": "a", "item": "p", "score": 1}\n\n'
        '{"score": false, "item": "q", "model": "a", "extra": [1]}\r\n'
        '{"model": "b", "item": "p", "score": 0.0}\n{"model": "b", "item": "q", "score": "1"}'),
    "wide": ("r.csv", "model,p,q\na,1,0\nb,0,1\n"),
    "wide, items in rows": ("r.csv", "item,a,b\np,1,0\nq,0,1\n"),
    "wide JSON Lines": ("r.jsonl", '{"model":"a","p":1,"q":0}\n{"model":"b","q":1,"p":0}\n'),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), FORMATS.values(), ids=FORMATS)
def test_every_format_reads_the_same(write: Write, name: str, content: str | bytes):
    assert_good(read_responses(write(content, name)))


@pytest.mark.parametrize("kind", ["int8", "float32", "bool", "str", "category", "Int64"])
@pytest.mark.parametrize("zipped", [False, True])
def test_parquet_reads_every_type(write: Write, tmp_path: Path, kind: str, zipped: bool):
    frame = pd.DataFrame(
        {"model": ["a", "a", "b", "b"], "item": [*"pqpq"], "score": [1, 0, 0, 1]},
        index=[7, 7, 7, 7],
    )
    frame = frame.astype({"score": kind, "model": "category"})
    frame.to_parquet(tmp_path / "r.parquet")
    data = (tmp_path / "r.parquet").read_bytes()
    assert_good(read_responses(write(gzip.compress(data), "r.parquet.gz") if zipped else
                               tmp_path / "r.parquet"))  # fmt: skip


@pytest.mark.parametrize("called", ["model", None])
def test_an_index_of_pandas_is_the_first_column(tmp_path: Path, called: str | None):
    frame = pd.DataFrame({"p": [1, 0], "q": [0, 1]}, index=["a", "b"]).rename_axis(called)
    frame.to_parquet(tmp_path / "r.parquet")
    assert_good(read_responses(tmp_path / "r.parquet", items_in=None if called else "columns"))


@pytest.mark.parametrize("subject", SUBJECT_NAMES)
@pytest.mark.parametrize("item", ITEM_NAMES)
def test_subjects_and_items_are_found_by_name(write: Write, subject: str, item: str):
    assert_good(read_responses(write(LONG.replace("model,item", f"{subject.upper()},{item}"))))


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_scores_are_found_by_name(write: Write, score: str):
    assert_good(read_responses(write(LONG.replace("score", score.title()))))


@pytest.mark.parametrize("trials", TRIALS_NAMES)
@pytest.mark.parametrize(("score", "right"), [("successes", 1), ("fraction", 2)])
def test_trials_are_found_by_name(write: Write, trials: str, score: str, right: int):
    table = f"model,item,{score},{trials}\na,p,1,2\na,q,0,2\nb,p,0,0\nb,q,1,2\n"
    responses = read_responses(write(table))
    assert answers(responses) == [[right, 0], [-1, right]]
    assert responses.cells.matrices()[1].tolist() == [[2, 2], [0, 2]]


@pytest.mark.parametrize("latency", LATENCY_NAMES)
def test_latency_is_found_by_name(write: Write, latency: str):
    table = f"model,item,score,{latency}\na,p,1,20\na,q,0,\nb,p,0,0\nb,q,1,1.5\n"
    np.testing.assert_array_equal(read_responses(write(table)).latency, [20, np.nan, np.nan, 1.5])


def test_named_columns_go_before_common_names(write: Write):
    table = "model,item,score,who,what,how,n,t\nx,y,z,a,p,1,1,5\nx,y,z,a,q,0,1,5\n"
    table += "x,y,z,b,p,0,1,5\nx,y,z,b,q,1,1,5\n"
    responses = read_responses(
        write(table), subject="who", item="what", score="how", trials="n", latency="t"
    )
    assert answers(responses) == ANSWERS
    assert responses.latency.tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize("score", ["item", "subject", "trials", "latency"])
def test_a_named_column_has_no_other_role(write: Write, score: str):
    table = LONG.replace("model,item,score", f"who,what,{score}")
    assert_good(read_responses(write(table), subject="who", item="what", score=score))


def test_one_column_may_be_named_twice(write: Write):
    table = "model,item,score\n1,p,1\n0,p,0\n1,q,1\n0,q,0\n"
    responses = read_responses(write(table), subject="model", score="model")
    assert (responses.subjects, answers(responses)) == (("1", "0"), [[1, 1], [0, 0]])


def test_the_first_common_name_counts(write: Write):
    table = "system,task_id,acc,model,item,score,SCORE\nx,y,9,a,p,1,9\nx,y,9,a,q,0,9\n"
    assert_good(read_responses(write(table + "x,y,9,b,p,0,9\nx,y,9,b,q,1,9\n")))


def test_metadata_that_describe_items_are_kept(write: Write):
    table = "model,item,score,Benchmark,topic,level,note\na,p,1,B1,t,1,x\na,q,0,,u,1,x\n"
    responses = read_responses(write(table + "b,p,0,B1,v,1,x\nb,q,1,,u,1,x\n"))
    assert responses.item_metadata.to_dict("index") == {
        "p": {"Benchmark": "B1", "level": "1"},
        "q": {"Benchmark": "", "level": "1"},
    }


def test_metadata_of_any_type_are_kept(write: Write):
    rows = [
        {"model": m, "item": i, "score": 1, "category": [i], "level": None, "topic": m}
        for m in "ab"
        for i in "pq"
    ]
    table = read_responses(write("\n".join(map(json.dumps, rows)), "r.jsonl")).item_metadata
    assert list(table.columns) == ["category", "level"]
    assert table["category"].tolist() == [["p"], ["q"]]


@pytest.mark.parametrize("name", METADATA_NAMES)
def test_metadata_are_found_by_name(write: Write, name: str):
    table = LONG.replace("score", f"score,{name}").replace("1\n", "1,x\n").replace("0\n", "0,x\n")
    assert list(read_responses(write(table)).item_metadata.columns) == [name]


@pytest.mark.parametrize(
    ("first", "items_in", "turned"),
    [
        *((name, None, False) for name in SUBJECT_NAMES),
        *((name, None, True) for name in ITEM_NAMES),
        ("", "columns", False),
        ("", "rows", True),
        ("item", "columns", False),
        ("model", "rows", True),
        (" Model ", None, False),
    ],
)
def test_orientation_is_told_by_the_corner_or_by_the_user(
    write: Write, first: str, items_in: str | None, turned: bool
):
    path = write(f"{first},x,y,z\nv,1,0,1\nw,0,NA,\n")
    responses = read_responses(path, items_in=items_in)
    assert (responses.subjects == ("v", "w")) is not turned
    assert (responses.items == ("v", "w")) is turned
    matrix = np.array([[1, 0, 1], [0, -1, -1]])[:, : None if turned else 3]
    if turned:
        assert answers(responses) == matrix.T.tolist()
    else:
        assert answers(responses) == matrix.tolist()


def test_orientation_is_never_guessed(write: Write):
    with pytest.raises(ResponseError, match="it is unclear whether its rows are subjects"):
        read_responses(write("gpt,claude\n1,0\n0,1\n"))
    with pytest.raises(ResponseError, match="--items-in must be rows or columns, got 'cells'"):
        read_responses(write(LONG), items_in="cells")


def test_wide_cells_left_empty_were_not_observed(tmp_path: Path):
    frame = pd.DataFrame({"model": ["a", "b"], "p": [1.0, None], "q": [0, 1]})
    frame.to_parquet(tmp_path / "r.parquet")
    assert answers(read_responses(tmp_path / "r.parquet")) == [[1, 0], [-1, 1]]


def test_wide_scores_are_cut_at_a_threshold(write: Write):
    responses = read_responses(write("model,p,q\na,.7,.2\nb,.5,\n"), threshold=0.5)
    assert answers(responses) == [[1, 0], [1, -1]]


def test_a_quoted_line_break_stays_in_a_name(write: Write):
    responses = read_responses(write(LONG.replace("a,", '"a\r\n""x"", y",')))
    assert responses.subjects == ('a\r\n"x", y', "b")
    assert answers(responses) == ANSWERS


def test_a_quoted_line_break_stays_in_a_column(write: Write):
    responses = read_responses(write('model,"p\n\n1",q\na,1,0\nb,0,1\n'))
    assert responses.items == ("p\n\n1", "q")


def test_line_separators_within_json_are_no_line_breaks(write: Write):
    rows = [{"model": m, "item": i, "score": 1} for m in ("a\u2028", "b\x85") for i in "pq"]
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    assert read_responses(write(text, "r.jsonl")).subjects == ("a\u2028", "b\x85")


@pytest.mark.parametrize("start", ["", "\n"])
def test_names_like_numbers_stay_text(write: Write, start: str):
    table = start + "model,item,score\n007,1e3,1\n007,NA,0\n7,1e3,0\n7,NA,1\n"
    responses = read_responses(write(table))
    assert (responses.subjects, responses.items) == (("007", "7"), ("1e3", "NA"))


def test_a_row_may_be_longer_than_a_megabyte(write: Write):
    items = [f"q{k}" for k in range(3000)]
    names = ",".join(f"{i}{'x' * 500}" for i in items)
    ones = ",".join("1" * len(items))
    assert read_responses(write(f"model,{names}\na,{ones}\nb,{ones}\n")).n_items == 3000


def test_half_a_character_in_an_unused_column_does_no_harm(write: Write):
    rows = [
        {"model": m, "item": i, "score": (m == "a") == (i == "p"), "text": "\ud800"}
        for m in "ab"
        for i in "pq"
    ]
    assert_good(read_responses(write("\n".join(map(json.dumps, rows)), "r.jsonl")))


def test_livebench_is_read(shared: Path):
    path = shared / "formats" / "tables" / "livebench_13012025.parquet"
    scores = read_responses(path, duplicates="last")
    assert scores.scale == Scale("continuous")
    with pytest.raises(ResponseError, match=r"^590 rows repeat a subject and item"):
        read_responses(path, threshold=0.5)
    responses = read_responses(path, threshold=0.5, duplicates="last")
    assert (responses.n_subjects, responses.n_items) == (93, 1136)

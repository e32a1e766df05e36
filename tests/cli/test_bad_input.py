"""Bad input gives one sentence on stderr and exit code 2, and nothing is written."""

import gzip
import io
import json

import pandas as pd
import pytest

HEAD = "model,item,score\n"
GOOD = HEAD + "m1,q1,1\nm1,q2,0\nm2,q1,0\nm2,q2,1\n"
WIDE = "model,q1,q2\nm1,1,0\nm2,0,1\n"
TRIALS = "model,item,successes,trials\nm1,q1,{}\nm1,q2,1,3\nm2,q1,2,3\nm2,q2,3,3\n"
TWO_GROUPS = HEAD + "".join(
    f"{g}{s},{g}q{i},{(s + i) % 2}\n" for g in "ab" for s in (1, 2) for i in (1, 2)
)


def with_score(score: str) -> str:
    return GOOD + f"m3,q9,{score}\nm1,q9,1\n"


def rows(*objects: object) -> str:
    return "".join(json.dumps(o) + "\n" for o in objects)


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


GZ = gzip.compress(GOOD.encode() * 99, mtime=0)
HALF = {"model": "m1", "item": "\ud800", "score": 1}

# For each file: its name, its contents, options, and words that the message must contain.
BAD = {
    "empty": ("r.csv", "", (), ("r.csv is empty", "export")),
    "only a byte order mark": ("r.csv", "\ufeff\n", (), ("r.csv is empty",)),
    "empty gzip": ("r.csv.gz", gzip.compress(b""), (), ("r.csv.gz is empty",)),
    "empty JSON Lines": ("r.jsonl", "\n\n", (), ("r.jsonl is empty",)),
    "header only": ("r.csv", HEAD, (), ("header but no rows", "add")),
    "parquet without rows": (
        "r.parquet",
        parquet(pd.DataFrame({"model": [], "item": [], "score": []})),
        (),
        ("header but no rows",),
    ),
    "prose": ("r.csv", "All models did well.\nHonest.\n", (), ("not a table", "All models did")),
    "prose with commas": ("r.csv", "Dear all,\nhi, there, you\n", (), ("not a table", "Row #2")),
    "junk as CSV": ("r.csv", bytes(range(256)), (), ("not text", "UTF-8")),
    "junk as parquet": ("r.parquet", b"PAR1" + bytes(range(99)), (), ("not a Parquet file",)),
    "text as parquet": ("r.parquet", GOOD, (), ("not a Parquet file", "export it again")),
    "junk as JSON Lines": ("r.jsonl", b"\xff\xfe{}", (), ("not UTF-8 (line 1)",)),
    "cut gzip": ("r.csv.gz", GZ[:-20], (), ("not a whole gzip file", "make it again")),
    "broken gzip": ("r.csv.gz", GZ[:12] + b"\xff" * 9 + GZ[21:], (), ("not a whole gzip file",)),
    "no gzip": ("r.csv.gz", GOOD, (), ("not a whole gzip file", "gzip")),
    "Latin-1": ("r.csv", (GOOD + "é,q1,1\n").encode("latin-1"), (), ("not UTF-8 (line 6)", "save")),
    "UTF-16": ("r.csv", GOOD.encode("utf-16"), (), ("not text", "UTF-8")),
    "unknown ending": ("r.ods", "x", (), ("r.ods has none of the endings .csv", "convert")),
    "no ending": ("results", GOOD, (), ("has none of the endings",)),
    "only .gz": ("r.gz", GZ, (), ("has none of the endings",)),
    "ragged row": ("r.csv", GOOD + "m3,q1\n", (), ("Row #6", "Expected 3 columns, got 2", "cells")),
    "open quote": ("r.csv", GOOD + '"m3,q1,1\n', (), ("not a table", "Row #6")),
    "column twice": ("r.csv", "model,item,score,score\na,b,1,1\n", (), ("'score' twice", "rename")),
    "wide item twice": ("r.csv", "model,q1,q1\nm1,1,0\n", (), ("column 'q1' twice",)),
    "wide subject twice": (
        "r.csv",
        WIDE + "m1,1,1\n",
        (),
        ("subject 'm1' appears 2 times", "drop"),
    ),
    "wide item row twice": (
        "r.csv",
        "item,m1,m2\nq1,1,0\nq1,1,0\n",
        (),
        ("item 'q1' appears 2 times",),
    ),
    "orientation unknown": ("r.csv", "name,q1,q2\na,1,0\n", (), ("'name'", "--items-in columns")),
    "wide cell": ("r.csv", WIDE + "m3,1,maybe\n", (), ("'maybe'", "subject 'm3', item 'q2'")),
    "wide without items": ("r.jsonl", rows({"model": "a"}), (), ("at least 2 subjects, got 1",)),
    "unnamed wide row": ("r.csv", WIDE + ",1,0\n", (), ("subject's name is missing", "data row 3")),
    "unnamed wide column": (
        "r.csv",
        "model,q1,\na,1,0\nb,1,0\n",
        (),
        ("one item has an empty name", "give each"),
    ),
    "orientation and column": (
        "r.csv",
        WIDE,
        ("--items-in", "rows", "--score", "q1"),
        ("--items-in", "leave out either"),
    ),
    "unknown score": ("r.csv", GOOD, ("--score", "nosuch"), ("no column `nosuch`", "are model,")),
    "unknown item": ("r.csv", "model,q,topic,score\na,b,c,1\n", ("--item", "q9"), ("`q9`",)),
    "no score column": ("r.csv", "model,item,mark\na,b,1\n", (), ("no column for the score",)),
    "one subject": ("r.csv", HEAD + "a,q1,1\na,q2,1\n", (), ("at least 2 subjects, got 1", "add")),
    "one item": ("r.csv", HEAD + "a,q1,1\nb,q1,1\n", (), ("at least 2 items, got 1", "add")),
    "unnamed subject": ("r.csv", GOOD + ",q1,1\n", (), ("subject's name is missing", "data row 5")),
    "unnamed item": ("r.jsonl", rows(HALF | {"item": None}), (), ("item's name", "data row 1")),
    "score 3.5": ("r.csv", with_score("3.5"), (), ("3.5 at subject 'm3', item 'q9'", "--thresh")),
    "score inf": ("r.csv", with_score("inf"), (), ("finite number, got 'inf' at subject 'm3'",)),
    "score -1": ("r.csv", with_score("-1"), (), ("`score` must be 0 or 1", "-1 at subject 'm3'")),
    "score in a list": (
        "r.jsonl",
        rows({"model": "a", "item": "q", "score": [1]}),
        (),
        ("finite number, got '[1]'",),
    ),
    "score of half a character": (
        "r.jsonl",
        rows({"model": "a", "item": "q", "score": "\ud800"}),
        (),
        (r"got '\ud800'",),
    ),
    "NaN threshold": ("r.csv", GOOD, ("--threshold", "nan"), ("--threshold must be a finite",)),
    "threshold and trials": ("r.csv", TRIALS.format("1,3"), ("--threshold", "1"), ("`trials`",)),
    "more successes than trials": ("r.csv", TRIALS.format("4,3"), (), ("above `trials`: 4 of 3",)),
    "negative successes": ("r.csv", TRIALS.format("-1,3"), (), ("got -1 of 3 at subject 'm1'",)),
    "negative trials": ("r.csv", TRIALS.format("0,-1"), (), ("whole number from 0", "got -1 at")),
    "fractional trials": ("r.csv", TRIALS.format("1,2.5"), (), ("whole number", "got 2.5 at")),
    "endless trials": ("r.csv", TRIALS.format("1,1e30"), (), ("whole number", "got 1e+30 at")),
    "missing trials": ("r.csv", TRIALS.format("1,"), (), ("`trials` is missing", "0 if the item")),
    "counts or fractions": (
        "r.csv",
        "model,item,score,trials\na,q,1,3\nb,q,0,3\n",
        (),
        ("counts or fractions", "rename it `successes` or `fraction`"),
    ),
    "unwhole fraction": (
        "r.csv",
        "model,item,fraction,trials\na,q,0.4,3\n",
        (),
        ("got 0.4 of 3 at subject 'a', item 'q'", "correct the row"),
    ),
    "never observed": ("r.csv", TRIALS.format("0,3") + "m7,q1,0,0\n", (), ("'m7' has no resp",)),
    "negative latency": ("r.csv", "model,item,score,tokens\na,q,1,-3\n", (), ("negative, got -3",)),
    "bad JSON": ("r.jsonl", rows({"model": "a"}) + "{'a'\n", (), ("line 2: not valid JSON",)),
    "endless JSON number": ("r.jsonl", "1" * 5000, (), ("line 1: not valid JSON",)),
    "deep JSON": ("r.jsonl", "[" * 100_000, (), ("line 1: not valid JSON",)),
    "JSON list": ("r.jsonl", rows({"model": "a"}, [1]), (), ("line 2: not a JSON object",)),
    "NUL in a name": ("r.jsonl", rows(HALF | {"item": "a\0b"}), (), ("'a·b' is not valid text",)),
    "half a character": ("r.jsonl", rows(HALF), (), ("item '·' is not valid text; rename",)),
    "half a character in a column": ("r.jsonl", rows({"model": "a", "\ud800": 1}), (), ("rename",)),
    "line break in a column": (
        "r.csv",
        'model,item,"sc\nore"\na,q,7\n',
        ("--score", "sc\nore"),
        ("`sc·ore` must be 0 or 1",),
    ),
    "escape codes in a name": ("r.csv", GOOD + "\x1b[2J,q1,x\n", (), ("'x' at subject '·[2J'",)),
    "a long name": ("r.csv", GOOD + "m" * 9999 + ",q1,x\n", (), ("mmm…mmm",)),
}


def sentence(result: tuple[int, str, str]) -> str:
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("bayesirt: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    assert len(err) < 700
    return err


@pytest.mark.parametrize(("name", "content", "options", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_one_sentence(cli, tmp_path, name, content, options, said):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    checked = sentence(cli("check", path, *options))
    assert [words for words in said if words not in checked] == []
    assert sentence(cli("rank", path, "--out", tmp_path / "run", *options)) == checked
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", ["check", "rank"])
@pytest.mark.parametrize("arguments", [(), ("good.csv", "--example")])
def test_exactly_one_input_is_wanted(cli, command, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name one results file, or pass --example" in sentence(cli(command, *arguments))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--nosuch"), "--nosuch"),
        (("nosuch",), "nosuch"),
        (("compare",), "Missing argument"),
        (("check", "r.csv", "--threshold", "half"), "--threshold"),
        (("check", "r.csv", "--scale", "graded"), "--order"),
        (("check", "r.csv", "--duplicates", "average"), "--duplicates"),
        (("check", "r.csv", "--items-in", "cells"), "--items-in"),
        (("rank", "r.csv", "--chains", "1"), "--chains"),
        (("rank", "r.csv", "--draws", "0"), "--draws"),
        (("rank", "r.csv", "--target-accept", "1"), "--target-accept"),
        (("rank", "r.csv", "--slopes", "steep"), "--slopes"),
    ],
)
def test_a_bad_option_is_a_usage_error(cli, arguments, said):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Usage: " in err
    assert "Traceback" not in err


def test_disconnected_groups_are_checked_but_not_ranked(cli, tmp_path):
    (tmp_path / "r.csv").write_text(TWO_GROUPS)
    code, out, _ = cli("check", tmp_path / "r.csv")
    assert code == 0
    assert "2 groups have no response in common" in " ".join(out.split())
    refusal = sentence(cli("rank", tmp_path / "r.csv", "--out", tmp_path / "run"))
    assert "2 groups without any response in common" in refusal
    assert "2 subjects x 2 items with 'a1', 'a2'; 2 subjects x 2 items with 'b1', 'b2'" in refusal
    assert "--per-component" in refusal
    assert not (tmp_path / "run").exists()


def test_judges_and_subjects_that_are_not_connected_are_named(cli, tmp_path):
    rows = [
        f"{judge}{k},q{q},{judge}nn,{(k + q) % 2}\n"
        for judge in "ab" for k in range(6) for q in range(3)
    ]  # fmt: skip
    (tmp_path / "r.csv").write_text("model,item,judge,score\n" + "".join(rows))
    told = ("--facet", "judge")
    refusal = sentence(cli("rank", tmp_path / "r.csv", "--out", tmp_path / "run", *told))
    named = "judge 'ann' for 6 subjects x 3 items with 'a0', 'a1', 'a2', 'a3' and 2 more"
    assert named in refusal
    assert "have one judge score subjects of each on the same questions, or pass" in refusal
    assert f"  {named}" in cli("check", tmp_path / "r.csv", *told).out


def test_one_subject_is_not_called_several(cli, tmp_path):
    (tmp_path / "r.csv").write_text(TWO_GROUPS + "c,q9,1\n")
    refusal = sentence(cli("rank", tmp_path / "r.csv", "--out", tmp_path / "run"))
    assert "1 subject x 1 item with 'c'" in refusal
    assert "  1 subject x 1 item with 'c'" in cli("check", tmp_path / "r.csv").out


def test_groups_too_small_to_rank_are_refused(cli, tmp_path):
    (tmp_path / "r.csv").write_text(HEAD + "a,q1,1\nb,q2,0\n")
    refusal = cli("rank", tmp_path / "r.csv", "--out", tmp_path / "run", "--per-component")
    assert "no group has two subjects and two items" in sentence(refusal)
    assert not (tmp_path / "run").exists()


# For each output folder: the files in it, --out, further options, and words of the message.
# `test_paths.py` covers output paths that are not folders.
TAKEN = {
    "foreign files, --overwrite": (["run/thesis.tex"], "run", ("--overwrite",), "are not a run"),
    "a run": (["run/run.json"], "run", (), "already holds a run; pass --overwrite"),
    "runs of groups": (["run/group_1/run.json"], "run", (), "already holds a run"),
    "a run and a foreign file": (
        ["run/run.json", "run/notes.md"],
        "run",
        ("--overwrite",),
        "'notes.md' beside a run",
    ),
    "a group and a foreign file": (
        ["run/group_1/run.json", "run/group_1/notes.md"],
        "run",
        ("--overwrite",),
        "'notes.md' beside a run",
    ),
    "a project with a run below it": (
        ["work/thesis.tex", "work/run/run.json"],
        "work",
        ("--overwrite",),
        "that are not a run",
    ),
}


@pytest.mark.parametrize(("files", "out", "options", "said"), TAKEN.values(), ids=TAKEN)
def test_what_stands_at_the_output_stays(cli, tmp_path, files, out, options, said):
    results = tmp_path / "good.csv"
    results.write_text(GOOD)
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert said in sentence(cli("rank", results, "--out", tmp_path / out, *options))
    assert sorted(tmp_path.rglob("*")) == before
    assert all((tmp_path / name).read_text() == "mine" for name in files)


# For each folder to compare: its files, and words of the message.
NO_RUN = {
    "nothing": ({}, "holds no run; make one with bayesirt rank --out"),
    "groups": ({"group_1/run.json": "{}"}, "name one of its groups, such as"),
    "an empty record": ({"run.json": ""}, "is damaged"),
    "a record of nothing": ({"run.json": "null"}, "is damaged"),
    "a record of something else": ({"run.json": '{"settings": {}}'}, "is damaged"),
    "junk": ({"run.json": "\0"}, "is damaged"),
}


@pytest.mark.parametrize(("files", "said"), NO_RUN.values(), ids=NO_RUN)
def test_compare_wants_a_run(cli, tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text(text)
    assert said in sentence(cli("compare", tmp_path / "run"))


@pytest.mark.parametrize("size", ["12", "12x", "12x1", "axb", "12x8x4", "-3x4"])
def test_study_wants_sizes_it_can_simulate(cli, tmp_path, size):
    done = cli("study", "calibration", f"--size={size}", "--out", tmp_path / "study")
    assert f"a size is subjects x items, such as 20x15, got {size!r}" in sentence(done)
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_study_in_a_folder_of_another_is_refused(cli, tmp_path):
    small = ("study", "calibration", "--engine", "laplace", "--size", "12x8", "-q")
    assert cli(*small, "--replications", "2", "--out", tmp_path / "study")[0] == 0
    before = {f: f.read_bytes() for f in (tmp_path / "study").iterdir()}
    assert before
    said = sentence(cli(*small, "--seed", "5", "--out", tmp_path / "study"))
    assert "study" in said
    assert {f: f.read_bytes() for f in (tmp_path / "study").iterdir()} == before

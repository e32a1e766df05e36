"""Files with strange names are read and written; impossible paths are refused."""

import os
from pathlib import Path

import pytest
from cli.test_bad_input import GOOD, sentence

from bayesirt.data.readers import read_responses

NAMES = {
    "spaces": " a b \t",
    "a newline": "a\nb",
    "a dash before": "-x",
    "two dashes before": "--metric",
    "no UTF-8": os.fsdecode(b"\xff"),
    "a formula": "=1+1",
    "markup and wildcards": "[red]*?{0}%s$HOME~",
    "another direction": "\u202ecsv",
    "as long as may be": "n" * 247,
}
LONG = "n" * 300
# For each output path: words of the messages of convert and of rank.
TAKEN = {
    "below a file": ("r.csv/x", "no folder that exists", "lies below a file"),
    "below a link to itself": ("round/x", "no folder that exists", "lies below a file"),
    "a name that is too long": (LONG, "File name too long", "File name too long"),
    "a folder": ("folder", "is a folder; name a file", "files that are not a run"),
    "a file": ("taken", "already exists", "is a file; name a folder"),
    "a pipe": ("pipe", "already exists", "is a file; name a folder"),
    "a link to itself": ("round", "already exists", "is a file; name a folder"),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_is_read_and_written(cli, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.csv").write_text(GOOD)
    assert "this can be ranked" in cli("check", "--", f"{name}.csv").words
    assert cli("convert", "-q", "--", f"{name}.csv", f"{name}.parquet") == (0, "", "")
    assert read_responses(Path(f"{name}.parquet")).n_observed == 4
    assert len(list(tmp_path.iterdir())) == 2


@pytest.fixture
def places(tmp_path: Path) -> Path:
    (tmp_path / "r.csv").write_text(GOOD)
    for ending in ("", ".parquet"):
        (tmp_path / f"folder{ending}").mkdir()
        (tmp_path / f"folder{ending}" / "mine").touch()
        (tmp_path / f"taken{ending}").touch()
        (tmp_path / f"round{ending}").symlink_to(f"round{ending}")
        os.mkfifo(tmp_path / f"pipe{ending}")
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(("place", "of_convert", "of_rank"), TAKEN.values(), ids=TAKEN)
def test_a_place_that_cannot_be_written_is_one_sentence_before_any_work(
    cli, places, monkeypatch, place, of_convert, of_rank
):
    monkeypatch.setattr("bayesirt.ranking.run.rank_responses", pytest.fail)
    before = sorted(places.rglob("*"))
    results = places / "r.csv"
    assert of_convert in sentence(cli("convert", results, places / f"{place}.parquet"))
    assert of_rank in sentence(cli("rank", results, "--out", places / place))
    assert sorted(places.rglob("*")) == before

"""Rankings by topic on the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Cli

RIGHT = np.random.default_rng(0).logistic(size=(30, 40)) < np.linspace(-1, 1, 30)[:, None]
ROWS = [
    (f"m{i}", f"q{j}", "law" if j < 20 else "verse", int(right))
    for (i, j), right in np.ndenumerate(RIGHT)
]


FAST = ("--engine", "laplace", "--draws", "20", "--chains", "2", "--no-check-fit")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    frame = pd.DataFrame(ROWS, columns=["model", "item", "topic", "score"])
    frame.to_csv(path := tmp_path / "r.csv", index=False)
    return path


def test_each_topic_has_a_ranking(cli: Cli, results: Path, tmp_path: Path):
    out = tmp_path / "run"
    shown = cli("rank", results, "--by", "topic", "--out", out, *FAST)
    assert shown.code == 0, shown.err
    assert "topic 2 of 2, verse" in shown.err
    assert {*pd.read_csv(out / "ranking_by_topic.csv")["topic"]} == {"law", "verse"}
    assert 'id="topics"' in (out / "report.html").read_text("utf-8")
    again = cli("rank", results, "--by", "topic", "--out", out, "--update", "--json", *FAST)
    assert again.code == 0, again.err
    assert json.loads(again.out)["topics"]["by"] == "topic"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "topics"), "did you mean `topic`?"),
        (("--by", "model"), "--by 'model' is the column of the subject; name one that describes"),
        (("--by", "topic", "--per-component"), "leave out --per-component"),
    ],
)
def test_bad_options_are_refused(
    cli: Cli, results: Path, tmp_path: Path, options: tuple[str, ...], said: str
):
    shown = cli("rank", results, *options, "--out", tmp_path / "run")
    assert shown.code == 2
    assert said in shown.err

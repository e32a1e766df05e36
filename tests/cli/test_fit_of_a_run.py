"""`fit-check`, `rank` and `review` report and plot what does not fit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from chromium import opened, serious_violations, unfold
from cli.conftest import Cli
from cli.test_bad_input import sentence
from quick_commands import write_inputs

from bayesirt.ranking.run_folder import load_run

if TYPE_CHECKING:
    from selenium import webdriver

DRAWN = True
FAST = ("--engine", "laplace", "--draws", "20", "--chains", "2")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write results in which one item is a copy of another and one is mis-keyed."""
    path = write_inputs(tmp_path_factory.mktemp("fit") / "inputs", 40) / "r.csv"
    rows = pd.read_csv(path)
    total = rows.groupby("model")["score"].mean()
    with_total = rows.assign(total=rows["model"].map(total)).groupby("item")
    sharpest = with_total.apply(lambda own: own["score"].corr(own["total"])).idxmax()
    turned = rows[rows["item"] == sharpest]
    rows.loc[turned.index, "score"] = 1 - turned["score"]
    rows.loc[turned.index, "item"] = "turned"
    copy = rows[rows["item"] == "q20"].assign(item="copy")
    pd.concat([rows, copy]).to_csv(path, index=False)
    return path


@pytest.fixture
def run(cli: Cli, results: Path) -> Path:
    out = results.parent / "run"
    if not out.exists():
        shown = cli("rank", results, "--out", out, *FAST)
        assert shown.code == 0
        assert "One ability explains these answers" in shown.words
    return out


@pytest.mark.slow
def test_the_fit_is_checked_in_words_and_in_json(cli: Cli, run: Path):
    assert load_run(run).record.diagnostics["fit"].startswith("One ability explains these answers")
    said = cli("fit-check", run)
    assert said.code == 0
    assert "2 abilities" in said.out
    told = json.loads(cli("fit-check", run, "--json").out)
    assert [row["model"] for row in told["models"]] == [
        "items alone", "Rasch", "2PL", "2 abilities",
    ]  # fmt: skip
    assert len(told["items"]) == 41
    assert len(told["subjects"]) == 30
    assert told["text"] in said.words
    assert told["text"] == load_run(run).record.diagnostics["fit"]


@pytest.mark.slow
def test_copies_and_wrong_keys_are_listed_with_their_evidence(cli: Cli, run: Path, tmp_path: Path):
    out = tmp_path / "listed.csv"
    said = cli("review", run, "--out", out)
    assert said.code == 0
    assert "look for copies" in said.words
    assert "look at the keys" in said.words
    listed = pd.read_csv(out).set_index("item")
    assert "duplicated" in listed.loc["copy", "reasons"]
    assert "miskeyed" in listed.loc["turned", "reasons"]
    assert listed["evidence"].str.len().min() > 20
    rows = json.loads(cli("review", run, "--json").out)
    assert len(rows) == 41


@pytest.fixture
def page(run: Path, tmp_path: Path) -> "Iterator[webdriver.Chrome]":
    yield from opened((run / "report.html").read_text("utf-8"), tmp_path)


@pytest.mark.slow
def test_the_report_shows_the_fit(page: "webdriver.Chrome"):
    unfold(page)
    section = page.find_element("id", "fit")
    assert section.text == "Does one ability explain these answers?"
    assert len(page.find_elements("css selector", "figure svg")) == 9
    links = page.find_elements("css selector", "nav a")
    titles = [h.get_attribute("id") for h in page.find_elements("css selector", "h2")]
    assert [a.get_attribute("href").split("#")[1] for a in links] == titles
    assert serious_violations(page) == []


@pytest.mark.slow
def test_what_cannot_be_checked_is_said_and_nothing_is_lost(cli: Cli, tmp_path: Path):
    rows = [f"m{i},q{j},{(i * (j + 2)) % 3 > 0:d}\n" for i in range(12) for j in range(2)]
    (tmp_path / "r.csv").write_text("model,item,score\n" + "".join(rows))
    out = tmp_path / "run"
    command = ("--engine", "nuts", "--warmup", "20", "--draws", "20", "--chains", "2")
    shown = cli("rank", tmp_path / "r.csv", "--out", out, *command)
    assert shown.code == 0
    assert "The fit was not checked: a check of fit needs 3 items or more" in shown.words
    assert (out / "report.html").exists()
    assert "needs 3 items or more" in sentence(cli("fit-check", out))

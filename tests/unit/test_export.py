"""Exported rankings contain the same numbers, and names as plain text."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.score_order import led_by_score
from bayesirt.report.export import ranking_as_json, ranking_as_latex, ranking_as_markdown
from bayesirt.report.html import render_report
from bayesirt.report.terminal import print_run

HOSTILE = "a|b_c*d <img src=x> $x$ \\input{y} 50% & #1 ~\n| c |"


@pytest.fixture
def run(small_run: Run) -> Run:
    summary = small_run.ranking.summary.copy()
    summary.loc[0, "subject"] = HOSTILE
    return replace(small_run, ranking=replace(small_run.ranking, summary=summary))


def test_markdown_has_a_row_a_subject_and_escapes_names(run):
    text = ranking_as_markdown(run)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(run.ranking.summary)
    bars = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert set(bars) == {7}
    assert "<img" not in text.replace("\\<", "")
    best = run.ranking.summary.iloc[1]
    assert f"| {best['rank']} ({best['rank_low']} to {best['rank_high']}) |" in rows[3]
    sound = replace(run, ranking=replace(run.ranking, sound=True, warnings=()))
    assert ranking_as_markdown(sound).endswith(f"{run.posterior.verdict.to_text()}\n")


def test_warnings_come_first_and_their_names_are_escaped(run):
    warned = replace(run.ranking, sound=False, warnings=(f"Void: {HOSTILE}",))
    void = replace(run, ranking=warned)
    assert ranking_as_markdown(void).startswith("**Void: a\\|b\\_c\\*d \\<img src=x\\>")
    caption = re.search(r"\\caption\{(.*)", ranking_as_latex(void))
    assert caption
    assert caption[1].startswith(r"Void: a|b\_c*d <img src=x> \$x\$ \textbackslash{}input\{y\}")


def test_accuracies_lead_where_they_must(run):
    ranks = {"score_rank": range(30, 0, -1), "score_rank_low": 1, "score_rank_high": 30}
    ranking = replace(run.ranking, summary=run.ranking.summary.assign(**ranks))
    led = replace(run, ranking=led_by_score(ranking, "No."))
    rows = [line for line in ranking_as_markdown(led).splitlines() if line.startswith("|")]
    assert "By ability" in rows[0]
    assert "P(best)" not in rows[0]
    assert rows[2].startswith("| 1 (1 to 30) |")
    assert run.ranking.summary["subject"].iloc[-1] in rows[2]


def test_latex_escapes_names(run):
    text = ranking_as_latex(run)
    row = next(line for line in text.splitlines() if "img" in line)
    for harmless in (r"\_", r"\$", r"\%", r"\&", r"\#", r"\textbackslash", r"\{y\}"):
        assert harmless in row
    assert len(re.findall(r"(?<!\\)&", row)) == 5
    assert r"90\% intervals" in text
    assert text.count(r"\\") == 1 + len(run.ranking.summary)


def test_json_is_of_the_schema(run):
    told = json.loads(json.dumps(ranking_as_json(run), allow_nan=False))
    assert list(told) == ["schema", "verdict", "average", "ranking"]
    assert told["schema"] == 1
    assert set(told["verdict"]) == {"sound", "text"}
    table = pd.DataFrame(told["ranking"])
    assert list(table.columns) == list(run.ranking.summary.columns)
    for column, values in run.ranking.summary.items():
        if values.dtype.kind == "f":
            np.testing.assert_array_equal(table[column], values)


def test_what_is_not_known_is_null(run):
    summary = run.ranking.summary.assign(length=np.nan)
    unknown = replace(run, ranking=replace(run.ranking, summary=summary))
    told = json.dumps(ranking_as_json(unknown), allow_nan=False)
    assert json.loads(told)["ranking"][0]["length"] is None


def test_scores_over_items_like_these_are_told_where_they_were_asked_for(
    small_run, capsys, monkeypatch, tmp_path
):
    columns = {
        "population_score": 0.4567,
        "population_score_low": 0.4,
        "population_score_high": 0.5,
    }
    summary = small_run.ranking.summary.assign(**columns)
    wide = replace(small_run, ranking=replace(small_run.ranking, summary=summary))
    assert "| 45.7 (40.0 to 50.0) |" in ranking_as_markdown(wide)
    page = render_report(wide)
    assert page.count("45.7%") == len(summary)
    assert "Items like these" in page
    monkeypatch.setenv("COLUMNS", "180")
    for told, shown in ((wide, True), (small_run, False)):
        print_run(told, tmp_path)
        assert ("40-50%" in capsys.readouterr().out) == shown


def test_an_anchored_scale_takes_the_place_of_abilities(run):
    summary = run.ranking.summary.assign(scale=131.6, scale_low=120.0, scale_high=140.2)
    scaled = replace(run, ranking=replace(run.ranking, summary=summary))
    text = ranking_as_markdown(scaled)
    assert "| Scale |" in text
    assert "| 132 (120 to 140) |" in text
    assert "Ability" not in text.splitlines()[0]

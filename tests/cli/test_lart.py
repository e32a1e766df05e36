"""`bayesirt rank --model lart` on the command line."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from cli.conftest import Shown, run_command
from lart_data import simulate_lart

from bayesirt.data.responses import Responses
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.length_gain import LengthGain
from bayesirt.ranking.run_folder import load_run
from bayesirt.ranking.score_order import by_ability
from bayesirt.ranking.settings import Settings
from bayesirt.report.html import render_report

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
DRAWN = True
SHORT = ("--warmup", "100", "--draws", "200", "--no-check-fit")
RESPONSES, TRUTH = simulate_lart(60, 20)


class Ranked(NamedTuple):
    results: Path
    out: Path
    shown: Shown


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Ranked:
    """Rank with --wrong-lengths, which draws from plain LaRT as well."""
    folder = tmp_path_factory.mktemp("lart")
    table = RESPONSES.to_long()
    table = table.rename(columns={"latency": "tokens", "successes": "score"})
    table.drop(columns="trials").to_csv(folder / "results.csv", index=False)
    options = ("--model", "lart", "--wrong-lengths", *SHORT, "--out", folder / "run")
    with redirect_stdout(io.StringIO()) as said:
        code = run_command("rank", folder / "results.csv", *options)
    shown = Shown(code, said.getvalue(), "")
    return Ranked(folder / "results.csv", folder / "run", shown)


def test_rank_takes_lengths_from_the_file(ranked: Ranked):
    assert ranked.shown.code == 0
    assert "abler subjects take longer" in ranked.shown.words
    run = load_run(ranked.out)
    assert run.gain.to_text() in ranked.shown.words
    ranking = pd.read_csv(ranked.out / "ranking.csv")
    assert (ranking["speed_low"] < ranking["speed"]).all()
    in_order = by_ability(ranking)["subject"]
    assert list(pd.read_csv(ranked.out / "lengths.csv")["subject"]) == list(in_order)
    report = (ranked.out / "report.html").read_text("utf-8")
    assert report == render_report(run)
    assert "Ability and length" in report
    assert "two-parameter probit model" in report


def test_the_run_holds_the_truth_and_says_what_lengths_add(ranked: Ranked):
    """90% intervals of 20 to 60 quantities of each kind; by chance a bound fails once in 10,000."""
    run = load_run(ranked.out)
    assert (run.posterior.subjects, run.posterior.items) == (
        list(RESPONSES.subjects), list(RESPONSES.items),
    )  # fmt: skip
    for name, least in {"theta": 0.73, "tau": 0.73, "a": 0.6, "d": 0.6, "phi": 0.6}.items():
        low, high = np.quantile(run.posterior.draws(name), [0.05, 0.95], axis=0)
        assert np.mean((low <= TRUTH[name]) & (TRUTH[name] <= high)) > least, name
    assert run.posterior.verdict.r_hat < 1.05
    assert dict(run.record.made_by())["Model"].startswith("LaRT: probit")
    assert {"phi_low", "omega", "lam_high"} <= set(run.items)
    gain = run.gain
    assert gain.narrower > 0.02
    assert gain.rho[0] < TRUTH["rho"] < gain.rho[2]
    assert "narrower, and" in gain.to_text()
    table = gain.summary.assign(sd_without=lambda t: t["sd"], rank_without=lambda t: t["rank"])
    text = LengthGain(table, (-0.1, 0.0, 0.1)).to_text()
    assert "the direction is uncertain" in text
    assert text.endswith("hardly narrow the intervals, and 0 of 60 ranks move.")
    assert "abler subjects are quicker" in LengthGain(table, (0.1, 0.2, 0.3)).to_text()


def test_wrong_answers_may_have_lengths_of_their_own(ranked: Ranked):
    run = load_run(ranked.out)
    said = run.wrong.to_text()
    assert said.startswith("Wrong answers are ")
    assert "ELPD" in said
    assert said in ranked.shown.words
    items = pd.read_csv(ranked.out / "items.csv")
    assert (items["delta_low"] < items["delta_high"]).all()
    record = json.loads((ranked.out / "run.json").read_text("utf-8"))
    assert record["settings"]["wrong_lengths"] is True
    assert record["seconds"]["plain LaRT"] > 0
    assert run.posterior.tree.attrs["wrong_lengths"] == 1
    report = (ranked.out / "report.html").read_text("utf-8")
    assert said in report
    assert "different lengths for wrong answers" in report


def test_json_has_the_sentence_on_lengths(cli, ranked: Ranked, monkeypatch, tmp_path):
    asked = []

    def take_stored(responses: Responses, settings: Settings, **options: object) -> Run:
        asked.append((settings, np.isfinite(responses.latency).all()))
        return load_run(ranked.out)

    monkeypatch.setattr("bayesirt.ranking.run.rank_responses", take_stored)
    out = ("--out", tmp_path / "run")
    done = cli("rank", ranked.results, "--model", "lart", "--json", *out, *SHORT)
    assert "Ability and speed correlate at" in json.loads(done.out)["lengths"]
    ((settings, timed),) = asked
    assert (settings.model, settings.wrong_lengths, timed) == ("lart", False, True)

"""Rankings by topic: how topics are read, what is ranked, and who gains or loses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from quick_engine import draw_near

import bayesirt
from bayesirt.data.topics import items_by_topic
from bayesirt.errors import ResponseError
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.kept_topics import load_topics, save_topics
from bayesirt.ranking.topic_rankings import TopicRankings, gains_by_topic
from bayesirt.report.export import ranking_as_json
from bayesirt.report.html import render_report
from bayesirt.report.terminal import print_run
from bayesirt.report.topic_part import topic_part

TOPICS = {"algebra": 22, "law": 20, "verse": 20, "tiny": 3}
N_SUBJECTS = 30
UNTOLD = ("q0", "q1")
QUICK = bayesirt.Settings(draws=500)


def answers() -> pd.DataFrame:
    """Return answers; the first subject is good at law only, the last at everything else."""
    rng, n_subjects = np.random.default_rng(5), N_SUBJECTS
    rows, item = [], 0
    for topic, n_items in TOPICS.items():
        theta = np.linspace(1.2, -1.2, n_subjects)
        if topic != "law":
            theta[[0, -1]] = -2.5, 2.5
        for difficulty in rng.normal(size=n_items):
            right = rng.logistic(size=n_subjects) < 1.5 * theta - difficulty
            rows += [(f"m{i}", f"q{item}", topic, int(right[i])) for i in range(n_subjects)]
            item += 1
    return pd.DataFrame(rows, columns=["model", "item", "area", "score"])


@pytest.fixture(scope="module")
def run() -> Run:
    """Return a ranking by topic of 20 items (the shape of `small`), two without a topic."""
    frame = answers()
    frame.loc[frame["item"].isin(UNTOLD), "area"] = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesirt.ranking.run.sample_posterior", draw_near)
        return bayesirt.rank(frame, QUICK, by="area", check_fit=False)


def test_each_topic_is_ranked_by_its_own_items(run: Run):
    topics = run.topics
    assert topics is not None
    assert list(topics.rankings) == ["algebra", "law", "verse"]
    frame = answers()
    frame = frame[~frame["item"].isin(UNTOLD)]
    shares = frame.groupby(["area", "model"])["score"].mean()
    for topic, ranking in topics.rankings.items():
        own = ranking.summary.set_index("subject")["accuracy"]
        pd.testing.assert_series_equal(
            own.sort_index(), shares[topic].sort_index(), check_names=False
        )
    assert "tiny is not ranked: it has 3 items, but 5 are needed." in topics.to_text()
    assert topics.n_items["algebra"] == 20
    assert "2 items without a topic" in topics.to_text()


def test_who_gains_and_who_loses_is_named(run: Run):
    topics = run.topics
    assert topics is not None
    assert topics.named("law", "gains")[0] == "m0"
    assert topics.named("law", "loses")[0] == "m29"
    assert "m0 gains in law: rank " in topics.to_text()
    assert len(topics.table) == 3 * N_SUBJECTS


def test_report_terminal_and_json_tell_topics(run: Run, capsys: pytest.CaptureFixture[str]):
    page = render_report(run)
    assert page.count('aria-label="Ranking in ') == 3
    assert "Against other topics" in page
    print_run(run, Path("run"))
    shown = capsys.readouterr().out
    assert "m0 gains in law" in " ".join(shown.split())
    found = ranking_as_json(run)["topics"]
    assert {row["topic"] for row in found["ranking"]} == {"algebra", "law", "verse"}


def test_the_run_keeps_topics_and_is_read_again(run: Run, tmp_path: Path):
    bayesirt.save_run(run, tmp_path / "run")
    table = pd.read_csv(tmp_path / "run" / "ranking_by_topic.csv")
    assert list(table.columns[:2]) == ["topic", "subject"]
    again = bayesirt.open_run(tmp_path / "run")
    assert again.record.diagnostics["topics"] == again.topics.to_text() == run.topics.to_text()
    pd.testing.assert_frame_equal(again.topics.table, run.topics.table, check_exact=True)
    assert topic_part(again.topics) == topic_part(run.topics)
    law, was = again.topics.rankings["law"], run.topics.rankings["law"]
    pd.testing.assert_frame_equal(law.pairwise, was.pairwise)
    np.testing.assert_array_equal(law.rank_probabilities, was.rank_probabilities)
    assert law.average == was.average
    bayesirt.save_run(again, tmp_path / "run", overwrite=True)


@pytest.mark.parametrize("kept", [slice(200), slice(0), slice(300, None)])
def test_a_damaged_file_of_topics_is_refused(run: Run, tmp_path: Path, kept: slice):
    bayesirt.save_run(run, tmp_path / "run")
    file = tmp_path / "run" / "topics.npz"
    file.write_bytes(file.read_bytes()[kept])
    with pytest.raises(ResponseError, match="is damaged"):
        bayesirt.open_run(tmp_path / "run")


def test_topics_of_which_no_gain_is_told_are_read_again(run: Run, tmp_path: Path):
    scale = bayesirt.Scale("graded", ("low", "middle", "high"))
    law = replace(run.topics.rankings["law"], sound=False, warnings=("No.",), answers=scale)
    none = run.topics.gains.head(0)
    one = TopicRankings("area", {"law/\x07 \u03b8": law}, {"law/\x07 \u03b8": 20}, none)
    save_topics(one, tmp_path / "topics.npz")
    again = load_topics(tmp_path / "topics.npz")
    assert again.to_text() == one.to_text()
    assert again.notes == ()
    assert list(again.gains) == list(none)
    kept = again.rankings["law/\x07 \u03b8"]
    assert (kept.sound, kept.warnings, kept.answers) == (False, ("No.",), scale)


def test_gains_are_differences_of_standardised_abilities():
    rng = np.random.default_rng(0)
    names = [f"m{k:02d}" for k in range(12)]
    theta = {topic: rng.normal(size=(400, 12)) for topic in "xyz"}
    gains = gains_by_topic(theta, dict.fromkeys("xyz", names))
    z = {t: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) for t, x in theta.items()}
    expected = (z["x"] - (z["y"] + z["z"]) / 2).mean(0)
    found = gains[gains["topic"] == "x"].set_index("subject").loc[names, "gain"]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert (gains["certain"] == "").all()


def test_of_two_topics_each_gain_is_told_once():
    rng, names = np.random.default_rng(0), [f"m{k:02d}" for k in range(12)]
    theta = {topic: 0.1 * rng.normal(size=(400, 12)) for topic in ("law", "verse")}
    theta["law"][:, 3] += 3
    gains = gains_by_topic(theta, dict.fromkeys(theta, names))
    assert set(gains.loc[gains["certain"] != "", "topic"]) == {"law", "verse"}
    said = TopicRankings("topic", {}, {}, gains).to_text()
    assert said.count("m03") == 1
    assert "m03 gains in law" in said
    assert "loses" not in said


def test_only_subjects_of_every_topic_are_compared():
    draws = np.random.default_rng(0).normal(size=(50, 3))
    gains = gains_by_topic({"x": draws, "y": draws}, {"x": ["a", "b", "c"], "y": ["b", "d", "c"]})
    assert set(gains["subject"]) == {"b", "c"}
    none = gains_by_topic({"x": draws[:, :1], "y": draws[:, :1]}, {"x": ["a"], "y": ["b"]})
    assert none.empty


def test_topics_come_from_a_column_or_a_file(tmp_path: Path):
    frame = answers()
    column = bayesirt.read_responses(frame, by="area")
    sizes = {topic: len(items) for topic, items in items_by_topic(column, "area").items()}
    assert sizes == TOPICS
    wide = frame.pivot(index="model", columns="item", values="score")
    told = frame[["item", "area"]].drop_duplicates().rename(columns={"area": "topic"})
    told.head(47).to_csv(path := tmp_path / "topics.csv", index=False)
    of_file = bayesirt.read_responses(wide, by=str(path))
    sizes = {topic: len(items) for topic, items in items_by_topic(of_file, "topic").items()}
    assert sizes == {"algebra": 22, "law": 20, "verse": 5}
    frame.to_parquet(parquet := tmp_path / "r.parquet")
    streamed = bayesirt.read_responses(parquet, by="area")
    assert {*items_by_topic(streamed, "area")} == {*TOPICS}


def _one_topic(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(area="law")


@pytest.mark.parametrize(
    ("by", "change", "said"),
    [
        ("aera", None, "no column `aera`; did you mean `area`?"),
        ("score", None, "is the column of the score"),
        ("model", None, "is the column of the subject"),
        ("area", _one_topic, "`area` holds only the topic 'law'"),
        ("area", lambda x: x.assign(area=None), "`area` holds no topic"),
        ("area", lambda x: x.assign(area=x["model"]), "`area` differs between the rows of item"),
        (
            "area",
            lambda x: x.assign(area=x["item"]),
            "no topic can be ranked by itself; q9 is not ranked: it has 1 item, but 5 are needed",
        ),
    ],
)
def test_what_cannot_be_ranked_by_is_refused(
    by: str, change: Any, said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bayesirt.ranking.run.sample_posterior", draw_near)
    frame = answers()
    with pytest.raises(ResponseError) as refused:
        bayesirt.rank(frame if change is None else change(frame), by=by, check_fit=False)
    assert said in str(refused.value)


def test_responses_that_tell_no_topic_are_refused(small: bayesirt.Responses):
    with pytest.raises(ResponseError, match="name a column of a long table, or a file"):
        bayesirt.rank(small, by="topic")
    frame = answers().rename(columns={"area": "topic"})
    told = bayesirt.Responses.from_long(frame, subject="model", item_metadata=["topic"])
    with pytest.raises(ResponseError, match="did you mean 'topic'"):
        bayesirt.rank(told, by="topics")


def test_a_file_of_topics_must_fit(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("item,topic\nnobody,law\n")
    with pytest.raises(ResponseError, match="names no item of the results"):
        bayesirt.read_responses(answers(), by=str(path))
    path.write_text("question,topic\nq0,law\n")
    with pytest.raises(ResponseError, match="must have the columns `item` and `topic`"):
        bayesirt.read_responses(answers(), by=str(path))


@pytest.mark.slow
def test_intervals_hold_where_abilities_differ_by_topic():
    """Intervals of gains in 3 topics x 40 subjects cover 90%, within 6 standard errors."""
    rng = np.random.default_rng(7)
    theta = np.sqrt(0.7) * rng.normal(size=(40, 1)) + np.sqrt(0.3) * rng.normal(size=(40, 3))
    rows = []
    for k in range(3):
        d = rng.normal(size=25)
        right = rng.logistic(size=(40, 25)) < theta[:, [k]] + d
        rows += [(f"m{i:02d}", f"{k}/{j}", f"t{k}", int(x)) for (i, j), x in np.ndenumerate(right)]
    frame = pd.DataFrame(rows, columns=["model", "item", "topic", "score"])
    settings = bayesirt.Settings(engine="laplace", draws=250)
    run = bayesirt.rank(frame, settings, by="topic", check_fit=False)
    z = (theta - theta.mean(0)) / theta.std(0)
    held = []
    for k in range(3):
        gains = run.topics.gains[run.topics.gains["topic"] == f"t{k}"].sort_values("subject")
        true = z[:, k] - np.delete(z, k, 1).mean(1)
        held += [*((gains["gain_low"] <= true) & (true <= gains["gain_high"]))]
        wrong = (gains["certain"] != "") & (np.sign(gains["gain"]) != np.sign(true))
        assert not wrong.any()
    assert np.mean(held) > 0.9 - 6 * np.sqrt(0.9 * 0.1 / len(held))

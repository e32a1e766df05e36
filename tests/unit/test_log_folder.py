"""Folders of logs: found and ignored files are reported, and nothing is merged silently."""

import math
import os
from pathlib import Path
from typing import Any

import harness_data as data
import numpy as np
import pytest

from bayesirt.data.readers import read_responses
from bayesirt.data.readers.choices import Choices, OpenChoiceError, refuse_open
from bayesirt.data.readers.found_logs import FoundLogs, LeftOut
from bayesirt.data.readers.log_folder import read_log_folder, read_log_runs
from bayesirt.data.readers.reading import Reading
from bayesirt.data.scales import Scale
from bayesirt.errors import ResponseError

LATER = "2026-11-22T10-58-10.577750"


def two_models(root: Path, **other: Any) -> Path:
    """Write logs of two models, with answers [1, 0] and [0, 1]."""
    for model, right in (("a/x", (1, 0)), ("b/y", (0, 1))):
        data.lm_eval(root, model, [data.lm_eval_row(k, s, **other) for k, s in enumerate(right)])
    return root


def two_evals(root: Path, *more: tuple[str, str, list[dict[str, Any]]]) -> Path:
    for name, model, samples in (
        ("1", "a", [data.sample("p", "C"), data.sample("q", "I")]),
        ("2", "b", [data.sample("p", "I"), data.sample("q", "C")]),
        *more,
    ):
        data.inspect_eval(root / f"{name}.eval", samples, data.inspect_header(model))
    return root


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(ResponseError) as error:
        read_log_folder(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def cells(path: Path, **options: Any) -> dict[tuple[str, str], tuple[int, int]]:
    table = read_log_folder(path, **options)[0].to_long()
    return {(r.subject, r.item): (r.successes, r.trials) for r in table.itertuples()}


def test_items_are_named_by_benchmark_and_describe_it(tmp_path):
    for task in ("one", "two"):
        for model, right in (("a", 1), ("b", 0)):
            data.lm_eval(tmp_path, model, [data.lm_eval_row(0, right, doc_hash=task)], task=task)
    responses, found = read_log_folder(tmp_path)
    assert responses.items == ("one/0", "two/0")
    assert responses.item_metadata["benchmark"].tolist() == ["one", "two"]
    assert found.summary.to_dict("records")[0] == {
        "benchmark": "one", "harness": "lm-eval", "metric": "acc", "filter": "none",
        "subjects": 2, "items": 1, "answers": 2, "files": 2,
    }  # fmt: skip


def test_a_folder_and_a_single_log_are_results(tmp_path):
    responses = read_responses(two_models(tmp_path))
    assert responses.subjects == ("a/x", "b/y")
    assert responses.cells.matrices()[0].tolist() == [[1, 0], [0, 1]]
    rows = [data.eee_row(i, float(i == m), model_id=m) for m in "pq" for i in "pq"]
    assert read_responses(data.eee(tmp_path / "single", rows)).subjects == ("p", "q")


def test_what_is_no_log_is_left_out_and_said(tmp_path):
    two_models(tmp_path / "logs")
    (tmp_path / "logs" / "notes.txt").write_text("fine")
    (tmp_path / "logs" / "table.csv").write_text("model,item,score\n")
    data.write_json(tmp_path / "logs" / "other.json", {"a": 1})
    data.write_json(tmp_path / "logs" / "c" / f"results_{LATER}.json", {"model_name": "c"})
    data.write_json(tmp_path / "logs" / ".git" / "config.json", {})
    data.lm_eval(tmp_path / "logs", "d", [data.lm_eval_row(0, math.nan), data.lm_eval_row(1, 1)])
    _, found = read_log_folder(tmp_path / "logs")
    assert {(entry.what, entry.number, entry.why) for entry in found.left_out} == {
        ("notes.txt", 1, "not a log of a known harness"),
        ("other.json", 1, "not a log of a known harness"),
        ("table.csv", 1, "a table; read it separately"),
        (f"c/results_{LATER}.json", 1, "totals without answers; run lm-eval with --log_samples"),
        ("arc", 1, "no score"),
    }
    text = found.to_text()
    assert "arc (lm-eval, metric acc): 3 subjects x 2 items, 5 answers in 3 files" in text
    assert "2 files: not a log of a known harness (notes.txt, other.json)" in text
    assert "1 answer: no score (arc)" in text
    assert found.as_json()["left out"][0]["kind"] == "file"


def test_links_are_not_followed_out_of_the_folder(tmp_path):
    two_models(tmp_path / "logs")
    two_models(tmp_path / "secret" / "x", filter="secret")
    (tmp_path / "logs" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "logs" / "round").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "nowhere.json").symlink_to(tmp_path / "missing")
    target = next((tmp_path / "secret").rglob("samples_*.jsonl"))
    (tmp_path / "logs" / target.name).symlink_to(target)
    responses, found = read_log_folder(tmp_path / "logs")
    assert responses.n_observed == 4
    left = {entry.what for entry in found.left_out}
    assert left == {"out", "round", "nowhere.json", target.name}
    assert all("a link" in entry.why for entry in found.left_out)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_folders_called_like_logs_are_not_opened(tmp_path):
    two_models(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.eval").mkdir()
    _, found = read_log_folder(tmp_path)
    assert [(e.what, e.why) for e in found.left_out] == [("pipe.json", "not a regular file")]


def test_a_damaged_log_is_refused_or_skipped_and_said(tmp_path):
    two_models(tmp_path)
    (tmp_path / "a__x" / "more.eval").write_bytes(b"PK")
    assert refused(tmp_path).startswith("a__x/more.eval: it is not a whole .eval archive")
    responses, found = read_log_folder(tmp_path, skip_damaged=True)
    assert responses.n_observed == 4
    assert found.left_out[0].what == "a__x/more.eval"
    assert found.left_out[0].why.startswith("damaged: it is not a whole .eval archive")


@pytest.mark.parametrize("locked", ["locked", "locked/x.json"])
def test_what_must_not_be_read_is_refused_or_skipped(tmp_path, monkeypatch, locked):
    two_models(tmp_path)
    data.write_json(tmp_path / "locked" / "x.json", {})
    scandir, opened = os.scandir, Path.open

    def check(path: Any) -> Any:
        if Path(path) == tmp_path / locked:
            raise PermissionError(13, "Permission denied", str(path))
        return path

    monkeypatch.setattr(os, "scandir", lambda path: scandir(check(path)))
    monkeypatch.setattr(Path, "open", lambda path, *how, **more: opened(check(path), *how, **more))
    assert refused(tmp_path) == (
        f"{locked}: it cannot be read (Permission denied); check the file and its permissions"
    )
    _, found = read_log_folder(tmp_path, skip_damaged=True)
    assert found.left_out[0].what == locked


def test_copies_count_once_and_are_said(tmp_path):
    once = two_models(tmp_path / "once")
    twice = two_models(tmp_path / "twice")
    for path in twice.rglob("samples_*.jsonl"):
        path.write_text(path.read_text() * 2)
    assert cells(twice) == cells(once)
    _, found = read_log_folder(twice)
    assert found.notes == ("repeated answers that agree with the first and count only once: 4",)
    assert set(cells(twice, duplicates="trials").values()) == {(2, 2), (0, 2)}


def test_a_copy_may_tell_the_length_that_another_does_not(tmp_path):
    rows = [data.eee_row("p", 1.0, model_id=m, token_usage=u)
            for m in "ab" for u in (None, {"output_tokens": 7})]  # fmt: skip
    rows += [data.eee_row("q", 0.0, model_id=m, token_usage=None) for m in "ab"]
    responses, _ = read_log_folder(data.eee(tmp_path, rows))
    np.testing.assert_array_equal(responses.latency, [7, np.nan, 7, np.nan])


@pytest.mark.parametrize(
    ("rule", "kept"), [("first", (1, 1)), ("last", (0, 1)), ("trials", (1, 2))]
)
def test_runs_that_contradict_each_other_are_refused_unless_told(tmp_path, rule, kept):
    two_models(tmp_path)
    data.lm_eval(tmp_path, "a/x", [data.lm_eval_row(0, 0)], date=LATER)
    sentence = refused(tmp_path)
    assert "(pairs of subject and item: 1), first at subject 'a/x', item 'arc/0': " in sentence
    assert f"1 of 1 in a__x/samples_arc_{data.DATE}.jsonl" in sentence
    assert f"0 of 1 in a__x/samples_arc_{LATER}.jsonl" in sentence
    assert "pass --duplicates first, last or trials" in sentence
    assert cells(tmp_path, duplicates=rule)["a/x", "arc/0"] == kept


def test_runs_of_other_lengths_are_other_runs(tmp_path):
    longer = data.sample("p", "C", model_usage={"a": {"output_tokens": 99}})
    shorter = data.sample("p", "C", model_usage={"a": {"output_tokens": 98}})
    two_evals(tmp_path, ("3", "a", [longer]), ("4", "a", [shorter]))
    assert "1 of 1, length 99 in 3.eval and 1 of 1, length 98 in 4.eval" in refused(tmp_path)


def test_epochs_stay_with_their_run(tmp_path):
    again = [data.sample("p", v, epoch=e) for e, v in ((1, "I"), (2, "I"), (3, "C"))]
    two_evals(tmp_path, ("3", "a", again))
    for rule, kept in (("first", (1, 1)), ("last", (1, 3)), ("trials", (2, 4))):
        assert cells(tmp_path, duplicates=rule)["a", "mul/p"] == kept


def test_an_unknown_rule_is_refused(tmp_path):
    assert "`duplicates` must be one of error" in refused(two_models(tmp_path), duplicates="mean")


def test_fractions_of_one_answer_need_a_threshold_that_names_the_benchmark(tmp_path):
    two_evals(tmp_path, ("3", "c", [data.sample("p", "P"), data.sample("p", "C", epoch=2)]))
    sentence = refused(tmp_path)
    assert "got 0.5 at subject 'c', item 'mul/p' of benchmark 'mul'" in sentence
    assert "pass --threshold to binarise" in sentence
    assert cells(tmp_path, threshold=0.5)["c", "mul/p"] == (2, 2)
    assert cells(tmp_path, threshold=0.6)["c", "mul/p"] == (1, 2)


def test_items_whose_texts_differ_are_not_merged(tmp_path):
    two_models(tmp_path)
    data.lm_eval(tmp_path, "c", [data.lm_eval_row(0, 1, doc_hash="other")])
    sentence = refused(tmp_path)
    assert "arc/0 has different texts in a__x/samples_arc" in sentence
    assert "and c/samples_arc" in sentence


def test_benchmarks_that_two_harnesses_share_stay_apart(tmp_path):
    two_models(tmp_path / "lm")
    for model in ("a", "b"):
        data.opencompass(tmp_path, model, {"0": {"correct": model == "a"}}, dataset="arc")
    responses, found = read_log_folder(tmp_path)
    assert set(responses.item_metadata["benchmark"]) == {"arc (lm-eval)", "arc (OpenCompass)"}
    assert found.notes == ("several harnesses have arc: their items are kept apart",)


def test_a_benchmark_is_scored_by_one_metric(tmp_path):
    two_models(tmp_path)
    data.lm_eval(tmp_path, "c", [data.lm_eval_row(0, 1, metrics=["em"], em=1)])
    sentence = refused(tmp_path)
    assert sentence.startswith("arc is scored by the metric 'acc' in a__x/samples_arc_")
    assert "and by 'em' in c/samples_arc_" in sentence


def test_open_choices_are_told_together(tmp_path):
    for task in ("one", "two"):
        two = {"metrics": ["acc", "norm"], "norm": 1}
        data.lm_eval(tmp_path, "a", [data.lm_eval_row(0, 1, **two)], task=task)
    two_evals(tmp_path, ("3", "c", [data.sample("p", "C", filter="x")]))
    sentence = refused(tmp_path)
    assert sentence == (
        "one and 1 more offer the metrics `acc`, `norm`: choose with --metric NAME, or --metric "
        "'one=NAME' for one benchmark"
    )


def test_choices_hold_for_all_benchmarks_or_for_one(tmp_path):
    for model, right in (("a", 1), ("b", 0)):
        for task in ("one", "two"):
            row = data.lm_eval_row(0, right, metrics=["acc", "norm"], norm=1 - right)
            data.lm_eval(tmp_path, model, [row], task=task)
    assert cells(tmp_path, metric=["acc", "two=norm"]) == {
        ("a", "one/0"): (1, 1), ("a", "two/0"): (0, 1),
        ("b", "one/0"): (0, 1), ("b", "two/0"): (1, 1),
    }  # fmt: skip
    assert "no benchmark has a metric 'em'; leave out --metric, or choose one of `acc`" in refused(
        tmp_path, metric=["acc", "em"]
    )
    assert "--metric names the unknown benchmark 'three'; the benchmarks are" in refused(
        tmp_path, metric=["acc", "three=norm"]
    )
    assert "two has no metric 'em'; choose one of `acc`, `norm`" in refused(
        tmp_path, metric=["acc", "two=em"], skip_damaged=True
    )
    assert "one and 1 more offer the metrics `acc`, `norm`" in refused(
        tmp_path, metric=["acc", "norm"]
    )


def test_an_equals_sign_in_a_benchmark_is_part_of_its_name():
    choices = Choices(metric=("mmlu:subject=law=exact_match",))
    assert choices.pick("metric", "mmlu:subject=law", ["f1", "exact_match"]) == "exact_match"


def test_many_open_choices_are_a_short_sentence():
    many = [OpenChoiceError("metric", "b" * 99, [f"m{k}{j}" for j in range(30)]) for k in range(50)]
    with pytest.raises(ResponseError) as error:
        refuse_open(many)
    assert len(str(error.value)) < 700


@pytest.mark.parametrize("name", ["[red]x", "$x$", "a\nb", "=1+1", "‮abc", "x" * 999])
def test_hostile_names_stay_as_they_are_and_are_shown_in_one_line(tmp_path, name):
    for model, right in ((name, 1), ("b", 0)):
        samples = [data.sample(f"{name}{k}", "CI"[1 - right]) for k in "pq"]
        header = data.inspect_header(model, task=name)
        data.inspect_eval(tmp_path / f"{right}.eval", samples, header)
    responses, found = read_log_folder(tmp_path)
    assert responses.subjects[1] == name
    assert responses.items[0] == f"{name}/{name}p"
    assert len(found.to_text().splitlines()) == 2
    assert max(map(len, found.to_text().splitlines())) < 200


def test_options_of_tables_and_of_logs_are_not_mixed_up(tmp_path):
    two_models(tmp_path / "logs")
    with pytest.raises(ResponseError, match=r"--score belongs to tables, and .* folder of logs"):
        read_responses(tmp_path / "logs", score="acc")
    table = tmp_path / "r.csv"
    table.write_text("model,item,score\na,p,1\na,q,0\nb,p,0\nb,q,1\n")
    with pytest.raises(ResponseError, match=r"--metric belongs to logs of harnesses, and .* table"):
        read_responses(table, metric="acc")
    (tmp_path / "r.json").write_text("{}")
    with pytest.raises(ResponseError, match=r"r.json is not a log of inspect, HELM.* or a table"):
        read_responses(tmp_path / "r.json")


def test_a_log_is_read_as_a_table_if_a_column_is_named(tmp_path):
    rows = [data.eee_row(i, 1.0, model_id=m) | {"right": i == m} for m in "pq" for i in "pq"]
    path = data.eee(tmp_path, rows)
    responses = read_responses(path, subject="model_id", item="sample_id", score="right")
    assert responses.items == ("p", "q")


def test_progress_is_told(tmp_path):
    told: list[tuple[int, int]] = []
    read_log_folder(two_models(tmp_path), progress=lambda *done: told.append(done))
    assert told == [(1, 2), (2, 2)]


def test_a_long_report_is_cut():
    many = tuple(LeftOut(f"f{k}", "file", 1, f"reason {k}") for k in range(99))
    lines = FoundLogs(left_out=many).to_text().splitlines()
    assert len(lines) < 40
    assert lines[-1] == "  ... and 69 more"


def test_metrics_between_0_and_1_are_scores(tmp_path):
    for model, scores in (("a", (0.25, 0.5, 1)), ("b", (0, 0.7, 0.3))):
        rows = [data.lm_eval_row(k, score) for k, score in enumerate(scores)]
        data.lm_eval(tmp_path, model, rows)
    responses, _ = read_log_folder(tmp_path)
    assert responses.scale == Scale("continuous")
    parts = responses.to_long().set_index(["subject", "item"])["successes"]
    assert parts["a", "arc/0"] == 2500
    assert parts["b", "arc/1"] == 7000
    assert read_log_folder(tmp_path, threshold=0.5)[0].scale is None
    with pytest.raises(ResponseError, match="these are continuous; pass --threshold"):
        read_log_runs(tmp_path, Reading())
    with pytest.raises(ResponseError, match="--kind, --order and --scale belong to tables"):
        read_log_runs(tmp_path, Reading(kind="graded"))

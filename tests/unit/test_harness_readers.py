"""Each harness's logs give exactly the answers that they contain."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness_data as data
import numpy as np
import pandas as pd
import pytest

from bayesirt.data.readers.choices import Choices, OpenChoiceError
from bayesirt.data.readers.deepeval import DEEPEVAL
from bayesirt.data.readers.harness import LogRows, NoAnswersError
from bayesirt.data.readers.langfuse import LANGFUSE
from bayesirt.data.readers.log_folder import HARNESSES, find_harness, read_log_folder
from bayesirt.data.readers.promptfoo import PROMPTFOO
from bayesirt.data.readers.recognise import read_responses
from bayesirt.errors import ResponseError


def rows_of(path: Path, metric: tuple[str, ...] = (), filters: tuple[str, ...] = ()) -> LogRows:
    harness = find_harness(path)
    assert harness is not None
    (rows,) = harness.read(path, Choices(metric, filters))
    return rows


def scores(rows: LogRows) -> dict[Any, float]:
    """Return scores by item, or by item and trial where there are several."""
    table = rows.answers
    keys = table["item"] if (table["trial"] <= 1).all() else zip(
        table["item"], table["trial"], strict=True)  # fmt: skip
    return dict(zip(keys, table["score"], strict=True))


def test_every_harness_reads_the_same_answers(tmp_path: Path):
    for name, write in data.LOGS.items():
        if name not in ("inspect .json", "inspect .eval", "Langfuse, bucket"):
            for model in data.MODELS:
                write(tmp_path / name, model)
    responses, found = read_log_folder(tmp_path)
    assert found.summary["harness"].nunique() == len(HARNESSES) == 11
    table = responses.to_long()
    assert (table["trials"] == 1).all()
    table["subject"] = table["subject"].str.replace("_", "/")
    for (_, subject), rows in table.groupby(["benchmark", "subject"]):
        assert tuple(rows.sort_values("item")["successes"]) == data.RIGHT[subject]
    assert len(table) == len(HARNESSES) * 3 * 4
    assert found.left_out == ()
    assert found.notes == ()


def test_lm_eval_names_the_model_the_task_and_documents(tmp_path: Path):
    path = data.lm_eval(tmp_path, "acme/large", [data.lm_eval_row(3, 1.0), data.lm_eval_row(7, 0)])
    rows = rows_of(path)
    assert (rows.subject, rows.benchmark, rows.metric) == ("acme/large", "arc", "acc")
    assert scores(rows) == {"3": 1, "7": 0}
    assert rows.answers["content"].tolist() == ["hash 3", "hash 7"]
    assert rows.answers["latency"].isna().all()


def test_lm_eval_falls_back_to_the_folders_name_and_says_so(tmp_path: Path):
    path = data.lm_eval(tmp_path, "acme/large", [data.lm_eval_row(3, 1.0)])
    path.with_name(f"results_{data.DATE}.json").unlink()
    rows = rows_of(path)
    assert rows.subject == "acme/large"
    assert "so its folder's name is used" in rows.notes[0]


def test_lm_eval_reads_one_filter(tmp_path: Path):
    kinds = {"strict": 0.0, "flexible": 1.0}
    table = [data.lm_eval_row(k, s, filter=f) for k in range(2) for f, s in kinds.items()]
    path = data.lm_eval(tmp_path, "m", table)
    with pytest.raises(OpenChoiceError, match="offers the filters `strict`, `flexible`: choose"):
        rows_of(path)
    for name, score in kinds.items():
        assert scores(rows_of(path, filters=(f"arc={name}",))) == {"0": score, "1": score}
    with pytest.raises(ResponseError, match="arc has no filter 'loose'; choose one of `strict`"):
        rows_of(path, filters=("arc=loose",))


def test_lm_eval_takes_the_only_metric_between_0_and_1(tmp_path: Path):
    table = [data.lm_eval_row(k, k, metrics=["bits", "acc"], bits=3.5) for k in range(2)]
    assert rows_of(data.lm_eval(tmp_path, "m", table)).metric == "acc"
    table = [row | {"metrics": ["acc", "acc_norm"], "acc_norm": 1} for row in table]
    path = data.lm_eval(tmp_path, "m", table)
    with pytest.raises(OpenChoiceError, match="arc offers the metrics `acc`, `acc_norm`: choose"):
        rows_of(path)
    assert rows_of(path, metric=("acc_norm",)).answers["score"].tolist() == [1, 1]


def test_lm_eval_reads_rows_that_list_no_metrics(tmp_path: Path):
    row = {"doc_id": 0, "doc": {}, "target": 1, "resps": [], "acc": 1.0}
    rows = rows_of(data.lm_eval(tmp_path, "m", [row]))
    assert (rows.metric, scores(rows)) == ("acc", {"0": 1})


@pytest.mark.parametrize("write", [data.inspect_eval, data.inspect_json])
def test_inspect_counts_values_as_inspect_does(tmp_path: Path, write: Callable[..., Path]):
    values = {
        "C": 1,
        "I": 0,
        "P": 0.5,
        "N": 0,
        "yes": 1,
        "False": 0,
        "0.25": 0.25,
        1: 1,
        0.75: 0.75,
    }
    samples = [data.sample(str(k), value) for k, value in enumerate(values)]
    rows = rows_of(write(tmp_path / f"x.{write.__name__[8:]}", samples))
    assert (rows.subject, rows.benchmark, rows.metric) == ("acme/large", "mul", "match")
    assert rows.answers["score"].tolist() == list(values.values())


def test_inspect_takes_epochs_as_trials(tmp_path: Path):
    samples = [data.sample("q", "CI"[e == 2], epoch=e) for e in (1, 2, 3)]
    rows = rows_of(data.inspect_eval(tmp_path / "x.eval", samples))
    assert scores(rows) == {("q", 1): 1, ("q", 2): 0, ("q", 3): 1}


def test_inspect_leaves_out_what_is_no_answer(tmp_path: Path):
    samples = [
        data.sample(1, "C"),
        data.sample(2, "I", error="broken"),
        data.sample(3, "I", completed=False),
        data.sample(4, "I", invalidation={"reason": "leak"}),
        data.sample(5, math.nan),
        data.sample(6, "C", scores={}),
    ]
    rows = rows_of(data.inspect_eval(tmp_path / "x.eval", samples))
    assert scores(rows) == {"1": 1}
    assert rows.left_out == {
        "an error, no answer": 1, "not finished": 1, "invalidated": 1, "no score": 2,
    }  # fmt: skip


def test_inspect_reads_the_journal_of_an_unfinished_log(tmp_path: Path):
    members: dict[str, Any] = {"_journal/start.json": data.inspect_header(status="started")}
    members |= {f"_journal/summaries/{k}.json": [data.sample(k, "C")] for k in (10, 2)}
    packed = {name: json.dumps(x).encode() for name, x in members.items()}
    rows = rows_of(data.write_zip(tmp_path / "x.eval", packed))
    assert rows.answers["item"].tolist() == ["2", "10"]
    assert rows.notes == ("the log of mul is unfinished",)


def test_inspect_reads_members_that_are_not_compressed(tmp_path: Path):
    members = {"header.json": data.inspect_header(), "summaries.json": [data.sample(1, "C")]}
    packed = {name: json.dumps(x).encode() for name, x in members.items()}
    assert scores(rows_of(data.write_zip(tmp_path / "x.eval", packed, method=0))) == {"1": 1}


def test_inspect_offers_scorers_and_their_keys(tmp_path: Path):
    both = {"match": {"value": "C"}, "judge": {"value": {"tone": 0, "fact": 1}},
            "words": {"value": "fine"}, "list": {"value": [1]}}  # fmt: skip
    path = data.inspect_eval(tmp_path / "x.eval", [data.sample(1, "C", scores=both)])
    with pytest.raises(OpenChoiceError, match="the metrics `match`, `judge/tone`, `judge/fact`: "):
        rows_of(path)
    assert scores(rows_of(path, metric=("judge/tone",))) == {"1": 0}


@pytest.mark.parametrize(
    ("usage", "length"),
    [
        ({"output_tokens": 20, "reasoning_tokens": 15}, 20),
        ({"output_tokens": 5, "reasoning_tokens": 15}, 20),
        ({"output_tokens": 0}, math.nan),
        ({"output_tokens": "many"}, math.nan),
        (None, math.nan),
    ],
)
def test_inspect_counts_reasoning_once(tmp_path: Path, usage: object, length: float):
    samples = [
        data.sample(1, "C", model_usage={"acme/large": usage, "judge": {"output_tokens": 9}})
    ]
    rows = rows_of(data.inspect_eval(tmp_path / "x.eval", samples))
    np.testing.assert_array_equal(rows.answers["latency"], [length])


def test_helm_reads_unperturbed_instances(tmp_path: Path):
    again = data.instance("id1", 0, train_trial_index=2)
    copy = data.instance("id1", 0, perturbation={"name": "typos"})
    path = data.helm(tmp_path, "acme/large", [data.instance("id1", 1), again, copy])
    rows = rows_of(path)
    assert (rows.subject, rows.benchmark) == ("acme/large", "mmlu:subject=law")
    assert scores(rows) == {("id1", 0): 1, ("id1", 2): 0}
    assert rows.left_out == {"a perturbed copy": 1}
    assert rows.answers["latency"].tolist() == [7, 7]


def test_helm_asks_which_statistic_counts(tmp_path: Path):
    perturbed = data.stat("f1_score", 1, perturbation={"name": "typos"})
    found = [data.instance("id1", 1, data.stat("f1_score", 0.4), perturbed, data.stat("co2", None))]
    path = data.helm(tmp_path, "m", found, scenario="narrative_qa")
    with pytest.raises(OpenChoiceError, match="narrative_qa offers the metrics `exact_match`, `f1"):
        rows_of(path)
    assert scores(rows_of(path, metric=("f1_score",))) == {"id1": 0.4}


def test_every_eval_ever_puts_metrics_of_a_sample_together(tmp_path: Path):
    table = [data.eee_row(k, s, m) for k in "ab" for m, s in (("acc", 1.0), ("acc_norm", 0.0))]
    broken = data.eee_row("c", 0, error="timed out")
    rows = rows_of(data.eee(tmp_path, [*table, broken]), metric=("acc_norm",))
    assert (rows.subject, rows.benchmark, rows.harness) == ("acme/large", "arc", "Every Eval Ever")
    assert scores(rows) == {"a": 0, "b": 0}
    assert rows.left_out == {"an error, no answer": 1}
    assert rows.answers["latency"].tolist() == [9, 9]


def test_every_eval_ever_knows_filters_and_answers_of_lm_eval(tmp_path: Path):
    def row(through: str, score: float) -> dict[str, Any]:
        about = {"filter": through, "doc_hash": "hash 0"}
        return data.eee_row("0", score, f"em:{through}", evaluation_name=f"arc/{through}",
                            metadata=about)  # fmt: skip

    path = data.eee(tmp_path, [row("strict", 0), row("loose", 1)], library="lm_eval")
    rows = rows_of(path, filters=("loose",))
    assert (rows.harness, rows.benchmark, rows.metric) == ("lm-eval", "arc", "em")
    assert (scores(rows), rows.answers["content"].tolist()) == ({"0": 1}, ["hash 0"])


def test_every_eval_ever_takes_is_correct_where_there_is_no_score(tmp_path: Path):
    found = {"score": None, "is_correct": True}
    assert scores(rows_of(data.eee(tmp_path, [data.eee_row("a", 0, evaluation=found)]))) == {"a": 1}


@pytest.mark.parametrize("kind", [dict, list])
def test_opencompass_reads_details_and_lengths(tmp_path: Path, kind: type):
    details: Any = {"0": {"correct": True}, "1": {"correct": False, "pred": ["x"]}}
    details = list(details.values()) if kind is list else {"type": "GEN", **details}
    rows = rows_of(data.opencompass(tmp_path, "acme_large", details))
    assert (rows.subject, rows.benchmark, rows.metric) == ("acme_large", "gsm8k", "correct")
    assert scores(rows) == {"0": 1, "1": 0}
    assert rows.answers["latency"].tolist() == [10, 11]


def test_opencompass_takes_lists_as_trials(tmp_path: Path):
    path = data.opencompass(tmp_path, "m", {"0": {"correct": [True, False, True]}})
    assert scores(rows_of(path)) == {("0", 0): 1, ("0", 1): 0, ("0", 2): 1}


STATUS = {"base_status": "pass", "plus_status": "fail"}


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("acme--large_openai_temp_0.0.eval_results.json", "acme/large"),
        ("acme--my_model_vllm_temp_0.8.eval_results.json", "acme/my_model"),
        ("acme--large_temp_0.0_eval_results.json", "acme/large"),
        ("gpt-4.1.eval_results.json", "gpt-4.1"),
        ("eval_results.json", "humaneval"),
    ],
)
def test_evalplus_names_the_model(tmp_path: Path, name: str, subject: str):
    path = data.evalplus(tmp_path, name, {"HumanEval/0": [STATUS | {"plus_status": None}]})
    assert rows_of(path).subject == subject


def test_evalplus_asks_for_base_or_plus_and_counts_samples(tmp_path: Path):
    passed = {"base_status": "pass", "plus_status": "pass"}
    failed = {"base_status": "timeout", "plus_status": "pass"}
    tasks = {"HumanEval/0": [STATUS, passed, failed]}
    path = data.evalplus(tmp_path, "m.eval_results.json", tasks)
    with pytest.raises(OpenChoiceError, match="HumanEval offers the metrics `base`, `plus`"):
        rows_of(path)
    assert rows_of(path, metric=("base",)).answers["score"].tolist() == [1, 1, 0]
    assert rows_of(path, metric=("plus",)).answers["score"].tolist() == [0, 1, 0]


def test_evalplus_reads_the_columns_of_older_files(tmp_path: Path):
    tasks = {"Mbpp/2": {"nfiles": 1, "base": [["pass", [True]]], "plus": []}}
    rows = rows_of(data.evalplus(tmp_path, "m_temp_0.0_eval_results.json", tasks))
    assert (rows.benchmark, rows.metric, scores(rows)) == ("Mbpp", "base", {"2": 1})


def test_swebench_tells_wrong_from_not_run(tmp_path: Path):
    path = data.swebench(
        tmp_path, "acme__large.v1.run.json", resolved_ids=["a"], unresolved_ids=["b"],
        empty_patch_ids=["c"], error_ids=["d"], incomplete_ids=["e", "f"],
    )  # fmt: skip
    rows = rows_of(path)
    assert rows.subject == "acme/large.v1"
    assert scores(rows) == {"a": 1, "b": 0, "c": 0}
    assert rows.left_out == {"an error, no answer": 1, "not run": 2}


def test_swebench_takes_what_was_completed_and_not_resolved_as_wrong(tmp_path: Path):
    path = data.swebench(tmp_path, "m.r.json", resolved_ids=["a"], completed_ids=["a", "b"])
    assert scores(rows_of(path)) == {"a": 1, "b": 0}


def test_swebench_submissions_are_read_beside_others(tmp_path: Path):
    def submit(name: str, **ids: list[str]) -> Path:
        return data.write_json(tmp_path / "lite" / name / "results" / "results.json", ids)

    first = submit("x", no_generation=["c"], no_logs=["d"], resolved=["a"])
    with pytest.raises(NoAnswersError, match="put its folder next to those of others"):
        rows_of(first)
    submit("y", resolved=["a", "b", "d"], no_generation=[])
    rows = rows_of(first)
    assert (rows.subject, scores(rows)) == ("x", {"a": 1, "b": 0, "c": 0})
    assert rows.left_out == {"no logs, no answer": 1}


def test_lighteval_reads_scores_and_lengths(tmp_path: Path):
    table = [data.lighteval_row("a", 1.0, (3, 6)), data.lighteval_row(None, 0.0, ())]
    rows = rows_of(data.lighteval(tmp_path, "acme/large", table))
    assert (rows.subject, rows.benchmark) == ("acme/large", "gsm8k|0")
    assert scores(rows) == {"a": 1, "1": 0}
    np.testing.assert_array_equal(rows.answers["latency"], [4.5, np.nan])


def test_lighteval_reads_older_columns(tmp_path: Path):
    table = [{"example": "?", "metrics": {"acc": 1.0}}, {"example": "!", "metrics": {"acc": 0.0}}]
    assert scores(rows_of(data.lighteval(tmp_path, "m", table))) == {"0": 1, "1": 0}


def test_promptfoo_reads_providers_prompts_repeats_and_errors(tmp_path: Path):
    rows = [
        data.promptfoo_row(0, "acme/large", 1, "a"),
        data.promptfoo_row(0, "acme/large", 0, "b"),
        data.promptfoo_row(1, "acme/large", 1, "a", vars={"q": "question 0"}),
        data.promptfoo_row(2, "acme/large", 0, "a", failureReason=1),
        data.promptfoo_row(2, "acme/large", 0, "b", failureReason=2),
        data.promptfoo_row(0, "x", 1, "b", provider={"id": "x", "label": "Zeta"}),
    ]
    path = data.promptfoo(tmp_path / "results.json", rows, description="capitals")
    large, other, zeta = PROMPTFOO.read(path, Choices())
    assert (large.subject, other.subject) == ("acme/large (prompt 1)", "acme/large (prompt 2)")
    assert (zeta.subject, zeta.benchmark, zeta.metric) == ("Zeta (prompt 2)", "capitals", "pass")
    assert large.answers[["item", "score"]].values.tolist() == [["0", 1], ["0", 1], ["2", 0]]
    assert large.answers["trial"].tolist() == [0, 1, 0]
    assert large.answers["latency"].tolist() == [7, 7, 7]
    assert (other.left_out, scores(other)) == ({"error": 1}, {"0": 0})


def test_promptfoo_scores_by_a_named_metric_where_it_is_chosen(tmp_path: Path):
    rows = [
        data.promptfoo_row(k, "m", 1, namedScores={"tone": 0.25 * k},
                           testCase={"description": f"test {k}"})
        for k in range(3)
    ]  # fmt: skip
    path = data.promptfoo(tmp_path / "results.json", rows)
    (rows_read,) = PROMPTFOO.read(path, Choices(metric=("tone",)))
    assert (rows_read.metric, rows_read.benchmark) == ("tone", "results")
    assert scores(rows_read) == {"test 0": 0, "test 1": 0.25, "test 2": 0.5}


def test_deepeval_reads_models_repeats_and_errors(tmp_path: Path):
    broken = data.deepeval_case(2, 0)
    broken["metricsData"] = [broken["metricsData"][0] | {"error": "judge timed out", "score": None}]
    cases = [
        data.deepeval_case(0, 1),
        data.deepeval_case(0, 0),
        data.deepeval_case(1, 1, "same"),
        data.deepeval_case(3, 0, "same"),
        broken,
    ]
    (rows,) = DEEPEVAL.read(data.deepeval(tmp_path / "r.json", "acme/large", cases), Choices())
    assert (rows.subject, rows.benchmark, rows.metric) == ("acme/large", "deepeval", "pass")
    assert rows.left_out == {"error": 1}
    table = rows.answers
    assert table["item"][:2].tolist() == ["test_case_0"] * 2
    assert table["trial"].tolist() == [0, 1, 0, 0]
    assert table["item"][2] != table["item"][3]
    assert table["latency"].tolist() == [7] * 4


def test_deepeval_scores_by_a_metric_where_it_is_chosen(tmp_path: Path):
    cases = [data.deepeval_case(k, k % 2) for k in range(4)]
    path = data.deepeval(tmp_path / "r.json", None, cases, datasetAlias="faq", identifier="run 7")
    (rows,) = DEEPEVAL.read(path, Choices(metric=("Correctness [GEval]",)))
    assert (rows.subject, rows.benchmark) == ("run 7", "faq")
    assert rows.answers["score"].tolist() == [0.25, 0.75, 0.25, 0.75]


def test_deepeval_reads_conversations(tmp_path: Path):
    case = {"name": "refund", "scenario": "an angry customer", "success": True, "turns": [],
            "metricsData": [{"name": "Role Adherence", "score": 1.0, "success": True}]}  # fmt: skip
    path = data.deepeval(
        tmp_path / "shop.json", None, [], conversationalTestCases=[case], testFile="tests/t_shop.py"
    )
    (rows,) = DEEPEVAL.read(path, Choices())
    assert (rows.subject, rows.benchmark, scores(rows)) == ("shop", "t_shop", {"refund": 1})


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_langfuse_reads_generations_with_scores(tmp_path: Path, ending: str):
    rows = [
        data.langfuse_row(0, "acme/large", 1),
        data.langfuse_row(0, "acme/large", None, correct=[1, 0]),
        data.langfuse_row(1, "acme/large", 0, level="ERROR"),
        data.langfuse_row(2, "acme/large", None),
        data.langfuse_row(3, None, 1, type="SPAN"),
        data.langfuse_row(0, "zeta", 0),
    ]
    path = tmp_path / f"o.{ending}"
    path.write_text(json.dumps(rows) if ending == "json" else "\n".join(map(json.dumps, rows)))
    large, zeta = LANGFUSE.read(path, Choices())
    assert (large.subject, large.benchmark, large.metric) == ("acme/large", "answer", "correct")
    assert large.answers["score"].tolist() == [1, 0.5]
    assert large.answers["trial"].tolist() == [0, 1]
    assert large.left_out == {"error": 1, "no score": 1}
    assert zeta.answers["item"][0] == large.answers["item"][0]
    assert find_harness(path) is LANGFUSE


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "json", "jsonl", "jsonl.gz"])
def test_langfuse_buckets_are_read_as_its_table_is(tmp_path: Path, ending: str):
    for model, right in data.RIGHT.items():
        data.langfuse_export(tmp_path / "bucket" / model.replace("/", "_"), model, right, ending)
        rows = [data.langfuse_row(k, model, x) for k, x in enumerate(right)]
        data.write_json(tmp_path / "table" / f"{model.replace('/', '_')}.json", rows)
    bucket, found = read_log_folder(tmp_path / "bucket")
    table, _ = read_log_folder(tmp_path / "table")
    assert not found.left_out
    assert (bucket.subjects, bucket.items) == (table.subjects, table.items)
    for ours, theirs in zip(bucket.cells.matrices(), table.cells.matrices(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(bucket.latency, table.latency)


def test_a_trace_with_several_generations_tells_of_none(tmp_path: Path):
    project = data.langfuse_export(tmp_path / "p", "m", [1, 0, 1], "jsonl")
    lines = project / "observations_v2" / "2026-11-20T00-00-00.jsonl"
    first, second = map(json.loads, lines.read_text("utf-8").split("\n"))
    data.write_lines(lines, [first, second, second | {"id": "another"}])
    (rows,) = LANGFUSE.read(lines, Choices())
    assert rows.answers["score"].tolist() == [1, 1]
    assert rows.left_out == {"no score": 2}


def test_older_observations_are_not_read_twice(tmp_path: Path):
    project = data.langfuse_export(tmp_path / "p", "m", [1, 0, 1])
    shutil.copytree(project / "observations_v2", project / "observations")
    assert [find_harness(x) for x in sorted((project / "observations").iterdir())] == [None, None]
    shutil.rmtree(project / "observations_v2")
    oldest, later = sorted((project / "observations").iterdir())
    assert (find_harness(oldest), find_harness(later)) == (LANGFUSE, None)
    with pytest.raises(ResponseError, match="belongs to the logs of its run"):
        read_responses(later)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row.pop("input"), "export the field groups `io` and `model`"),
        (lambda row: row.update(provided_model_name=""), "no observation with a model"),
    ],
)
def test_a_bucket_without_models_or_questions_says_so(
    tmp_path: Path, change: Callable[[dict[str, object]], object], said: str
):
    project = data.langfuse_export(tmp_path / "p", "m", [1, 0, 1], "json")
    for file in (project / "observations_v2").iterdir():
        rows = json.loads(file.read_text())
        for row in rows:
            change(row)
        data.write_json(file, rows)
    with pytest.raises(ResponseError, match=said):
        read_log_folder(project)


def test_langfuse_says_where_scores_must_be(tmp_path: Path):
    path = data.write_json(tmp_path / "o.json", [data.langfuse_row(0, "m", None)])
    with pytest.raises(ResponseError, match="score the generations"):
        LANGFUSE.read(path, Choices())


def test_shared_logs_are_read(shared: Path):
    formats = shared / "formats"
    chosen = {"metric": ("acc", "exact_match", "match", "plus"), "filter": ("strict-match",)}
    responses, found = read_log_folder(formats, **chosen)
    assert set(found.summary["harness"]) == {harness.name for harness in HARNESSES} - {
        *("promptfoo", "DeepEval", "Langfuse"),  # no logs of these here
        "Every Eval Ever",  # its rows are lm-eval's answers, converted
    }
    sizes = found.summary.set_index("benchmark")[["subjects", "items"]].to_dict("split")
    read = dict(zip(sizes["index"], map(tuple, sizes["data"]), strict=True))
    assert read["toy_mc"] == (4, 20)
    assert read["toy_gen"] == (4, 15)
    assert read["toy_mul"] == (2, 12)
    assert read["mmlu:subject=philosophy,method=multiple_choice_joint"] == (1, 10)
    assert read["swe-bench"] == (6, 6)
    assert read["gsm8k"] == read["gsm8k|0"] == read["HumanEval"] == (3, 6)
    assert "repeated answers that agree with the first and count only once: 47" in found.notes
    assert responses.n_observed == 297
    assert isinstance(found.summary, pd.DataFrame)


def test_shared_scores_are_those_of_the_harness(shared: Path):
    folder = shared / "formats" / "lm_eval" / "out"
    chosen = {"metric": ("acc_norm",), "filter": ("flexible-extract",)}
    responses, _ = read_log_folder(folder, **chosen)
    successes, trials = responses.cells.matrices()
    for path in folder.glob("*/results_*.json"):
        told = json.loads(path.read_text("utf-8"))
        row = responses.subjects.index(told["model_name"])
        for task, metric in (
            ("toy_mc", "acc_norm,none"), ("toy_gen", "exact_match,flexible-extract"),
        ):  # fmt: skip
            own = (responses.item_metadata["benchmark"] == task).to_numpy()
            mean = successes[row, own].sum() / trials[row, own].sum()
            assert mean == pytest.approx(told["results"][task][metric], rel=1e-12)

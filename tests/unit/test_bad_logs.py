"""A log that is damaged, hostile or too large is refused in one sentence that names it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness_data as data
import pytest

from bayesirt.data.readers import inspect_archive, json_files
from bayesirt.data.readers.log_folder import read_log_folder
from bayesirt.errors import ResponseError


def lm_eval_bytes(text: bytes) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        path = data.lm_eval(root, "m", [])
        path.write_bytes(text)
        return path

    return write


def lm_eval_lines(*table: object) -> Callable[[Path], Path]:
    return lambda root: data.lm_eval(root, "m", list(table))


def eval_of(samples: Any, **header: Any) -> Callable[[Path], Path]:
    head = data.inspect_header(**header)
    return lambda root: data.inspect_eval(root / "x.eval", samples, head)


def helm_of(content: object, **spec: Any) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        path = data.helm(root, "m", content)
        if spec:
            data.write_json(path.with_name("run_spec.json"), spec)
        return path

    return write


def plain(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


HALF = json.dumps(data.lm_eval_row(0, 1)).encode()
SUMMARIES = {"header.json": json.dumps(data.inspect_header()).encode(), "summaries.json": b"[]"}
STAMP = data.DATE

# For each log: the function that writes it, and words of the message.
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty": (lm_eval_bytes(b""), "it is empty"),
    "cut short": (lm_eval_bytes(HALF + b"\n" + HALF[:40]), "line 2 is not valid JSON"),
    "not UTF-8": (lm_eval_bytes(HALF[:-1] + b', "x": "\xff"}'), "line 1 is not UTF-8"),
    "a list": (lm_eval_bytes(HALF + b"\n[1]"), "line 2 is not a JSON object"),
    "nested": (lm_eval_bytes(b'{"doc_id": ' + b"[" * 200_000), "line 1 is nested too deeply"),
    "endless number": (lm_eval_bytes(b'{"doc_id": ' + b"1" * 5000 + b"}"), "not valid JSON"),
    "no doc_id": (lm_eval_lines(data.lm_eval_row(0, 1) | {"doc_id": None}), "`doc_id` is missing"),
    "doc_id of a list": (lm_eval_lines(data.lm_eval_row(0, 1) | {"doc_id": [1]}), "in line 1"),
    "no scores": (lm_eval_lines(data.lm_eval_row(0, 1, metrics=[])), "no answer with a score"),
    "no archive": (plain("x.eval", b"PK" + bytes(99)), "not a whole .eval archive"),
    "empty archive": (plain("x.eval", b""), "not a whole .eval archive"),
    "archive of something else": (
        lambda root: data.write_zip(root / "x.eval", {"a.txt": b"a"}),
        "neither header nor journal",
    ),
    "spoilt member": (
        lambda root: data.write_zip(root / "x.eval", SUMMARIES, spoilt=lambda b: b[:-3] + b"abc"),
        "not a whole .eval archive",
    ),
    "unknown method": (
        lambda root: data.write_zip(root / "x.eval", SUMMARIES, method=77),
        "not a whole .eval archive",
    ),
    "samples of text": (eval_of("all fine"), "its members are not those of a log"),
    "sample of text": (eval_of(["fine"]), "sample 1 is not an object"),
    "failed samples": (eval_of([data.sample(1, "C", error="broken")]), "no answer with a score"),
    "sample without a name": (eval_of([data.sample(None, "C")]), "`id` is missing"),
    "scores of text": (
        eval_of([data.sample(1, "C", scores="C")]),
        "`scores` is missing or not an obj",
    ),
    "epoch of text": (eval_of([data.sample(1, "C", epoch="x")]), "`epoch` is not a whole number"),
    "header without a model": (eval_of([data.sample(1, "C")], model=""), "`model` is missing"),
    "log without samples": (lambda root: data.inspect_json(root / "x.json", None), "no samples"),
    "run without its spec": (helm_of([data.instance("a", 1)], name="x"), "`adapter_spec` is miss"),
    "run of no list": (helm_of({}), "no list of instances"),
    "instance of text": (helm_of(["x"]), "instance 1 is not an object"),
    "instance without stats": (helm_of([{"instance_id": "a"}]), "`stats` is missing"),
    "trial of text": (helm_of([data.instance("a", 1, train_trial_index="x")]), "`train_trial_ind"),
    "row without a model": (
        lambda root: data.eee(root, [data.eee_row("a", 1) | {"model_id": 7}]),
        "`model_id` is missing or not text in line 1",
    ),
    "row without an evaluation": (
        lambda root: data.eee(root, [data.eee_row("a", 1) | {"evaluation": None}]),
        "`evaluation` is missing",
    ),
    "no details": (lambda root: data.opencompass(root, "m", None), "totals without answers"),
    "details of text": (lambda root: data.opencompass(root, "m", {"0": "x"}), "no object at '0'"),
    "no tasks": (lambda root: data.evalplus(root, "eval_results.json", {}), "`eval` is empty"),
    "task of text": (
        lambda root: data.evalplus(root, "eval_results.json", {"HumanEval/0": "pass"}),
        "holds no samples at 'HumanEval/0'",
    ),
    "names of numbers": (
        lambda root: data.swebench(root, "m.r.json", resolved_ids=[1]),  # type: ignore[list-item]
        "`resolved_ids` is not a list of names",
    ),
    "report without answers": (
        lambda root: data.swebench(root, "m.r.json", resolved_ids=[]),
        "no answer with a score",
    ),
    "no test cases": (lambda root: data.deepeval(root / "r.json", "m", []), "holds no test case"),
    "test case without a name": (
        lambda root: data.deepeval(root / "r.json", "m", [data.deepeval_case(0, 1) | {"name": ""}]),
        "`name` is missing or not text at test case 1",
    ),
    "metrics of text": (
        lambda root: data.deepeval(
            root / "r.json", "m", [data.deepeval_case(0, 1, metricsData="x")]
        ),
        "`metricsData` is not a list of objects",
    ),
    "one observation": (
        lambda root: data.write_json(root / "o.json", data.langfuse_row(0, "m", 1)),
        "no list of observations",
    ),
    "observations without a model": (
        lambda root: data.write_json(root / "o.json", [data.langfuse_row(0, None, 1)]),
        "no observation with a model",
    ),
    "junk as Parquet": (plain(f"details_x_{STAMP}.parquet", b"PAR1xx"), "not a whole Parquet file"),
    "details without scores": (
        lambda root: data.lighteval(root, "m", [{"doc": {"id": "1"}}]),
        "no column `metric`",
    ),
    "scores as text": (
        lambda root: data.lighteval(root, "m", [{"metrics": "{'acc': 1}"}]),
        "the scores of row 1 are text",
    ),
}


def test_a_run_of_helm_needs_its_spec(tmp_path: Path):
    path = data.helm(tmp_path, "m", [data.instance("a", 1)])
    path.with_name("run_spec.json").unlink()
    with pytest.raises(ResponseError, match=r"run_spec.json is missing next to it; copy the whole"):
        read_log_folder(path)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inspect_archive, "MOST_OF_A_MEMBER", 1 << 20)
    many = {**SUMMARIES, "summaries.json": b" " * (3 << 20)}
    honest = data.write_zip(tmp_path / "honest.eval", many)
    lying = data.write_zip(tmp_path / "lying.eval", many, declared=100)
    assert honest.stat().st_size < 10_000
    for path in (honest, lying):
        with pytest.raises(ResponseError, match="unpacks to more than the 1 MiB"):
            read_log_folder(path)
    monkeypatch.setattr(inspect_archive, "MOST_OF_A_MEMBER", 1 << 30)
    monkeypatch.setattr(inspect_archive, "MOST_IN_ALL", 2 << 20)
    with pytest.raises(ResponseError, match="unpacks to more than"):
        read_log_folder(honest)


def test_files_and_lines_that_are_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(json_files, "MOST_BYTES", 99)
    monkeypatch.setattr(json_files, "MOST_OF_A_LINE", 99)
    with pytest.raises(ResponseError, match="it is larger than 0 MiB"):
        read_log_folder(data.inspect_json(tmp_path / "x.json", [data.sample(1, "C")]))
    row = data.eee(tmp_path, [data.eee_row("a", 1)], name="free")
    row.with_name("free.json").unlink()
    with pytest.raises(ResponseError, match="line 1 is longer than"):
        read_log_folder(row)

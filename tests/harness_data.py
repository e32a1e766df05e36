"""Small logs of every harness, in its layout."""

import gzip
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import zstandard

MODELS = ("acme/large", "acme/small", "zeta/tiny")
RIGHT = {"acme/large": (1, 1, 1, 0), "acme/small": (1, 0, 1, 0), "zeta/tiny": (0, 0, 1, 0)}
"""Each model's answers to four items, the same in every log."""
DATE = "2026-11-21T10-58-10.577750"


def write_json(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")
    return path


def write_lines(path: Path, rows: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def lm_eval_row(doc: int, score: float, **other: Any) -> dict[str, Any]:
    return {
        "doc_id": doc, "doc": {"q": f"{doc}?"}, "target": "0", "filter": "none",
        "resps": [[["-1", "False"]]], "metrics": ["acc"], "doc_hash": f"hash {doc}", "acc": score,
    } | other  # fmt: skip


def lm_eval(
    root: Path, model: str, rows: Sequence[object], task: str = "arc", date: str = DATE
) -> Path:
    folder = root / model.replace("/", "__")
    write_json(folder / f"results_{date}.json", {"results": {}, "model_name": model})
    return write_lines(folder / f"samples_{task}_{date}.jsonl", rows)


def sample(item: object, value: object, **other: Any) -> dict[str, Any]:
    """Return a sample of an inspect log, scored by `match`."""
    return {
        "id": item, "epoch": 1, "scores": {"match": {"value": value}}, "completed": True,
        "model_usage": {"acme/large": {"output_tokens": 20, "reasoning_tokens": 15}},
    } | other  # fmt: skip


def inspect_header(model: str = "acme/large", task: str = "mul", **other: Any) -> dict[str, Any]:
    about = {"run_id": "r", "task_id": "t", "task": task, "model": model}
    return {"version": 2, "status": "success", "eval": about} | other


def inspect_eval(
    path: Path, samples: Sequence[object], header: Mapping[str, Any] | None = None
) -> Path:
    members = {"header.json": header or inspect_header(), "summaries.json": samples}
    return write_zip(path, {name: json.dumps(x).encode() for name, x in members.items()})


def inspect_json(
    path: Path, samples: Sequence[object] | None, header: Mapping[str, Any] | None = None
) -> Path:
    return write_json(path, {**(header or inspect_header()), "samples": samples})


def write_zip(
    path: Path,
    members: Mapping[str, bytes],
    *,
    method: int = 93,
    declared: int | None = None,
    spoilt: Callable[[bytes], bytes] = bytes,
) -> Path:
    """Write an archive compressed with Zstandard, which not every `zipfile` can write.

    `declared` is the size that is said to be unpacked; `spoilt` changes what is packed.
    """
    body, directory = b"", b""
    for name, data in members.items():
        packed = spoilt(zstandard.compress(data) if method == 93 else data)
        size = len(data) if declared is None else declared
        fields = struct.pack("<3H2x2x3I2H", 20, 0, method, zlib.crc32(data), len(packed), size,
                             len(name.encode()), 0)  # fmt: skip
        directory += b"PK\1\2" + b"\x14\0" + fields + struct.pack("<3H2I", 0, 0, 0, 0, len(body))
        directory += name.encode()
        body += b"PK\3\4" + fields + name.encode() + packed
    n = len(members)
    end = b"PK\5\6" + struct.pack("<4H2IH", 0, 0, n, n, len(directory), len(body), 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body + directory + end)
    return path


def stat(name: str, mean: float | None, **other: Any) -> dict[str, Any]:
    return {"name": {"name": name, "split": "test"} | other, "count": 1, "mean": mean}


def instance(item: str, right: int, *more: object, **other: Any) -> dict[str, Any]:
    stats = [stat("num_output_tokens", 7), stat("finish_reason_stop", 1), stat("max_prob", 0.5),
             stat("exact_match", right), *more]  # fmt: skip
    return {"instance_id": item, "train_trial_index": 0, "stats": stats} | other


def helm(root: Path, model: str, instances: object, scenario: str = "mmlu:subject=law") -> Path:
    name = f"{scenario}{',' if ':' in scenario else ':'}model={model.replace('/', '_')}"
    spec = {"name": name, "adapter_spec": {"model": model}}
    write_json(root / name / "run_spec.json", spec)
    write_json(root / name / "stats.json", [])
    return write_json(root / name / "per_instance_stats.json", instances)


def eee_row(item: str, score: float, metric: str = "acc", **other: Any) -> dict[str, Any]:
    return {
        "evaluation_id": "arc/acme/large/17", "model_id": "acme/large", "evaluation_name": "arc",
        "evaluation_result_id": metric, "sample_id": item, "sample_hash": f"hash {item}",
        "evaluation": {"score": score, "is_correct": score > 0.5}, "error": None,
        "token_usage": {"output_tokens": 9}, "metadata": {"filter": "none"},
    } | other  # fmt: skip


def eee(root: Path, rows: Sequence[object], library: str = "other", name: str = "u1") -> Path:
    write_json(root / f"{name}.json", {"eval_library": {"name": library}})
    return write_lines(root / f"{name}_samples.jsonl", rows)


def opencompass(root: Path, model: str, details: object, dataset: str = "gsm8k") -> Path:
    run = root / "20260901_101500"
    write_json(
        run / "predictions" / model / f"{dataset}.json",
        {str(k): {"prediction": "...", "res_length": 10 + k} for k in range(4)},
    )
    content = {"accuracy": 50.0} | ({} if details is None else {"details": details})
    return write_json(run / "results" / model / f"{dataset}.json", content)


def evalplus(root: Path, name: str, tasks: object) -> Path:
    content = {"date": "2026-09-01", "hash": "fe5", "eval": tasks}
    return write_json(root / "humaneval" / name, content)


def swebench(root: Path, name: str, **ids: Sequence[str]) -> Path:
    counts = {f"{key.removesuffix('_ids')}_instances": len(names) for key, names in ids.items()}
    return write_json(root / name, counts | ids | {"schema_version": 2})


def promptfoo_row(
    test: int, model: str, success: bool | float, prompt: str = "{{q}}", **other: Any
) -> dict[str, Any]:
    return {
        "promptIdx": 0, "testIdx": test, "testCase": {"assert": [{"type": "equals", "value": "x"}]},
        "promptId": f"id of {prompt}", "prompt": {"raw": prompt, "label": prompt},
        "provider": {"id": model, "label": ""}, "vars": {"q": f"question {test}"},
        "response": {"output": "x", "tokenUsage": {"completion": 7}}, "failureReason": 0,
        "success": bool(success), "score": float(success), "latencyMs": 5, "namedScores": {},
    } | other  # fmt: skip


def promptfoo(path: Path, rows: Sequence[object], **config: Any) -> Path:
    results = {"version": 3, "timestamp": "2026-09-01", "prompts": [], "results": rows}
    return write_json(path, {"evalId": "eval-x", "results": results, "config": config})


def deepeval_case(
    test: int, success: bool | float, name: str | None = None, **other: Any
) -> dict[str, Any]:
    metric = {
        "name": "Correctness [GEval]", "threshold": 0.5, "success": bool(success),
        "score": 0.25 + 0.5 * success, "strictMode": False, "evaluationModel": "judge",
    }  # fmt: skip
    return {
        "name": name or f"test_case_{test}", "input": f"question {test}", "actualOutput": "x",
        "expectedOutput": "y", "flaky": False, "success": bool(success), "metricsData": [metric],
        "runDuration": 0.1, "order": test, "outputTokenCount": 7,
    } | other  # fmt: skip


def deepeval(path: Path, model: str | None, cases: Sequence[object], **other: Any) -> Path:
    run = {"testCases": cases, "conversationalTestCases": [], "metricsScores": [],
           "hyperparameters": {"temperature": "0", "model": model} if model else None,
           "testPassed": 1, "testFailed": 0, "runDuration": 0.2, "official": False}  # fmt: skip
    kept = {key: value for key, value in (run | other).items() if value is not None}
    return write_json(path, kept)


def langfuse_row(test: int, model: str | None, score: float | None, **other: Any) -> dict[str, Any]:
    return {
        "id": f"o{test}", "traceId": f"t{test}", "projectId": "p", "environment": "default",
        "type": "GENERATION", "startTime": "2026-09-01T10:15:00.000Z", "name": "answer",
        "metadata": {}, "parentObservationId": None, "level": "DEFAULT", "model": model,
        "input": [{"role": "user", "content": f"question {test}"}], "output": "x",
        "usageDetails": {"input": 5, "output": 7, "total": 12}, "toolCalls": [], "traceTags": ["a"],
        "correct": None if score is None else [score], "tone": ["kind"], "comments": [],
    } | other  # fmt: skip


def langfuse_export(
    project: Path, model: str, right: Sequence[float], ending: str = "jsonl.gz"
) -> Path:
    """Write two windows of a bucket: each trace is scored as a whole, but the first's generation.

    The second window is of the last question, and has the one before it again.
    """
    observations = [
        {"id": f"{model}{k}", "trace_id": f"t{model}{k}", "type": "GENERATION", "name": "answer",
         "level": "DEFAULT", "provided_model_name": model, "metadata": {f"k{k}": 1},
         "input": json.dumps([{"role": "user", "content": f"question {k}"}]), "output": "\u2028",
         "usage_details": {"input": 5, "output": 7, "total": 12}}
        for k, _ in enumerate(right)
    ]  # fmt: skip
    scores = [
        {"id": f"s{model}{k}", "trace_id": f"t{model}{k}", "name": "correct", "value": x,
         "observation_id": None if k else f"{model}{k}", "data_type": "BOOLEAN"}
        for k, x in enumerate(right)
    ]  # fmt: skip
    tone = {"id": f"w{model}", "name": "tone", "value": 0, "data_type": "TEXT"}
    for time, of in ("2026-11-20T00-00-00", slice(-1)), ("2026-11-21T00-00-00", slice(-2, None)):
        _exported(project / "observations_v2" / f"{time}.{ending}", observations[of])
        _exported(project / "scores" / f"{time}.{ending}", [*scores[of], scores[0] | tone])
        write_json(project / "manifests" / f"{time}.json", {"files": []})
    _exported(project / "scores" / f"2026-11-22T00-00-00.{ending}", [])
    return project


def _exported(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        usage = pa.map_(pa.string(), pa.int64())
        table = pa.Table.from_pylist([{k: x for k, x in r.items() if x != {}} for r in rows])
        place = table.schema.get_field_index("usage_details")
        if place >= 0:
            pairs = [list(row["usage_details"].items()) for row in rows]
            table = table.set_column(place, "usage_details", pa.array(pairs, usage))
        pyarrow.parquet.write_table(table, path)
        return
    if ".csv" in path.suffixes:
        texts = [
            {k: json.dumps(x) if isinstance(x, dict) else x for k, x in r.items()} for r in rows
        ]
        data = pd.DataFrame(texts).to_csv(index=False) if rows else ""
    else:
        as_json = partial(json.dumps, ensure_ascii=False)
        data = as_json(rows) if ".json" in path.suffixes else "\n".join(map(as_json, rows))
    path.write_bytes(gzip.compress(data.encode()) if path.suffix == ".gz" else data.encode())


def lighteval(
    root: Path, model: str, rows: Sequence[Mapping[str, Any]], task: str = "gsm8k|0"
) -> Path:
    folder = root / "details" / model / DATE
    folder.mkdir(parents=True)
    path = folder / f"details_{task}_{DATE}.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return path


def lighteval_row(item: str | None, score: float, tokens: Sequence[int] = (3,)) -> dict[str, Any]:
    response = {"text": ["..."], "output_tokens": [[7] * n for n in tokens]}
    return {"doc": {"id": item, "query": "?"}, "model_response": response,
            "metric": {"extractive_match": score}}  # fmt: skip


def log_name(model: str) -> str:
    return model.replace("/", "_")


def _lm_eval(root: Path, model: str) -> Path:
    rows = [lm_eval_row(k, x, metrics=["acc", "f1"], f1=2) for k, x in enumerate(RIGHT[model])]
    return lm_eval(root, model, rows)


def _samples(model: str) -> list[dict[str, Any]]:
    own = {model: {"output_tokens": 20}}
    return [sample(k, "IC"[x], model_usage=own) for k, x in enumerate(RIGHT[model])]


def _inspect_json(root: Path, model: str) -> Path:
    path = root / f"{log_name(model)}.json"
    return inspect_json(path, _samples(model), inspect_header(model))


def _inspect_eval(root: Path, model: str) -> Path:
    members = {"header.json": inspect_header(model), "summaries.json": _samples(model)}
    packed = {name: json.dumps(value).encode() for name, value in members.items()}
    return write_zip(root / f"{log_name(model)}.eval", packed, method=0)


def _inspect_packed(root: Path, model: str) -> Path:
    path = root / f"{log_name(model)}.eval"
    return inspect_eval(path, _samples(model), inspect_header(model))


def _helm(root: Path, model: str) -> Path:
    return helm(root, model, [instance(f"i{k}", x) for k, x in enumerate(RIGHT[model])])


def _eee(root: Path, model: str) -> Path:
    about = {"model_id": model, "evaluation_name": "eee"}
    rows = [eee_row(str(k), x, **about) for k, x in enumerate(RIGHT[model])]
    return eee(root, rows, name=log_name(model))


def _promptfoo(root: Path, model: str) -> Path:
    rows = [promptfoo_row(k, model, x) for k, x in enumerate(RIGHT[model])]
    return promptfoo(root / f"{log_name(model)}.json", rows, description="capitals")


def _deepeval(root: Path, model: str) -> Path:
    cases = [deepeval_case(k, x) for k, x in enumerate(RIGHT[model])]
    return deepeval(root / f"{log_name(model)}.json", model, cases)


def _langfuse(root: Path, model: str) -> Path:
    rows = [langfuse_row(k, model, x) for k, x in enumerate(RIGHT[model])]
    return write_json(root / f"{log_name(model)}.json", rows)


def _langfuse_bucket(root: Path, model: str) -> Path:
    project = langfuse_export(root / log_name(model), model, RIGHT[model], "json")
    return project / "observations_v2" / "2026-11-20T00-00-00.json"


def _opencompass(root: Path, model: str) -> Path:
    details = {str(k): {"correct": bool(x)} for k, x in enumerate(RIGHT[model])}
    return opencompass(root, log_name(model), details)


def _evalplus(root: Path, model: str) -> Path:
    tasks = {f"HumanEval/{k}": [{"base_status": "pass" if x else "fail", "plus_status": None}]
             for k, x in enumerate(RIGHT[model])}  # fmt: skip
    return evalplus(root, f"{model.replace('/', '--')}.eval_results.json", tasks)


def _swebench(root: Path, model: str) -> Path:
    right = [f"i{k}" for k, x in enumerate(RIGHT[model]) if x]
    wrong = [f"i{k}" for k, x in enumerate(RIGHT[model]) if not x]
    name = f"{model.replace('/', '__')}.run.json"
    return swebench(root, name, resolved_ids=right, unresolved_ids=wrong)


def _lighteval(root: Path, model: str) -> Path:
    return lighteval(root, model, [lighteval_row(str(k), x) for k, x in enumerate(RIGHT[model])])


Write = Callable[[Path, str], Path]
LOGS: dict[str, Write] = {
    "inspect .json": _inspect_json,
    "inspect .eval": _inspect_eval,
    "inspect .eval, packed": _inspect_packed,
    "HELM": _helm,
    "lighteval": _lighteval,
    "lm-eval": _lm_eval,
    "Every Eval Ever": _eee,
    "EvalPlus": _evalplus,
    "SWE-bench": _swebench,
    "OpenCompass": _opencompass,
    "promptfoo": _promptfoo,
    "DeepEval": _deepeval,
    "Langfuse": _langfuse,
    "Langfuse, bucket": _langfuse_bucket,
}
"""Of each harness: what writes the log of one model, with the same answers as in every other.

OpenCompass knows models by a name of its own, without a slash.
"""

"""Test runs of DeepEval: ``test_run_<time>.json`` in its results folder, ``.latest_run_full.json``.

Their structure is that of `TestRun` (``deepeval/test_run/test_run.py``), `LLMApiTestCase`,
`ConversationalApiTestCase` (``deepeval/test_run/api.py``) and `MetricData`
(``deepeval/tracing/api.py``) of DeepEval 4.3, with aliases as keys and without null values.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.column_roles import SUBJECT_NAMES, plain_name
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.json_files import read_json
from bayesirt.data.readers.json_values import (
    are_objects,
    hash_of,
    length_of,
    name_at,
    part_of,
    said_at,
    score_at,
)
from bayesirt.errors import ResponseError

NAME = "DeepEval"
PASS = "pass"
_CASES = ("testCases", "conversationalTestCases")
_ASKED = ("input", "expectedOutput", "scenario", "expectedOutcome", "context")
"""Fields of a test case that describe the question, not the answer."""


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file holds a test run, judged by its ending and its first bytes."""
    return path.suffix == ".json" and b'"testCases"' in head and (
        b'"metricsData"' in head or b'"actualOutput"' in head or b'"conversational' in head
    )  # fmt: skip


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read a test run, whose only subject is the model that its hyperparameters name.

    Without such a hyperparameter, it is the run's identifier, or else the file's name. A repeated
    test case is one item with several trials. The score is whether it passed, or with ``--metric``
    the score of a metric. Cases in which a metric failed to score are left out.
    """
    run = read_json(path)
    cases = [case for key in _CASES for case in _list(run, key)]
    if not cases:
        raise NoAnswersError("it holds no test case; run the tests again, or leave the file out")
    contents = [_content(case) for case in cases]
    names = [name_at(case, "name", f"at test case {k + 1}") for k, case in enumerate(cases)]
    texts: dict[str, set[str]] = {}
    for name, content in zip(names, contents, strict=True):
        texts.setdefault(name, set()).add(content)
    answers, errors = [], 0
    trials: Counter[str] = Counter()
    for name, content, case in zip(names, contents, cases, strict=True):
        item = name if len(texts[name]) == 1 else f"{name} ({content[:6]})"
        scores, failed = _scores(case)
        if failed:
            errors += 1
            continue
        length = length_of(case.get("outputTokenCount"))
        answers.append(Answer(item, scores, trials[item], length, content))
        trials[item] += 1
    subject, benchmark = _subject(run, path), _benchmark(run)
    judges = {
        str(metric.get("name")): judge
        for case in cases
        for metric in _list(case, "metricsData")
        if (judge := said_at(metric, "evaluationModel", ""))
    }
    return [
        choose_scores(
            NAME, subject, benchmark, answers, choices,
            usual=PASS, left_out={"error": errors}, judges=judges,
        )
    ]  # fmt: skip


def _list(record: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in a list, which may be absent."""
    objects = record.get(key)
    if objects is None:
        return []
    if not are_objects(objects):
        raise ResponseError(
            f"`{key}` is not a list of objects; make the log again, or leave it out"
        )
    return objects


def _content(case: Mapping[str, Any]) -> str:
    return hash_of(json.dumps([case.get(key) for key in _ASKED], sort_keys=True))


def _scores(case: Mapping[str, Any]) -> tuple[dict[str, float], bool]:
    """Return whether a case passed, each metric's score, and whether a metric failed to score."""
    metrics = _list(case, "metricsData")
    scores = {PASS: score_at(case, "success")}
    scores |= {str(metric.get("name")): score_at(metric, "score") for metric in metrics}
    return scores, any(metric.get("error") for metric in metrics)


def _subject(run: Mapping[str, Any], path: Path) -> str:
    for key, value in part_of(run, "hyperparameters").items():
        if plain_name(str(key)) in SUBJECT_NAMES and isinstance(value, str) and value.strip():
            return value
    return said_at(run, "identifier", path.stem)


def _benchmark(run: Mapping[str, Any]) -> str:
    return said_at(run, "datasetAlias", Path(said_at(run, "testFile", "deepeval")).stem)


DEEPEVAL = Harness(NAME, _recognises, read)

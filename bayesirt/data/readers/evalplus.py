"""Results of EvalPlus (HumanEval+, MBPP+): ``<samples>.eval_results.json``."""

import math
import re
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.json_files import read_json
from bayesirt.data.readers.json_values import object_at
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

NAME = "EvalPlus"
_FILE = re.compile(r"(.*?)[._]?eval_results\.json")
_MADE_BY = re.compile(
    r"(_(openai|hf|vllm|anthropic|bedrock|google|ollama|gptqmodel|mistral))?_temp_[\d.]+"
)


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file holds results, judged by its ending and its first bytes."""
    return _FILE.fullmatch(path.name) is not None and b'"eval"' in head


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read results.

    Several samples of a task are trials. ``--`` in the file's name becomes a slash, which the
    harness had replaced. A timeout is a failure.
    """
    tasks = object_at(read_json(path), "eval")
    if not tasks:
        raise NoAnswersError("its `eval` is empty; make the results again, or leave the file out")
    by_dataset: dict[str, list[Answer]] = {}
    for task, samples in tasks.items():
        dataset, slash, item = task.partition("/")
        answers = [
            Answer(item if slash else task, scores, trial)
            for trial, scores in enumerate(_samples(samples, task))
        ]
        by_dataset.setdefault(dataset if slash else "EvalPlus", []).extend(answers)
    subject = _subject(path)
    return [
        choose_scores(NAME, subject, dataset, answers, choices)
        for dataset, answers in by_dataset.items()
    ]


def _samples(samples: Any, task: str) -> list[dict[str, float]]:
    """Return the scores of each sample; older files store them by column."""
    if isinstance(samples, dict):
        base, plus = samples.get("base"), samples.get("plus") or []
        if isinstance(base, list) and isinstance(plus, list):
            statuses = [
                (_first(status), _first(plus[k]) if k < len(plus) else None)
                for k, status in enumerate(base)
            ]
            return [_passed(*status) for status in statuses]
    elif isinstance(samples, list) and all(isinstance(sample, dict) for sample in samples):
        return [_passed(s.get("base_status"), s.get("plus_status")) for s in samples]
    raise ResponseError(f"`eval` holds no samples at {one_line(task)!r}; make the results again")


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list) and result else None


def _passed(base: Any, plus: Any) -> dict[str, float]:
    return {
        "base": math.nan if base is None else float(base == "pass"),
        "plus": math.nan if plus is None else float(base == plus == "pass"),
    }


def _subject(path: Path) -> str:
    match = _FILE.fullmatch(path.name)
    samples = (match[1] if match else "") or path.absolute().parent.name
    model = _MADE_BY.sub("", samples)
    return (model or samples).replace("--", "/", 1)


EVALPLUS = Harness(NAME, _recognises, read)

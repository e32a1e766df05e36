"""Instance rows of Every Eval Ever: ``<id>_samples.jsonl``."""

import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, choose_scores
from bayesirt.data.readers.json_files import read_beside, read_json_lines
from bayesirt.data.readers.json_values import (
    as_number,
    length_of,
    name_at,
    object_at,
    part_of,
    text_at,
)
from bayesirt.data.readers.lm_eval import LM_EVAL

NAME = "Every Eval Ever"
_LM_EVAL = frozenset({"lm_eval", "lm-eval", "lm-evaluation-harness"})
_ENDING = "_samples.jsonl"


class _Group(NamedTuple):
    """Key of rows with the same subject, benchmark and filter."""

    subject: str
    benchmark: str
    filter: str


class _Samples(NamedTuple):
    """Answers by item and its number of earlier occurrences, and counts by item and metric."""

    answers: dict[tuple[str, int], Answer]
    scored: Counter[tuple[str, str]]


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file holds instance rows, judged by its ending and its first bytes."""
    return path.suffix == ".jsonl" and b'"evaluation_id"' in head and b'"sample_id"' in head


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read instance rows.

    There is one row per sample and metric. Rows with an error were not answered and are left out.
    Rows converted from lm-evaluation-harness count as its answers, so that the same answers in its
    own log count once.
    """
    from_lm_eval = _library(path) in _LM_EVAL
    groups: dict[_Group, _Samples] = {}
    errors: Counter[_Group] = Counter()
    for number, row in read_json_lines(path):
        place = f"in line {number}"
        group = _group(row, place)
        samples = groups.setdefault(group, _Samples({}, Counter()))
        if row.get("error"):
            errors[group] += 1
        else:
            _collect(samples, row, group.filter, place, from_lm_eval)
    logs = []
    for subject, benchmark in dict.fromkeys((g.subject, g.benchmark) for g in groups):
        filters = [g.filter for g in groups if g[:2] == (subject, benchmark)]
        group = _Group(subject, benchmark, choices.pick("filter", benchmark, filters))
        logs.append(
            choose_scores(
                LM_EVAL.name if from_lm_eval else NAME,
                subject,
                benchmark,
                list(groups[group].answers.values()),
                choices,
                filter=group.filter,
                left_out={"an error, no answer": errors[group]},
            )
        )
    return logs


def _aside(path: Path) -> str | None:
    """Return "" for totals that accompany instance rows."""
    rows_path = path.with_name(path.stem + _ENDING)
    return "" if path.suffix == ".json" and rows_path.is_file() else None


def _library(path: Path) -> str:
    """Return the harness that made the answers, according to the file of totals."""
    totals = path.with_name(path.name.removesuffix(_ENDING) + ".json")
    if not (path.name.endswith(_ENDING) and totals.is_file()):
        return ""
    return str(part_of(read_beside(totals), "eval_library").get("name", ""))


def _group(row: dict[str, Any], place: str) -> _Group:
    through = part_of(row, "metadata").get("filter")
    through = through if isinstance(through, str) else ""
    benchmark = text_at(row, "evaluation_name", place).removesuffix(f"/{through}")
    return _Group(text_at(row, "model_id", place), benchmark, through)


def _collect(
    samples: _Samples, row: dict[str, Any], through: str, place: str, from_lm_eval: bool
) -> None:
    """Add a row's score to those of the same sample by other metrics."""
    item = name_at(row, "sample_id", place)
    metric = str(row.get("evaluation_result_id") or "score").removesuffix(f":{through}")
    evaluation = object_at(row, "evaluation", place)
    score = as_number(evaluation.get("score"))
    if score is None or math.isnan(score):
        score = as_number(evaluation.get("is_correct"))
    key = item, samples.scored[item, metric]
    samples.scored[item, metric] += 1
    answer = samples.answers.get(key) or Answer(
        item,
        {},
        latency=length_of(part_of(row, "token_usage").get("output_tokens")),
        content=_content(row, from_lm_eval),
    )
    scores = {**answer.scores} if score is None else {**answer.scores, metric: score}
    samples.answers[key] = answer._replace(scores=scores)


def _content(row: dict[str, Any], from_lm_eval: bool) -> str:
    """Return the item's hash, as lm-evaluation-harness computes it for its answers."""
    if not from_lm_eval:
        return str(row.get("sample_hash") or "")
    return str(part_of(row, "metadata").get("doc_hash") or "")


EVERY_EVAL_EVER = Harness(NAME, _recognises, read, _aside)

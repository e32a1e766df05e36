"""Observations of Langfuse, exported from their table as JSON or JSON Lines, or to a bucket.

A row of the table is an `Observation` (``packages/shared/src/domain/observations.ts`` of
langfuse/langfuse) with an additional column for each score, which holds the list of its values or
null (``worker/src/features/database-read-stream/observation-stream.ts`` and
`prepareScoresForOutput` in ``getDatabaseReadStream.ts`` there).
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.json_files import parse_json, read_json_lines, read_whole
from bayesirt.data.readers.json_values import (
    are_objects,
    as_number,
    hash_of,
    length_of,
    part_of,
    said_at,
)
from bayesirt.data.readers.langfuse_export import exported_rows, leads_export, of_export
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

NAME = "Langfuse"
_ENDINGS = (".json", ".jsonl")
_SHOWN = 40


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file holds observations, judged by its path, or ending and first bytes."""
    keys = (b'"traceId"', b'"parentObservationId"')
    of_table = path.suffix in _ENDINGS and all(key in head for key in keys)
    return of_table or leads_export(path)


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read observations; the subjects are their models.

    An item is the model's `input`, and a benchmark is the observation's name. Repeated inputs to a
    model are trials. Several values of a score are averaged. Scores that are words are ignored, as
    are observations without a model, such as spans.
    """
    answers: dict[tuple[str, str], list[Answer]] = {}
    errors: Counter[tuple[str, str]] = Counter()
    trials: Counter[tuple[str, str, str]] = Counter()
    for row in _rows(path):
        subject, benchmark = said_at(row, "model", ""), said_at(row, "name", path.stem)
        if not subject or row.get("input") is None:
            continue
        group = answers.setdefault((subject, benchmark), [])
        if row.get("level") == "ERROR":
            errors[subject, benchmark] += 1
            continue
        item, content = _item(row["input"])
        trial = trials[subject, benchmark, item]
        trials[subject, benchmark, item] += 1
        group.append(Answer(item, _scores(row), trial, _length(row), content))
    if not any(answer.scores for group in answers.values() for answer in group):
        raise NoAnswersError(
            "no observation with a model and an input has a numeric score; score the generations "
            "themselves, not their traces, and export again"
        )
    return [
        choose_scores(
            NAME, subject, benchmark, group, choices,
            left_out={"error": errors[subject, benchmark]},
        )
        for (subject, benchmark), group in answers.items()
        if any(answer.scores for answer in group) or errors[subject, benchmark]
    ]  # fmt: skip


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    if leads_export(path):
        return exported_rows(path)
    if path.suffix == ".jsonl":
        return (row for _, row in read_json_lines(path))
    rows = parse_json(read_whole(path))
    if not are_objects(rows):
        raise ResponseError("it holds no list of observations; export it again, or leave it out")
    return rows


def _item(asked: object) -> tuple[str, str]:
    """Return a unique name for an input, and its hash."""
    text = asked if isinstance(asked, str) else json.dumps(asked, sort_keys=True)
    content = hash_of(text)
    last = asked[-1] if isinstance(asked, list) and asked else None
    query = last.get("content") if isinstance(last, dict) else None  # Last message of a chat.
    return f"{one_line(query if isinstance(query, str) else text, _SHOWN)} ({content[:8]})", content


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean of each score; only scores are lists of numbers in an observation."""
    scores = {}
    for name, values in row.items():
        if isinstance(values, list) and values:
            numbers = [number for value in values if (number := as_number(value)) is not None]
            if len(numbers) == len(values) and not any(map(math.isnan, numbers)):
                scores[str(name)] = math.fsum(numbers) / len(numbers)
    return scores


def _length(row: Mapping[str, Any]) -> float:
    """Return the number of tokens of the answer."""
    return length_of(part_of(row, "usageDetails").get("output"))


LANGFUSE = Harness(NAME, _recognises, read, of_export)

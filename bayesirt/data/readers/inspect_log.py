"""Logs of inspect_ai: ``.eval`` archives and ``.json`` files, read without inspect_ai."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.inspect_archive import read_members
from bayesirt.data.readers.json_files import read_json
from bayesirt.data.readers.json_values import as_number, length_of, name_at, object_at, text_at
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

NAME = "inspect"
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HEAD = (b'"status"', b'"eval"', b'"run_id"', b'"task_id"')
_JOURNAL = re.compile(r"_journal/summaries/(\d+)\.json")


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is a log, from its ending or its first bytes."""
    if path.suffix.lower() == ".eval":
        return True
    return path.suffix.lower() == ".json" and all(words in head for words in _HEAD)


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read a log.

    Values count as inspect_ai counts them: C is 1, P is .5, I and N (no answer) are 0; yes, true,
    no, false and numbers are what they say. Epochs are trials. Samples that ended in an error, were
    not finished, or were invalidated were not answered and are left out. The length is that of the
    model's output tokens; reasoning tokens are among them, and are added if they are more.
    """
    header, samples = _load(path)
    about = object_at(header, "eval")
    subject, task = text_at(about, "model", "in `eval`"), text_at(about, "task", "in `eval`")
    answers, left_out = [], Counter[str]()
    for number, sample in enumerate(samples, 1):
        place = f"in sample {number}"
        if not isinstance(sample, dict):
            raise ResponseError(f"sample {number} is not an object; make the log again")
        why = _unanswered(sample)
        if why:
            left_out[why] += 1
            continue
        answers.append(
            Answer(
                name_at(sample, "id", place),
                _scores(object_at(sample, "scores", place)),
                _epoch(sample, place),
                _tokens(sample, subject),
            )
        )
    status = header.get("status", "started")
    notes = () if status == "success" else (f"the log of {one_line(task)} is unfinished",)
    return [choose_scores(NAME, subject, task, answers, choices, left_out=left_out, notes=notes)]


def _aside(path: Path) -> str | None:
    """Say that a list of logs, as inspect_ai puts into a folder, holds none itself."""
    return "" if path.name in {"logs.json", "listing.json", "eval-set.json"} else None


def _load(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return what a log says of itself, and its samples or their summaries."""
    if path.suffix.lower() != ".eval":
        header = read_json(path)
        samples = header.get("samples")
    else:
        found = read_members(path, _wanted)
        header, *parts = found.values()
        if not isinstance(header, dict) or not all(isinstance(part, list) for part in parts):
            raise ResponseError("its members are not those of a log; leave it out")
        samples = [sample for part in parts for sample in part]
    if samples is None or samples == []:
        raise NoAnswersError("it holds no samples; run inspect with --log-samples, or leave it out")
    if not isinstance(samples, list):
        raise ResponseError("`samples` is not a list; make the log again, or leave it out")
    return header, samples


def _wanted(members: list[str]) -> list[str]:
    """Return the members to read: an unfinished log has only a journal."""
    header = [name for name in ("header.json", "_journal/start.json") if name in members][:1]
    if not header:
        raise ResponseError("it has neither header nor journal, so it is not a log; leave it out")
    if "summaries.json" in members:
        return [*header, "summaries.json"]
    numbered = {int(m[1]): m[0] for name in members if (m := _JOURNAL.fullmatch(name))}
    return header + [numbered[k] for k in sorted(numbered)]


def _unanswered(sample: Mapping[str, Any]) -> str:
    """Return why a sample is no answer, or nothing."""
    if sample.get("error"):
        return "an error, no answer"
    if sample.get("completed") is False:
        return "not finished"
    if sample.get("invalidation"):
        return "invalidated"
    return "" if sample.get("scores") else "no score"


def _scores(scores: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float | None] = {}
    for scorer, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else None
        if isinstance(value, dict):
            found |= {f"{scorer}/{key}": _as_score(part) for key, part in value.items()}
        else:
            found[scorer] = _as_score(value)
    return {name: score for name, score in found.items() if score is not None}


def _as_score(value: object) -> float | None:
    if not isinstance(value, str):
        return as_number(value)
    if value in _LETTERS:
        return _LETTERS[value]
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    try:
        return float(value)
    except ValueError:
        return None


def _epoch(sample: Mapping[str, Any], place: str) -> int:
    epoch = sample.get("epoch", 1)
    if not isinstance(epoch, int):
        raise ResponseError(f"`epoch` is not a whole number {place}; make the log again")
    return epoch


def _tokens(sample: Mapping[str, Any], model: str) -> float:
    usage = sample.get("model_usage")
    own = usage.get(model) if isinstance(usage, dict) else None
    if not isinstance(own, dict):
        return math.nan
    output, reasoning = length_of(own.get("output_tokens")), length_of(own.get("reasoning_tokens"))
    return output + reasoning if reasoning > output else output


INSPECT = Harness(NAME, _recognises, read, _aside)

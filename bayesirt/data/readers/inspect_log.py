"""Logs of inspect_ai: ``.eval`` archives and ``.json`` files, read without inspect_ai."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.inspect_archive import read_members
from bayesirt.data.readers.json_files import read_json
from bayesirt.data.readers.json_values import (
    as_number,
    length_of,
    name_at,
    object_at,
    part_of,
    text_at,
)
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

NAME = "inspect"
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HEAD = (b'"status"', b'"eval"', b'"run_id"', b'"task_id"')
_JOURNAL = re.compile(r"_journal/summaries/(\d+)\.json")


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is a log, judged by its ending or its first bytes."""
    if path.suffix.lower() == ".eval":
        return True
    return path.suffix.lower() == ".json" and all(words in head for words in _HEAD)


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read a log.

    Values count as in inspect_ai: C is 1, P is .5, I and N (no answer) are 0; yes, true, no, false
    and numbers have their usual values. Epochs are trials. Samples that ended in an error, were not
    finished or were invalidated are left out. The length is the number of the model's output
    tokens; these include reasoning tokens unless there are more of those, which are then added. The
    log records the solver, the task's arguments, and the judge of scores that a model graded.
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
    graders = _graders(about)
    scorers = {name: name.partition("/")[0] for answer in answers for name in answer.scores}
    judges = {name: graders[scorer] for name, scorer in scorers.items() if scorer in graders}
    told = {**_texts(about.get("task_args")), **_solver(header)}
    return [
        choose_scores(
            NAME, subject, task, answers, choices,
            left_out=left_out, notes=notes, told=told, judges=judges,
        )
    ]  # fmt: skip


def _aside(path: Path) -> str | None:
    """Return "" for the list of logs that inspect_ai writes into a folder."""
    return "" if path.name in {"logs.json", "listing.json", "eval-set.json"} else None


def _load(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the header of a log, and its samples or their summaries."""
    if path.suffix.lower() != ".eval":
        header = read_json(path)
        samples = header.get("samples")
    else:
        members = read_members(path, _wanted)
        header, *parts = members.values()
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


def _solver(header: Mapping[str, Any]) -> dict[str, str]:
    """Return the solver by its name or its steps."""
    named, steps = header["eval"].get("solver"), part_of(header, "plan").get("steps")
    parts = [_texts(step).get("solver", "") for step in steps or ()]
    solver = str(named or " + ".join(filter(None, parts)))
    return {"solver": solver} if solver else {}


def _graders(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the grading model of each scorer, under the scorer's name in the scores."""
    judges: dict[str, str] = {}
    named: list[str] = []
    for scorer in about.get("scorers") or ():
        base = _texts(scorer).get("name", "").rpartition("/")[2]
        again = (f"{base}{k}" for k in itertools.count(1))  # As inspect_ai names duplicates.
        named.append(next(x for x in itertools.chain([base], again) if x not in named))
        options = _texts(scorer.get("options")) if base else {}
        role = options.get("model_role", "grader" if base.startswith("model_graded") else "")
        by_role = _texts(part_of(about, "model_roles").get(role))
        if judge := options.get("model") or by_role.get("model"):
            judges[named[-1]] = judge
    return judges


def _texts(given: object) -> dict[str, str]:
    """Return as text those values of an object that are text, numbers or lists of text."""
    texts = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        several = isinstance(value, list) and all(isinstance(x, str) for x in value)
        if several or isinstance(value, str | int | float):
            texts[str(name)] = ", ".join(value) if isinstance(value, list) else str(value)
    return texts


def _unanswered(sample: Mapping[str, Any]) -> str:
    """Return why a sample is not an answer, or an empty string."""
    if sample.get("error"):
        return "an error, no answer"
    if sample.get("completed") is False:
        return "not finished"
    if sample.get("invalidation"):
        return "invalidated"
    return "" if sample.get("scores") else "no score"


def _scores(scores: Mapping[str, Any]) -> dict[str, float]:
    numbers: dict[str, float | None] = {}
    for scorer, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else None
        if isinstance(value, dict):
            numbers |= {f"{scorer}/{key}": _as_score(part) for key, part in value.items()}
        else:
            numbers[scorer] = _as_score(value)
    return {name: score for name, score in numbers.items() if score is not None}


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
    use = part_of(part_of(sample, "model_usage"), model)
    output, reasoning = length_of(use.get("output_tokens")), length_of(use.get("reasoning_tokens"))
    return output + reasoning if reasoning > output else output


INSPECT = Harness(NAME, _recognises, read, _aside)

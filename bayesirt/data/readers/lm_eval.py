"""Sample logs of lm-evaluation-harness (``--log_samples``)."""

import re
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, choose_scores
from bayesirt.data.readers.json_files import read_beside, read_json_lines
from bayesirt.data.readers.json_values import name_at, numbers_in
from bayesirt.errors import ResponseError

NAME = "lm-eval"
_DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(.+)_({_DATE})\.jsonl")
_RESULTS = re.compile(rf"results_({_DATE})\.json")
_NO_SCORES = frozenset(
    {
        "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
        "doc_hash", "prompt_hash", "target_hash",
    }
)  # fmt: skip


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is a sample log, from its name and its first bytes."""
    named = _SAMPLES.fullmatch(path.name) is not None
    return named and (b'"doc_id"' in head or not head.strip())


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read a sample log; ``fewshot`` is the number of examples in the prompt.

    A log has one row per document and filter; the rows of one filter are read. With ``repeats``,
    the harness scores what the filter keeps, by default only the first answer, so that a row is one
    answer, not several trials.
    """
    match = _SAMPLES.fullmatch(path.name)
    if match is None:
        raise ResponseError("its name is not samples_<task>_<date>.jsonl; restore the name")
    task, date = match.groups()
    subject, shots, notes = _model(path, date, task)
    by_filter: dict[str, list[Answer]] = {}
    for number, row in read_json_lines(path):
        place = f"in line {number}"
        through = name_at(row, "filter", place) if "filter" in row else "none"
        item, content = name_at(row, "doc_id", place), str(row.get("doc_hash", ""))
        by_filter.setdefault(through, []).append(Answer(item, _scores(row), content=content))
    chosen = choices.pick("filter", task, list(by_filter))
    return [
        choose_scores(
            NAME, subject, task, by_filter[chosen], choices, filter=chosen, notes=notes, told=shots
        )
    ]  # fmt: skip


def _aside(path: Path) -> str | None:
    """Return "" for totals that accompany a sample log, else why they are left out."""
    match = _RESULTS.fullmatch(path.name)
    if match is None:
        return None
    if any(_dated(other, match[1]) for other in path.parent.glob("samples_*.jsonl")):
        return ""
    return "totals without answers; run lm-eval with --log_samples"


def _dated(path: Path, date: str) -> bool:
    match = _SAMPLES.fullmatch(path.name)
    return match is not None and match[2] == date


def _scores(row: dict[str, Any]) -> dict[str, float]:
    """Return the scores of a row; rows of older versions do not list their metrics."""
    named = row.get("metrics")
    if not isinstance(named, list):
        named = [key for key in row if key not in _NO_SCORES]
    return numbers_in({name: row.get(name) for name in named if isinstance(name, str)})


def _model(path: Path, date: str, task: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return the model's name, the number of examples, and a note if the folder names the model."""
    folder = path.absolute().parent
    results = sorted(folder.glob("*_*.json"))
    dated = [p for p in results if p.name.endswith(f"_{date}.json")]
    contents = [
        read_beside(other) for other in dated or [p for p in results if _RESULTS.fullmatch(p.name)]
    ]
    shots = [n for one in contents if isinstance(n := one.get("n-shot"), dict) and task in n]
    fewshot = {"fewshot": str(shots[0][task])} if len(shots) == 1 else {}
    names = {x for one in contents if isinstance(x := one.get("model_name"), str) and x.strip()}
    if len(names) == 1:
        return names.pop(), fewshot, ()
    by_folder = folder.name.replace("__", "/", 1)
    return by_folder, fewshot, ("no results file names the model, so its folder's name is used",)


LM_EVAL = Harness(NAME, _recognises, read, _aside)

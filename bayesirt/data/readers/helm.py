"""Runs of HELM: a folder with ``per_instance_stats.json`` and ``run_spec.json``."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, choose_scores
from bayesirt.data.readers.json_files import parse_json, read_beside, read_whole
from bayesirt.data.readers.json_values import as_number, length_of, name_at, object_at, text_at
from bayesirt.errors import ResponseError

NAME = "HELM"
_STATS, _SPEC = "per_instance_stats.json", "run_spec.json"
_LENGTHS = ("num_output_tokens", "num_completion_tokens")
_BOOKKEEPING = re.compile(
    r"(num|max|finish_reason|training|inference|prompt|batch|logprob|perplexity|bits_per|"
    r"estimated)(_.*)?"
)
"""Statistics of a run that do not score answers."""


def _recognises(path: Path, _head: bytes) -> bool:
    """Return whether a file holds a run's statistics per instance, judged by its name."""
    return path.name == _STATS


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read a run.

    The benchmark is the run's name without the model. Only original instances count; perturbed
    copies are left out. Repeats with other examples in the prompt (``train_trial_index``) are
    trials.
    """
    spec_path = path.absolute().with_name(_SPEC)
    if not spec_path.is_file():
        raise ResponseError(f"{_SPEC} is missing next to it; copy the whole folder of the run")
    spec = read_beside(spec_path)
    subject = text_at(object_at(spec, "adapter_spec"), "model", "in `adapter_spec`")
    instances = parse_json(read_whole(path))
    if not isinstance(instances, list):
        raise ResponseError("it holds no list of instances; copy the run again, or leave it out")
    answers, left_out = [], Counter[str]()
    for number, instance in enumerate(instances, 1):
        if not isinstance(instance, dict):
            raise ResponseError(f"instance {number} is not an object; copy the run again")
        if instance.get("perturbation"):
            left_out["a perturbed copy"] += 1
        else:
            answers.append(_answer(instance, f"in instance {number}"))
    benchmark = _without_model(text_at(spec, "name", f"in {_SPEC}"))
    return [choose_scores(NAME, subject, benchmark, answers, choices, left_out=left_out)]


def _aside(path: Path) -> str | None:
    """Return "" for the other files of a run."""
    return "" if path.suffix == ".json" and path.with_name(_STATS).is_file() else None


def _answer(instance: dict[str, Any], place: str) -> Answer:
    stats = instance.get("stats")
    if not isinstance(stats, list):
        raise ResponseError(f"`stats` is missing or not a list {place}; copy the run again")
    means: dict[str, float] = {}
    for stat in stats:
        name = object_at(stat, "name", place) if isinstance(stat, dict) else {}
        mean = as_number(stat.get("mean")) if name and not name.get("perturbation") else None
        if mean is not None:
            means.setdefault(text_at(name, "name", place), mean)
    lengths = (length_of(means.get(key)) for key in _LENGTHS)
    trial = instance.get("train_trial_index", 0)
    if not isinstance(trial, int):
        raise ResponseError(
            f"`train_trial_index` is not a whole number {place}; copy the run again"
        )
    return Answer(
        name_at(instance, "instance_id", place),
        {name: mean for name, mean in means.items() if not _BOOKKEEPING.fullmatch(name)},
        trial,
        next((length for length in lengths if length > 0), math.nan),
    )


def _without_model(run: str) -> str:
    """Return a run's name without its model, which all runs of a benchmark share."""
    scenario, _, arguments = run.partition(":")
    parts = [a for a in arguments.split(",") if a and not a.startswith(("model=", "model_deploy"))]
    return f"{scenario}:{','.join(parts)}" if parts else scenario


HELM = Harness(NAME, _recognises, read, _aside)

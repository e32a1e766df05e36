"""Results of OpenCompass with details: ``results/<model>/<dataset>.json``."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.json_files import read_beside, read_json
from bayesirt.data.readers.json_values import length_of, numbers_in
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

NAME = "OpenCompass"


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file holds results, judged by its folders and its first bytes."""
    folder = path.absolute().parent
    if path.suffix != ".json" or folder.parent.name != "results":
        return False
    return b'"details"' in head or _predictions(path).is_file()


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read results of one model on one dataset.

    An item is named by its position in the dataset. A list of values holds one per trial.
    """
    details = read_json(path).get("details")
    if isinstance(details, list):
        details = {str(k): entry for k, entry in enumerate(details)}
    if not isinstance(details, dict):
        raise NoAnswersError("totals without answers; run OpenCompass with --dump-eval-details")
    lengths = _lengths(path)
    answers = []
    for item, entry in details.items():
        if item == "type":
            continue
        if not isinstance(entry, dict):
            raise ResponseError(
                f"`details` has no object at {one_line(item)!r}; make the results again"
            )
        answers += [
            Answer(item, scores, trial, lengths.get(item, math.nan))
            for trial, scores in enumerate(_trials(entry))
        ]
    return [choose_scores(NAME, path.absolute().parent.name, path.stem, answers, choices)]


def _aside(path: Path) -> str | None:
    """Return "" for predictions, which are read with their results."""
    folder = path.absolute().parent
    if path.suffix != ".json" or folder.parent.name != "predictions":
        return None
    return "" if (folder.parents[1] / "results" / folder.name / path.name).is_file() else None


def _predictions(path: Path) -> Path:
    folder = path.absolute().parent
    return folder.parents[1] / "predictions" / folder.name / path.name


def _lengths(path: Path) -> dict[str, float]:
    predictions = _predictions(path)
    if not predictions.is_file():
        return {}
    records = read_beside(predictions)
    return {k: length_of(v.get("res_length")) for k, v in records.items() if isinstance(v, dict)}


def _trials(entry: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the scores of each trial; all keys with lists as values have the same trials."""
    lists = {key: value for key, value in entry.items() if isinstance(value, list)}
    single = numbers_in({key: value for key, value in entry.items() if key not in lists})
    scored = {
        key: values
        for key, values in lists.items()
        if values and all(isinstance(v, int | float) for v in values)
    }
    if single or not scored:
        return [single]
    n_trials = max(map(len, scored.values()))
    return [
        numbers_in({key: values[k] for key, values in scored.items() if k < len(values)})
        for k in range(n_trials)
    ]


OPENCOMPASS = Harness(NAME, _recognises, read, _aside)

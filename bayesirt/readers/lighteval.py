"""Details of lighteval: ``details/<model>/<date>/details_<task>_<date>.parquet``."""

import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.readers.choices import Choices
from bayesirt.readers.harness import Answer, Harness, LogRows, choose_scores
from bayesirt.readers.json_values import length_of, numbers_in
from bayesirt.readers.tables import PARQUET_ERRORS

NAME = "lighteval"
_DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_DETAILS = re.compile(rf"details_(.+)_({_DATE})\.parquet")
_RESULTS = re.compile(rf"results_({_DATE})\.json")
_SCORES = ("metric", "metrics")
_WANTED = (*_SCORES, "doc.id", "model_response.output_tokens")
_AT_ONCE = 4096
"""Rows; each may hold thousands of tokens."""


def _recognises(path: Path, _head: bytes) -> bool:
    """Return whether a file holds details, from its name."""
    return _DETAILS.fullmatch(path.name) is not None


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read the details of one task.

    Parameters
    ----------
    path : Path
        The folders between ``details`` and the date name the model.
    choices : Choices

    Returns
    -------
    list of LogRows

    Raises
    ------
    ResponseError
        For a file that is damaged, and for a choice that is open.

    Notes
    -----
    The benchmark is the task with its number of examples, as in ``gsm8k|0``. Items are called by
    the document's ``id``, or by their position where there is none. The length is the number of
    output tokens, the mean of several samples.
    """
    match = _DETAILS.fullmatch(path.name)
    if match is None:
        raise ResponseError("its name is not details_<task>_<date>.parquet; give it its name back")
    answers: list[Answer] = []
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = set(file.schema_arrow.names)
            if names.isdisjoint(_SCORES):
                raise ResponseError("it has no column `metric`; run lighteval with --save-details")
            for batch in file.iter_batches(_AT_ONCE, columns=list(_WANTED)):
                answers += [_answer(row, len(answers) + k) for k, row in enumerate(_rows(batch))]
    except PARQUET_ERRORS as error:
        if isinstance(error, ResponseError):
            raise
        reason = one_line(str(error), 120)
        raise ResponseError(f"it is no whole Parquet file ({reason}); copy it again") from None
    return [choose_scores(NAME, _subject(path), match[1], answers, choices)]


def _aside(path: Path) -> str | None:
    """Say of a file of totals whether details stand beside it."""
    match = _RESULTS.fullmatch(path.name)
    parts = path.absolute().parts
    if match is None or "results" not in parts[:-1]:
        return None
    place = len(parts) - 1 - parts[::-1].index("results")
    details = Path(*parts[:place], "details", *parts[place + 1 : -1], match[1])
    return "" if details.is_dir() else None


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return batch.to_pylist()


def _answer(row: dict[str, Any], position: int) -> Answer:
    scores: Any = next((row[key] for key in _SCORES if row.get(key) is not None), {})
    if not isinstance(scores, dict):
        raise ResponseError(
            f"the scores of row {position + 1} are text, not numbers; run a newer lighteval"
        )
    doc, response = row.get("doc") or {}, row.get("model_response") or {}
    samples = response.get("output_tokens") or []
    lengths = [len(tokens) for tokens in samples if isinstance(tokens, list)]
    name = doc.get("id")
    return Answer(
        str(position) if name in (None, "") else str(name),
        numbers_in(scores),
        latency=length_of(sum(lengths) / len(lengths)) if lengths else math.nan,
    )


def _subject(path: Path) -> str:
    parts = path.absolute().parent.parts
    if "details" in parts[:-1]:
        return "/".join(parts[len(parts) - parts[::-1].index("details") : -1]) or parts[-1]
    return parts[-2:][0]


LIGHTEVAL = Harness(NAME, _recognises, read, _aside)

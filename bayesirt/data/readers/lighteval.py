"""Details of lighteval: ``details/<model>/<date>/details_<task>_<date>.parquet``."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from bayesirt.data.parquet_bounds import check_unpacked
from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, choose_scores
from bayesirt.data.readers.json_values import length_of, numbers_in
from bayesirt.data.readers.tables import PARQUET_ERRORS
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

NAME = "lighteval"
_DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_DETAILS = re.compile(rf"details_(.+)_({_DATE})\.parquet")
_RESULTS = re.compile(rf"results_({_DATE})\.json")
_SCORES = ("metric", "metrics")
_RESPONSE, _TOKENS = "model_response", "output_tokens"
_WANTED = (*_SCORES, "doc.id", f"{_RESPONSE}.{_TOKENS}")
_AT_ONCE = 32
"""Rows read at a time; each may hold many thousands of tokens."""


def _recognises(path: Path, _head: bytes) -> bool:
    """Return whether a file holds details, judged by its name."""
    return _DETAILS.fullmatch(path.name) is not None


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read the details of one task.

    The benchmark is the task with its number of examples, as in ``gsm8k|0``. Items are named by the
    document's ``id``, or by their position if there is none. The length is the number of output
    tokens, averaged over samples.
    """
    match = _DETAILS.fullmatch(path.name)
    if match is None:
        raise ResponseError("its name is not details_<task>_<date>.parquet; restore the name")
    answers: list[Answer] = []
    try:
        check_unpacked(path, decoded=_is_wanted)
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if len(set(names)) < len(names):
                raise ResponseError("it has a column twice; run lighteval again")
            if not {*_SCORES}.intersection(names):
                raise ResponseError("it has no column `metric`; run lighteval with --save-details")
            for batch in file.iter_batches(_AT_ONCE, columns=list(_WANTED)):
                answers += _answers(batch, len(answers))
    except PARQUET_ERRORS as error:
        if isinstance(error, ResponseError):
            raise
        reason = one_line(str(error), 120)
        raise ResponseError(f"it is not a whole Parquet file ({reason}); copy it again") from None
    return [choose_scores(NAME, _subject(path), match[1], answers, choices)]


def _aside(path: Path) -> str | None:
    """Return "" for totals that accompany details."""
    match = _RESULTS.fullmatch(path.name)
    parts = path.absolute().parts
    if match is None or "results" not in parts[:-1]:
        return None
    position = len(parts) - 1 - parts[::-1].index("results")
    details = Path(*parts[:position], "details", *parts[position + 1 : -1], match[1])
    return "" if details.is_dir() else None


def _is_wanted(path: str) -> bool:
    return any(path == column or path.startswith(f"{column}.") for column in _WANTED)


def _answers(batch: pa.RecordBatch, n_before: int) -> list[Answer]:
    rows = batch.drop_columns([_RESPONSE]) if _RESPONSE in batch.schema.names else batch
    pairs = zip(rows.to_pylist(), _lengths(batch), strict=True)
    return [_answer(row, n_before + k, length) for k, (row, length) in enumerate(pairs)]


def _lengths(batch: pa.RecordBatch) -> list[float]:
    """Return the number of tokens of each row, averaged over samples."""
    lengths = np.full(batch.num_rows, math.nan)
    if _RESPONSE not in batch.schema.names:
        return lengths.tolist()
    tokens = pa.compute.struct_field(batch.column(_RESPONSE), _TOKENS)
    if _is_list(tokens.type) and _is_list(tokens.type.value_type):
        counts = pa.compute.list_value_length(pa.compute.list_flatten(tokens))
        row = pa.compute.list_parent_indices(tokens).filter(counts.is_valid()).to_numpy()
        totals, samples = (
            np.bincount(row, weights, batch.num_rows)
            for weights in (counts.drop_null().to_numpy(), None)
        )
        np.divide(totals, samples, out=lengths, where=samples > 0)
    return lengths.tolist()


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _answer(row: dict[str, Any], position: int, length: float) -> Answer:
    scores: Any = next((row[key] for key in _SCORES if row.get(key) is not None), {})
    if not isinstance(scores, dict):
        raise ResponseError(
            f"the scores of row {position + 1} are text, not numbers; run a newer lighteval"
        )
    name = (row.get("doc") or {}).get("id")
    return Answer(
        str(position) if name in (None, "") else str(name),
        numbers_in(scores),
        latency=length_of(length),
    )


def _subject(path: Path) -> str:
    parts = path.absolute().parent.parts
    if "details" in parts[:-1]:
        return "/".join(parts[len(parts) - parts[::-1].index("details") : -1]) or parts[-1]
    return parts[-2:][0]


LIGHTEVAL = Harness(NAME, _recognises, read, _aside)

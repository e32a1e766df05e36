"""Typed access to the values of JSON objects; wrong types are refused with one sentence."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from bayesirt.errors import ResponseError


def text_at(record: Mapping[str, Any], key: str, place: str = "") -> str:
    """Return the text at a key.

    >>> text_at({"model": "gpt-x"}, "model")
    'gpt-x'
    """
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _absent(key, "text", place)
    return value


def object_at(record: Mapping[str, Any], key: str, place: str = "") -> dict[str, Any]:
    """Return the object at a key.

    >>> object_at({"eval": {"task": "gsm8k"}}, "eval")
    {'task': 'gsm8k'}
    """
    value = record.get(key)
    if not isinstance(value, dict):
        raise _absent(key, "an object", place)
    return value


def part_of(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key, or an empty one if there is none."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def said_at(record: Mapping[str, Any], key: str, otherwise: str) -> str:
    """Return the text at a key, or another text if there is none."""
    value = record.get(key)
    return value if isinstance(value, str) and value.strip() else otherwise


def are_objects(value: object) -> TypeGuard[list[dict[str, Any]]]:
    """Return whether a value is a list of objects."""
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def name_at(record: Mapping[str, Any], key: str, place: str = "") -> str:
    """Return the name at a key, which may be text or a whole number.

    >>> name_at({"doc_id": 7}, "doc_id")
    '7'
    """
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text_at(record, key, place)


def _absent(key: str, kind: str, place: str) -> ResponseError:
    stands = f" {place}" if place else ""
    return ResponseError(
        f"`{key}` is missing or not {kind}{stands}; make the log again, or leave the file out"
    )


def numbers_in(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a record that are numbers or booleans; null is NaN.

    >>> numbers_in({"acc": True, "f1": 0.5, "answer": "B", "bleu": None})
    {'acc': 1.0, 'f1': 0.5, 'bleu': nan}
    """
    numbers = {str(key): as_number(value) for key, value in record.items()}
    return {key: number for key, number in numbers.items() if number is not None}


def as_number(value: object) -> float | None:
    """Return a number or boolean as a float, NaN for null, and None for anything else.

    >>> as_number(True), as_number(10**400), as_number("0.5")
    (1.0, inf, None)
    """
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def score_at(record: Mapping[str, Any], key: str) -> float:
    """Return the number or boolean at a key, or NaN if there is none."""
    number = as_number(record.get(key))
    return math.nan if number is None else number


def hash_of(asked: str) -> str:
    """Return a short hash of a prompt."""
    return hashlib.sha256(asked.encode(errors="surrogatepass")).hexdigest()[:16]


def length_of(value: object) -> float:
    """Return a number of tokens, or NaN if it is not a finite number above 0.

    >>> length_of(57), length_of(0), length_of("many")
    (57.0, nan, nan)
    """
    number = as_number(value)
    return number if number is not None and 0 < number < math.inf else math.nan

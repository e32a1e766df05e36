"""Strict parsing of an LLM's answers; anything unexpected is refused with a sentence."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from bayesirt.names import one_line

Lists = dict[str, tuple[str, ...]]

_LONGEST_ANSWER = 200_000
_LONGEST_NAME = 80
_SHOWN = 60
_BEGINNING = re.compile(r'\{\s*["}]')


class BadAnswer(Exception):  # noqa: N818
    """An answer that cannot be used; the message is sent back to the LLM."""


class _Object(dict[str, Any]):
    """A JSON object that remembers its duplicated keys."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.twice = [key for key, count in counts.items() if count > 1]


_DECODER = json.JSONDecoder(object_pairs_hook=_Object)


def value_of(answer: str, key: str) -> Mapping[str, Any]:
    """Return the object under a key of the only JSON object in an answer.

    >>> value_of('Here it is: {"items": {"1": ["logic"]}}. Anything else?', "items")
    {'1': ['logic']}
    """
    if len(answer) > _LONGEST_ANSWER:
        raise BadAnswer(f"the answer is longer than {_LONGEST_ANSWER:,} characters")
    if "{" not in answer:
        raise BadAnswer("the answer holds no JSON object")
    meant = [mapping for mapping in _objects(answer) if key in mapping]
    if not meant:
        raise BadAnswer(f'the answer holds no whole and valid JSON object with the key "{key}"')
    if len(meant) > 1:
        raise BadAnswer(f'the answer holds {len(meant)} JSON objects with the key "{key}", not one')
    others = [*meant[0].twice, *(name for name in meant[0] if name != key)]
    if others:
        raise BadAnswer(
            f'the JSON object must have the key "{key}" once and no other, and has also '
            f"{_shown(others[0])}"
        )
    value = meant[0][key]
    if not isinstance(value, _Object):
        raise BadAnswer(f'what stands under "{key}" is not a JSON object')
    if value.twice:
        raise BadAnswer(f'under "{key}" the key {_shown(value.twice[0])} is duplicated')
    return value


def parse_lists(
    answer: str, ids: Sequence[str], known: Collection[str] | None = None
) -> tuple[Lists, dict[str, str]]:
    """Return the abilities of items with valid lists, and the faults of the other items.

    >>> parse_lists('{"items": {"1": ["logic"], "2": []}}', ["1", "2"])
    ({'1': ('logic',)}, {'2': 'its list is empty'})
    """
    items = value_of(answer, "items")
    foreign = [key for key in items if key not in ids]
    if foreign:
        raise BadAnswer(f"{_shown(foreign[0])} is not an id of these items")
    lists: Lists = {}
    faults = {key: "it is missing" for key in ids if key not in items}
    for key, value in items.items():
        try:
            lists[key] = _names(value, known)
        except BadAnswer as error:
            faults[key] = str(error)
    return lists, faults


def parse_abilities(answer: str, most: int) -> dict[str, str]:
    """Return the abilities that an answer defines, from name to definition.

    >>> parse_abilities('{"abilities": {"logic": "Telling what follows."}}', 5)
    {'logic': 'Telling what follows.'}
    """
    abilities = value_of(answer, "abilities")
    if not abilities:
        raise BadAnswer("no ability is defined")
    if len(abilities) > most:
        raise BadAnswer(f"{len(abilities)} abilities are defined; merge them to {most} at most")
    _refuse_twice([name.casefold() for name in abilities])
    for name, definition in abilities.items():
        _check_name(name)
        if not (isinstance(definition, str) and definition.strip()):
            raise BadAnswer(f"{_shown(name)} has no definition in words")
    return {name: one_line(text.strip(), 500) for name, text in abilities.items()}


def _objects(answer: str) -> Iterator[_Object]:
    """Yield the outermost JSON objects in a text."""
    start = _BEGINNING.search(answer)
    while start:
        try:
            value, end = _DECODER.raw_decode(answer, start.start())
            yield value
        except ValueError:
            end = start.start() + 1
        except RecursionError:
            raise BadAnswer("the answer's JSON is nested too deeply") from None
        start = _BEGINNING.search(answer, end)


def _names(value: object, known: Collection[str] | None) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise BadAnswer("it has no list of names")
    if not value:
        raise BadAnswer("its list is empty")
    _refuse_twice(value)
    for name in value:
        if known is None:
            _check_name(name)
        elif name not in known:
            near = get_close_matches(name[:_LONGEST_NAME], known, n=1, cutoff=0.75)
            hint = f"; was {_shown(near[0])} meant?" if near else ""
            raise BadAnswer(f"{_shown(name)} is not in the list of abilities{hint}")
    return tuple(value)


def _refuse_twice(names: Sequence[str]) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise BadAnswer(f"the ability {_shown(name)} stands {count} times")


def _check_name(name: str) -> None:
    if not name.strip() or name.strip() != name:
        raise BadAnswer(f"{_shown(name)} is not a name: it is blank, or has blanks around it")
    if len(name) > _LONGEST_NAME:
        raise BadAnswer(f"{_shown(name)} is longer than {_LONGEST_NAME} characters")
    if one_line(name, _LONGEST_NAME) != name:
        raise BadAnswer(f"{_shown(name)} holds line breaks or unseen characters")


def _shown(name: str) -> str:
    return repr(one_line(name, _SHOWN))

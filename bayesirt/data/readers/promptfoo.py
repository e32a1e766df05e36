"""Results of promptfoo, as ``promptfoo eval --output results.json`` writes them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bayesirt.data.readers.choices import Choices
from bayesirt.data.readers.harness import Answer, Harness, LogRows, NoAnswersError, choose_scores
from bayesirt.data.readers.json_files import read_json
from bayesirt.data.readers.json_values import (
    are_objects,
    hash_of,
    length_of,
    numbers_in,
    object_at,
    part_of,
    said_at,
    score_at,
    text_at,
)
from bayesirt.errors import ResponseError

NAME = "promptfoo"
PASS = "pass"
_ERROR = 2
"""Code of a test that failed because there was no answer, not because of an assertion."""
_BY_MODEL = ("llm-rubric", "model-graded", "factuality", "g-eval")
"""Prefixes of the kinds of checks that a model makes."""


def _recognises(path: Path, head: bytes) -> bool:
    """Return whether a file holds results, judged by its ending and its first bytes."""
    return path.suffix == ".json" and b'"evalId"' in head and b'"results"' in head


def read(path: Path, choices: Choices) -> list[LogRows]:
    """Read results; a subject is a provider, combined with a prompt if there are several.

    If prompts are a facet or a factor, subjects are providers only.

    A repeated test is one item with several trials. The score is whether it passed, or with
    ``--metric`` the score or a named score. Tests that ended in an error count as not run.
    """
    log = read_json(path)
    results = object_at(log, "results").get("results")
    if not are_objects(results):
        raise ResponseError("its `results` hold no list of results; export it again as JSON")
    if not results:
        raise NoAnswersError("it holds no result; run the evaluation again, or leave the file out")
    items, prompts = _items(results), _numbers(_prompt(row) for row in results)
    answers: dict[tuple[str, str], list[Answer]] = {}
    errors: Counter[tuple[str, str]] = Counter()
    trials: Counter[tuple[tuple[str, str], str]] = Counter()
    for k, row in enumerate(results):
        pair = _provider(row, k), _prompt(row)
        group = answers.setdefault(pair, [])
        if row.get("failureReason") == _ERROR:
            errors[pair] += 1
            continue
        name, content = items[_test(row)]
        trials[pair, name] += 1
        group.append(Answer(name, _scores(row), trials[pair, name] - 1, _length(row), content))
    benchmark = said_at(part_of(log, "config"), "description", path.stem)
    per_prompt = len(prompts) > 1 and "prompt" not in choices.told
    shown = {_prompt(row): _shown(row) for row in results}
    judges = _judges(results)
    return [
        choose_scores(
            NAME, f"{pair[0]} (prompt {prompts[pair[1]]})" if per_prompt else pair[0], benchmark,
            group, choices, usual=PASS, left_out={"error": errors[pair]},
            told={"prompt": shown[pair[1]]}, judges=judges,
        )
        for pair, group in answers.items()
    ]  # fmt: skip


def _test(row: Mapping[str, Any]) -> str:
    """Return a key that identifies a test, however often it was run."""
    test = part_of(row, "testCase")
    parts = [test.get("description"), row.get("vars"), test.get("assert")]
    if not any(parts):
        parts.append(row.get("testIdx"))
    return json.dumps(parts, sort_keys=True)


def _items(results: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return each test's name (its description if all are unique, else its position) and hash."""
    places: dict[str, object] = {}
    for k, row in enumerate(results):
        places.setdefault(_test(row), row.get("testIdx", k))
    titles = {test: json.loads(test)[0] for test in places}
    texts = [title for title in titles.values() if isinstance(title, str) and title.strip()]
    described = len({*texts}) == len(places)
    return {
        test: (
            str(titles[test]) if described else str(place),
            hash_of(test),
        )
        for test, place in places.items()
    }


def _prompt(row: Mapping[str, Any]) -> str:
    return str(row.get("promptId") or _shown(row))


def _shown(row: Mapping[str, Any]) -> str:
    prompt = part_of(row, "prompt")
    return str(prompt.get("label") or prompt.get("raw") or "")


def _judges(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the provider that grades each metric, if it is the same for all tests."""
    by_metric: dict[str, set[str]] = {}
    for row in results:
        test = part_of(row, "testCase")
        checks, usual = test.get("assert"), part_of(test, "options").get("provider")
        for check in checks if isinstance(checks, list) else ():
            if isinstance(check, dict):
                by_model = str(check.get("type")).startswith(_BY_MODEL)
                judge = check.get("provider") or (usual if by_model else None)
                judge = judge.get("id") if isinstance(judge, dict) else judge
                for metric in (PASS, "score", check.get("metric")) if judge else ():
                    by_metric.setdefault(str(metric), set()).add(str(judge))
    return {metric: judges.pop() for metric, judges in by_metric.items() if len(judges) == 1}


def _numbers(values: Iterable[str]) -> dict[str, int]:
    return {value: k for k, value in enumerate(dict.fromkeys(values), 1)}


def _provider(row: Mapping[str, Any], position: int) -> str:
    if provider := said_at(row, "provider", ""):
        return provider
    place = f"at result {position + 1}"
    named = object_at(row, "provider", place)
    return str(named.get("label") or "") or text_at(named, "id", place)


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    scores = {"score": score_at(row, "score"), PASS: score_at(row, "success")}
    return numbers_in(part_of(row, "namedScores")) | scores


def _length(row: Mapping[str, Any]) -> float:
    """Return the number of tokens of the answer."""
    return length_of(part_of(part_of(row, "response"), "tokenUsage").get("completion"))


PROMPTFOO = Harness(NAME, _recognises, read)

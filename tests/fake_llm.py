"""A fake LLM that knows which abilities each text needs, and can be made to misbehave."""

import json
import re
from collections.abc import Callable, Mapping


def mark_in(user: str) -> str:
    """Return the marker named in the first line of a prompt."""
    (mark,) = re.findall(r"^The mark is (<<[0-9a-f]{16}>>)\.", user)
    return mark


def texts_in(user: str) -> dict[str, str]:
    """Return the texts in a prompt, by id."""
    fence = rf"^{mark_in(user)} item (\S+) begin\n(.*?)\n{mark_in(user)} item \1 end$"
    return dict(re.findall(fence, user, re.M | re.S))


class FakeLLM:
    """Answers correctly, except for given answers (counted from 1) and spoiled texts."""

    def __init__(
        self,
        needs: Mapping[str, list[str]],
        answers: Mapping[int, str] | None = None,
        *,
        spoil: Callable[[dict[str, str]], str | None] = lambda _: None,
        taxonomy: Mapping[str, str] | None = None,
    ) -> None:
        self.needs, self.answers, self.spoil = needs, answers or {}, spoil
        self.taxonomy = taxonomy or {}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, system: str, user: str) -> str:
        self.asked.append((system, user))
        texts = texts_in(user)
        spoiled = self.answers.get(len(self.asked), self.spoil(texts))
        if spoiled is not None:
            return spoiled
        if not texts:
            return json.dumps({"abilities": self.taxonomy})
        return json.dumps({"items": {key: self.needs[text] for key, text in texts.items()}})

"""File to which an LLM's answers are written as they arrive, so that nothing is asked twice."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from bayesirt.data.whole_file import saying_why
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.profiles.annotation.prompts import Question

Ask = Callable[[str, str], str | None]

_HEADER = b'{"bayesirt": "answers of an LLM", "version": 1}'


class Journal:
    """Asks each question once, and stores the answers in a file if one is named."""

    def __init__(self, ask: Ask, path: Path | None = None, llm: str = "") -> None:
        self._ask, self._path, self._llm = ask, path, llm
        self._answers: dict[str, str] = {}
        self.n_asked = self.n_known = 0
        if path is not None:
            with saying_why(path):
                self._answers = _open(path)

    def answer(self, question: Question) -> str:
        """Return the answer to a question, stored earlier or asked for now."""
        key = self._key(question)
        if key in self._answers:
            self.n_known += 1
            return self._answers[key]
        answer = self._asked(question)
        self.n_asked += 1
        self._keep(key, answer)
        return answer

    def _key(self, question: Question) -> str:
        text = json.dumps([self._llm, question.system, question.user])
        return hashlib.sha256(text.encode()).hexdigest()

    def _asked(self, question: Question) -> str:
        try:
            answer = self._ask(question.system, question.user)
        except BaseException as error:
            if self._path is not None:
                error.add_note(
                    f"{len(self._answers):,} answers are kept in {one_line(str(self._path), 400)}; "
                    f"annotate again with the same journal to continue from there"
                )
            raise
        if not isinstance(answer, str | None):
            raise TypeError(f"`ask` must return text, got {type(answer).__name__}")
        return answer or ""

    def _keep(self, key: str, answer: str) -> None:
        self._answers[key] = answer
        if self._path is not None:
            with saying_why(self._path):
                _append(self._path, json.dumps({"key": key, "answer": answer}).encode())


def _open(path: Path) -> dict[str, str]:
    """Return the answers in a file, and prepare it for more."""
    shown = one_line(str(path), 400)
    if path.is_dir():
        raise ResponseError(f"{shown} is a folder; name a file for the answers")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes() if path.exists() else b""
    end = data.rfind(b"\n") + 1
    header, *lines = data[:end].splitlines() or [b""]
    unfinished = not end and _HEADER.startswith(data)
    if not unfinished and header != _HEADER:
        raise ResponseError(f"{shown} holds no answers of an LLM; name another file")
    answers = dict(_record(line, number, shown) for number, line in enumerate(lines, 2))
    if end < len(data):
        os.truncate(path, end)
    if not end:
        _append(path, _HEADER)
    return answers


def _record(line: bytes, number: int, shown: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
        key, answer = record["key"], record["answer"]
    except (ValueError, KeyError, TypeError, RecursionError):
        key = answer = None
    if not (isinstance(key, str) and isinstance(answer, str)):
        raise ResponseError(
            f"{shown}, line {number}: not an answer of an LLM; delete the line to ask again"
        )
    return key, answer


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())

"""What every reader of a harness's logs brings: one subject's answers to one benchmark."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bayesirt.data.readers.choices import Choices
from bayesirt.errors import ResponseError

ANSWER_COLUMNS = ("item", "score", "trial", "latency", "content")


class NoAnswersError(ResponseError):
    """A file of a harness tells totals, but no single answers."""


class Answer(NamedTuple):
    """One answer with all that it was scored by."""

    item: str  # Its name within the benchmark.
    scores: Mapping[str, float]  # By metric; NaN where it was not scored.
    trial: int = 0  # Tells intended repeats of an item apart, such as epochs.
    latency: float = math.nan  # Length in tokens; NaN where nobody counted.
    # Hash of the item's text, where there is one: an item that two logs give the same name must
    # have the same.
    content: str = ""


@dataclass(frozen=True)
class LogRows:
    """One subject's answers to one benchmark, as one file tells them."""

    harness: str
    subject: str
    benchmark: str
    # What was chosen; empty where there is nothing to choose from.
    metric: str
    filter: str
    # One row an answer, with `ANSWER_COLUMNS`; `score` is a number that is there, or infinite.
    answers: pd.DataFrame
    # Numbers of answers, by why they were left out.
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # What else a reader should know.


class Harness(NamedTuple):
    """How the logs of one harness are found and read."""

    name: str
    # Whether a file is a log, from its path and its first bytes.
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path, Choices], list[LogRows]]  # From a log to its rows.
    # What is to be said of a file that belongs to the harness but is not a log: nothing if it is
    # read together with one (""), or why it is left out; None if it does not belong to it.
    aside: Callable[[Path], str | None]


def nothing_aside(_path: Path) -> None:
    """Say nothing: beside its logs, no file of the harness is known."""


def choose_scores(
    harness: str,
    subject: str,
    benchmark: str,
    answers: Sequence[Answer],
    choices: Choices,
    *,
    filtered: str = "",
    left_out: Mapping[str, int] | None = None,
    notes: tuple[str, ...] = (),
) -> LogRows:
    """Return answers with the score by the metric that was chosen.

    Without a choice, the metric is the only one whose scores all lie between 0 and 1.

    >>> answers = [Answer("1", {"acc": 1.0, "nll": 3.2}), Answer("2", {"acc": math.nan})]
    >>> rows = choose_scores("lm-eval", "gpt-x", "arc", answers, Choices())
    >>> rows.metric, rows.answers["score"].tolist(), rows.left_out
    ('acc', [1.0], {'no score': 1})
    """
    reasons = dict(left_out or {})
    seen: dict[str, bool] = {}
    for answer in answers:
        for name, score in answer.scores.items():
            if not math.isnan(score):
                seen[name] = seen.get(name, True) and 0 <= score <= 1
    if not seen and not reasons:
        raise NoAnswersError("it holds no answer with a score; leave it out")
    usual = [name for name, fits in seen.items() if fits]
    metric = choices.pick("metric", benchmark, list(seen), usual) if seen else ""
    scored = [
        (a.item, a.scores[metric], a.trial, a.latency, a.content)
        for a in answers
        if not math.isnan(a.scores.get(metric, math.nan))
    ]
    if len(scored) < len(answers):
        reasons["no score"] = reasons.get("no score", 0) + len(answers) - len(scored)
    try:
        "".join((subject, benchmark, metric, filtered)).encode()
        table = pd.DataFrame(scored, columns=list(ANSWER_COLUMNS))
    except UnicodeEncodeError:  # half a character, which JSON can hold
        raise ResponseError(
            "the name of an item, its hash or another name is not valid text; make the log again"
        ) from None
    return LogRows(harness, subject, benchmark, metric, filtered, table, reasons, notes)

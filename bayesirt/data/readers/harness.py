"""Common output of all readers of logs: one subject's answers to one benchmark."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bayesirt.data.readers.choices import Choices
from bayesirt.errors import ResponseError

ANSWER_COLUMNS = ("item", "score", "trial", "latency", "content", "metric")


class NoAnswersError(ResponseError):
    """A file of a harness holds totals but no single answers."""


class Answer(NamedTuple):
    """One answer with all its scores."""

    item: str  # Name within the benchmark.
    scores: Mapping[str, float]  # Score by metric; NaN where it was not scored.
    trial: int = 0  # Distinguishes intended repeats of an item, such as epochs.
    latency: float = math.nan  # Length in tokens; NaN if unknown.
    # Hash of the item's text, if known; it must be the same in all logs that have this item.
    content: str = ""


@dataclass(frozen=True)
class LogRows:
    """One subject's answers to one benchmark in one file."""

    harness: str
    subject: str
    benchmark: str
    # The chosen metric, or several; empty if no answer has a score.
    metrics: tuple[str, ...]
    # One row per answer, with `ANSWER_COLUMNS`; `score` is never NaN, but may be infinite.
    answers: pd.DataFrame
    filter: str = ""
    # Numbers of left-out answers, by reason.
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # Other remarks for the user.
    told: Mapping[str, str] = field(default_factory=dict)  # Facts on all answers, as the solver.
    judges: Mapping[str, str] = field(default_factory=dict)  # The model that grades each metric.

    @property
    def metric(self) -> str:
        """The metrics as one name."""
        return " + ".join(self.metrics)


class Harness(NamedTuple):
    """Functions that recognise and read the logs of one harness."""

    name: str
    # Whether a file is a log, from its path and its first bytes.
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path, Choices], list[LogRows]]  # From a log to its rows.
    # For a file that belongs to the harness but is not a log: "" if it is read together with one,
    # else why it is left out; None if it does not belong to the harness.
    aside: Callable[[Path], str | None] = lambda _: None


def choose_scores(
    harness: str,
    subject: str,
    benchmark: str,
    answers: Sequence[Answer],
    choices: Choices,
    *,
    usual: str = "",
    left_out: Mapping[str, int] | None = None,
    **about: Any,
) -> LogRows:
    """Return the answers with their scores by the chosen metric, as `LogRows`.

    Without a choice, the metric is the usual one, or the only one whose scores all lie between 0
    and 1; if judges are a facet, every metric that a judge graded.

    >>> answers = [Answer("1", {"acc": 1.0, "nll": 3.2}), Answer("2", {"acc": math.nan})]
    >>> rows = choose_scores("lm-eval", "gpt-x", "arc", answers, Choices())
    >>> rows.metrics, rows.answers["score"].tolist(), rows.left_out
    (('acc',), [1.0], {'no score': 1})
    """
    reasons = {why: n for why, n in (left_out or {}).items() if n}
    seen: dict[str, bool] = {}
    for answer in answers:
        for name, score in answer.scores.items():
            if not math.isnan(score):
                seen[name] = seen.get(name, True) and 0 <= score <= 1
    if not seen and not reasons:
        raise NoAnswersError("it holds no answer with a score; leave it out")
    judges = about.get("judges", {})
    fitting = [usual] if usual in seen else [name for name, fits in seen.items() if fits]
    metrics = choices.metrics(benchmark, list(seen), fitting, judges) if seen else ()
    scored = [
        (a.item, a.scores[metric], a.trial, a.latency, a.content, metric)
        for a in answers
        for metric in metrics
        if not math.isnan(a.scores.get(metric, math.nan))
    ]
    if missing := len(answers) * max(len(metrics), 1) - len(scored):
        reasons["no score"] = reasons.get("no score", 0) + missing
    texts = (about.get("filter", ""), *about.get("told", {}).values(), *judges.values())
    try:
        "".join((subject, benchmark, *metrics, *texts)).encode()
        table = pd.DataFrame(scored, columns=list(ANSWER_COLUMNS))
    except UnicodeEncodeError:  # A lone surrogate, which JSON can hold.
        raise ResponseError(
            "the name of an item, its hash or another name is not valid text; make the log again"
        ) from None
    return LogRows(harness, subject, benchmark, metrics, table, left_out=reasons, **about)

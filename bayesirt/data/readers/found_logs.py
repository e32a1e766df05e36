"""Report on a folder of logs: what was read, and what was left out and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from bayesirt.data.scales import Scale
from bayesirt.names import counted, first_few, one_line

_SHOWN = 30
_COLUMNS = (
    "benchmark", "harness", "metric", "filter", "subjects", "items", "answers", "files",
)  # fmt: skip


class LeftOut(NamedTuple):
    """Something that was not read."""

    what: str  # A file, a folder or a benchmark.
    kind: str  # What `number` counts.
    number: int
    why: str


@dataclass(frozen=True)
class FoundLogs:
    """A report on logs that were read."""

    # One row per benchmark: its harness, the metric and filter used, and numbers of subjects,
    # items, answers (trials) and files.
    summary: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(_COLUMNS)))
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()  # Other remarks, such as on an unfinished run.
    scale: Scale | None = None  # Kind of scores, if not right and wrong.

    def to_text(self) -> str:
        """Return the report as lines of text.

        >>> row = ("arc", "lm-eval", "acc", "none", 2, 3, 6, 2)
        >>> found = FoundLogs(pd.DataFrame([row], columns=list(_COLUMNS)),
        ...                   (LeftOut("run.sh", "file", 1, "not a log of a known harness"),))
        >>> print(found.to_text())
        Found in logs:
          arc (lm-eval, metric acc): 2 subjects x 3 items, 6 answers in 2 files
        Left out:
          1 file: not a log of a known harness (run.sh)
        """
        lines = ["Found in logs:"]
        lines += _limited([self._of_benchmark(row) for row in self.summary.to_dict("records")])
        if self.left_out:
            lines += ["Left out:", *_limited(self._lines_left_out())]
        return "\n".join(lines + [f"Note: {note}." for note in self.notes])

    def as_json(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "benchmarks": self.summary.to_dict("records"),
            "left out": [entry._asdict() for entry in self.left_out],
            "notes": list(self.notes),
        }

    def _of_benchmark(self, row: dict[Any, Any]) -> str:
        how = f"{row['harness']}, metric {one_line(row['metric'])}"
        if row["filter"] not in ("", "none"):
            how += f", filter {one_line(row['filter'])}"
        counts = f"{counted(row['subjects'], 'subject')} x {counted(row['items'], 'item')}"
        return (
            f"  {one_line(row['benchmark'], 80)} ({how}): {counts}, "
            f"{counted(row['answers'], 'answer')} in {counted(row['files'], 'file')}"
        )

    def _lines_left_out(self) -> list[str]:
        """Return one line per reason, the most frequent first, with examples."""
        reasons: dict[tuple[str, str], list[LeftOut]] = {}
        for entry in self.left_out:
            reasons.setdefault((entry.kind, entry.why), []).append(entry)
        by_count = sorted(reasons.items(), key=lambda r: -sum(entry.number for entry in r[1]))
        lines = []
        for (kind, why), entries in by_count:
            places = list(dict.fromkeys(one_line(entry.what, 80) for entry in entries))
            number = counted(sum(entry.number for entry in entries), kind)
            lines.append(f"  {number}: {why} ({first_few(places, 2)})")
        return lines


def _limited(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"  ... and {more} more"] if more > 0 else [])]

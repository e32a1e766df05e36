"""Read two results, such as yesterday's and today's, as one; each may hold a single subject."""

from pathlib import Path
from typing import Any

import pandas as pd

from bayesirt.data.readers.found_logs import FoundLogs
from bayesirt.data.readers.log_folder import read_log_runs
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.recognise import are_logs, as_long
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

_MEASURES = ("trials", "latency", "cost")
_OF_LOGS = ["subject", "item", "score", "trials", "latency", "benchmark"]


def read_two(
    old: Path, new: Path, reading: Reading
) -> tuple[Responses, tuple[list[str], list[str]], list[FoundLogs]]:
    """Read two inputs; return their joint responses, the subjects of each, and reports on logs.

    A subject in both is renamed to ``name (old)`` and ``name (new)``.
    """
    frames, reports = [], []
    for path in (old, new):
        if are_logs(path, reading):
            runs, report = read_log_runs(path, reading)
            reports.append(report)
            frames.append(runs.rename(columns={"successes": "score"})[_OF_LOGS])
        else:
            frames.append(as_long(path, reading))
        frames[-1] = frames[-1].astype({"subject": str, "item": str})
    if len(reports) == 1 and reading.threshold is not None:
        raise ResponseError(
            "one of the inputs is a log and the other a table, to which --threshold cannot apply "
            "alike; write both as tables with bayesirt convert"
        )
    one, two = frames
    for frame, when, again in (
        (one, "old", set(two["subject"])),
        (two, "new", set(one["subject"])),
    ):
        shared = frame["subject"].isin(again)
        frame["subject"] = frame["subject"].where(~shared, frame["subject"] + f" ({when})")
    if not set(one["item"]) & set(two["item"]):
        names = one_line(str(old), 80), one_line(str(new), 80)
        raise ResponseError(f"{names[0]} and {names[1]} have no question in common")
    if "trials" in one or "trials" in two:
        one, two = (f if "trials" in f else f.assign(trials=1) for f in (one, two))
    both = pd.concat([one, two], ignore_index=True, join="inner")
    measured: dict[str, Any] = {
        name: name for name in _MEASURES if name in both and both[name].notna().any()
    }
    return (
        Responses.from_long(
            both,
            **measured,
            item_metadata=[c for c in both if c not in ("subject", "item", "score", *_MEASURES)],
            duplicates=reading.duplicates,
            threshold=None if reports else reading.threshold,
            scale=reading.scale,
        ),
        (list(one["subject"].unique()), list(two["subject"].unique())),
        reports,
    )

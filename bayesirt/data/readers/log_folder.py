"""Find, read and join the logs in a folder, which may mix harnesses."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from bayesirt.data.facets import QUESTION
from bayesirt.data.readers.choices import ChoiceError, Choices, OpenChoiceError, refuse_open
from bayesirt.data.readers.deepeval import DEEPEVAL
from bayesirt.data.readers.evalplus import EVALPLUS
from bayesirt.data.readers.every_eval_ever import EVERY_EVAL_EVER
from bayesirt.data.readers.found_logs import FoundLogs, LeftOut
from bayesirt.data.readers.harness import Harness, LogRows, NoAnswersError
from bayesirt.data.readers.helm import HELM
from bayesirt.data.readers.inspect_log import INSPECT
from bayesirt.data.readers.joined_logs import check_alike, join_logs, tell_harnesses_apart
from bayesirt.data.readers.json_files import head_of, unreadable
from bayesirt.data.readers.langfuse import LANGFUSE
from bayesirt.data.readers.lighteval import LIGHTEVAL
from bayesirt.data.readers.lm_eval import LM_EVAL
from bayesirt.data.readers.opencompass import OPENCOMPASS
from bayesirt.data.readers.promptfoo import PROMPTFOO
from bayesirt.data.readers.reading import Reading
from bayesirt.data.readers.swebench import SWEBENCH
from bayesirt.data.responses import Responses
from bayesirt.data.scales import refuse_other_answers
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

HARNESSES = (
    INSPECT, HELM, LIGHTEVAL, LM_EVAL, EVERY_EVAL_EVER, EVALPLUS, SWEBENCH, PROMPTFOO, DEEPEVAL,
    LANGFUSE, OPENCOMPASS,
)  # fmt: skip
"""Harnesses in the order in which they are tried on a file."""
LOG_ENDINGS = frozenset({".eval", ".json", ".jsonl", ".parquet", ".csv", ".gz"})
_TABLE_ENDINGS = frozenset({".csv", ".tsv", ".parquet", ".jsonl", ".gz"})
_LINK = "a link that leads out of the folder, to another folder or to nothing"


def read_log_folder(
    path: str | Path,
    *,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> tuple[Responses, FoundLogs]:
    """Read all logs of known harnesses in a folder and its subfolders, or a single log.

    Options are those of `bayesirt.data.readers.read_responses` for logs. Duplicates are several
    runs of a subject on an item, in the order of the files' paths; with "error", identical runs
    count once. Folders are walked in alphabetical order; hidden ones are skipped, and links are not
    followed out of the folder. Items are named ``benchmark/item``; benchmarks of two harnesses
    that share a name are kept apart.
    """
    return read_logs(path, Reading(**options), progress)


def read_logs(
    path: str | Path, reading: Reading, progress: Callable[[int, int], None] | None = None
) -> tuple[Responses, FoundLogs]:
    """Read logs as `read_log_folder` does, with options as a `Reading`."""
    runs, report = _read_runs(path, reading, progress)
    subjects = runs["subject"].unique()
    if len(subjects) == 1:
        raise ResponseError(
            f"a ranking needs at least 2 subjects, got 1 ({one_line(subjects[0])!r}); name a "
            f"folder with the logs of several"
        )
    responses = Responses.from_long(
        runs,
        score="successes",
        trials="trials",
        latency="latency" if runs["latency"].notna().any() else None,
        item_metadata=["benchmark", *([QUESTION, *reading.facet] if reading.facet else [])],
        subject_metadata=reading.factors,
        duplicates=reading.duplicates,
    )
    return replace(responses, scale=report.scale), report


def read_log_runs(path: str | Path, reading: Reading) -> tuple[pd.DataFrame, FoundLogs]:
    """Read right and wrong answers as `read_logs` does, even of a single subject or item."""
    runs, report = _read_runs(path, reading)
    refuse_other_answers(report.scale, "comparing or scoring single subjects", "binary")
    return runs, report


def _read_runs(
    path: str | Path, reading: Reading, progress: Callable[[int, int], None] | None = None
) -> tuple[pd.DataFrame, FoundLogs]:
    """Return runs as `join_logs` does, and a report on the logs."""
    _refuse_scale(reading)
    if not os.path.exists(path):
        raise ResponseError(f"{one_line(str(path), 200)} does not exist; check the path")
    path, choices = (
        Path(path),
        Choices(reading.metric, reading.filter, (*reading.facet, *reading.factors)),
    )
    files, left_out = _find(path, reading.skip_damaged)
    logs: list[tuple[str, LogRows]] = []
    still_open: list[OpenChoiceError] = []
    for k, (file, harness) in enumerate(files):
        shown = _shown(file, path)
        try:
            logs += [(shown, rows) for rows in harness.read(file, choices)]
        except OpenChoiceError as error:
            still_open.append(error)
        except NoAnswersError as error:
            if file == path:
                raise ResponseError(f"{shown}: {error}") from None
            left_out.append(LeftOut(shown, "file", 1, str(error)))
        except ResponseError as error:
            if isinstance(error, ChoiceError) or not reading.skip_damaged:
                raise ResponseError(f"{shown}: {error}") from None
            left_out.append(LeftOut(shown, "file", 1, f"damaged: {error}"))
        if progress is not None:
            progress(k + 1, len(files))
    refuse_open(still_open)
    if not logs:
        raise _nothing(path, left_out)
    choices.check_used({rows.benchmark: (rows.metrics, rows.filter) for _, rows in logs})
    return _join(logs, left_out, reading, choices)


def _refuse_scale(reading: Reading) -> None:
    if reading.scale is not None:
        raise ResponseError(
            "--kind, --order and --scale belong to tables; for logs the kind of scores is "
            "detected, and --threshold makes them right or wrong"
        )


def find_harness(path: Path) -> Harness | None:
    """Return the harness that wrote a file, or None."""
    if path.suffix.lower() not in LOG_ENDINGS:
        return None
    head = head_of(path)
    return next((harness for harness in HARNESSES if harness.recognises(path, head)), None)


def belongs_to_log(path: Path) -> bool:
    """Return whether a file is not a log itself, but belongs to one."""
    return any(harness.aside(path) is not None for harness in HARNESSES)


def refuse_no_log(path: Path) -> NoReturn:
    """Refuse a file that is not a log, though it may belong to one."""
    shown = one_line(str(path), 200)
    for harness in HARNESSES:
        reason = harness.aside(path)
        if reason:
            raise ResponseError(f"{shown}: {reason}")
        if reason is not None:
            raise ResponseError(
                f"{shown} holds no answers, but belongs to the logs of its run; name one of them, "
                f"or their folder"
            )
    raise ResponseError(f"{shown} is not a log of {known_harnesses()}; name such a log or a table")


def known_harnesses() -> str:
    """Return the names of the harnesses for a sentence.

    >>> known_harnesses().split(", ")[-1]
    'Langfuse or OpenCompass'
    """
    *names, last = (harness.name for harness in HARNESSES)
    return f"{', '.join(names)} or {last}"


def _join(
    logs: list[tuple[str, LogRows]],
    left_out: list[LeftOut],
    reading: Reading,
    choices: Choices,
) -> tuple[pd.DataFrame, FoundLogs]:
    logs, renamed = tell_harnesses_apart(logs)
    check_alike(logs, by=("filter",) if choices.several_metrics else ("metric", "filter"))
    runs, copies, scale = join_logs(logs, reading)
    notes = list(dict.fromkeys(note for _, rows in logs for note in rows.notes))
    if copies:
        notes.append(f"repeated answers that agree with the first and count only once: {copies:,}")
    if renamed:
        names = ", ".join(one_line(name) for name in renamed[:5])
        notes.append(f"several harnesses have {names}: their items are kept apart")
    left_out += [
        LeftOut(rows.benchmark, "answer", count, why)
        for _, rows in logs
        for why, count in rows.left_out.items()
    ]
    return runs, FoundLogs(_summary(logs), tuple(left_out), tuple(notes), scale)


def _summary(logs: list[tuple[str, LogRows]]) -> pd.DataFrame:
    table = []
    for benchmark in dict.fromkeys(rows.benchmark for _, rows in logs):
        group = [(name, rows) for name, rows in logs if rows.benchmark == benchmark]
        scored = [rows for _, rows in group if rows.metric] or [group[0][1]]
        table.append(
            {
                "benchmark": benchmark,
                "harness": scored[0].harness,
                "metric": scored[0].metric,
                "filter": scored[0].filter,
                "subjects": len({rows.subject for rows in scored}),
                "items": len({item for rows in scored for item in rows.answers["item"]}),
                "answers": sum(len(rows.answers) for rows in scored),
                "files": len({name for name, _ in group}),
            }
        )
    return pd.DataFrame(table)


def _nothing(path: Path, left_out: list[LeftOut]) -> ResponseError:
    shown = one_line(str(path), 200)
    reasons = list(dict.fromkeys(entry.why for entry in left_out))
    because = f" ({'; '.join(reasons[:3])})" if reasons else ""
    return ResponseError(
        f"{shown} holds no answers in logs of {known_harnesses()}{because}; name another folder, "
        f"or a table"
    )


def _find(path: Path, skip_damaged: bool) -> tuple[list[tuple[Path, Harness]], list[LeftOut]]:
    """Return the logs in a folder, and the files that are left out."""
    logs, left_out = [], []
    for file, problem in _walk(path):
        shown = _shown(file, path)
        try:
            if isinstance(problem, OSError):
                raise unreadable(problem)
            harness = None if problem else find_harness(file)
        except ResponseError as error:
            if not skip_damaged:
                raise ResponseError(f"{shown}: {error}") from None
            problem, harness = f"damaged: {error}", None
        if harness is not None:
            logs.append((file, harness))
            continue
        why = problem or _why_not(file)
        if why:
            left_out.append(LeftOut(shown, "file", 1, str(why)))
    return logs, left_out


def _walk(path: Path) -> Iterator[tuple[Path, str | OSError]]:
    """Yield files in order, with the reason if one must not be opened, and unreadable folders."""
    if not path.is_dir():
        yield path, ""
        return
    root = path.resolve()
    errors: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=errors.append):
        while errors:
            error = errors.pop()
            yield Path(error.filename), error
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        linked = [name for name in folders if os.path.islink(Path(folder, name))]
        for name in sorted([*files, *linked]):
            yield Path(folder, name), _problem(Path(folder, name), root)
    for error in errors:
        yield Path(error.filename), error


def _problem(file: Path, root: Path) -> str | OSError:
    """Return why a file must not be opened, or an empty string."""
    try:
        inside = Path(os.path.realpath(file)).is_relative_to(root)
        mode = file.stat().st_mode
    except OSError as error:
        return _LINK if file.is_symlink() else error
    if stat.S_ISDIR(mode) or not inside:
        return _LINK
    return "" if stat.S_ISREG(mode) else "not a regular file"


def _why_not(file: Path) -> str:
    """Return why a file is left out, or an empty string if it is read together with a log."""
    for harness in HARNESSES:
        reason = harness.aside(file)
        if reason is not None:
            return reason
    if _TABLE_ENDINGS.intersection(file.suffixes):
        return "a table; read it separately"
    return "not a log of a known harness"


def _shown(file: Path, root: Path) -> str:
    shown = str(file.relative_to(root)) if file != root else file.name
    return one_line(shown, 120)

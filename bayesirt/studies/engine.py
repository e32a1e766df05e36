"""The engine of all studies: tasks whose rows are logged as they come, and a study's results."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pandas as pd
from matplotlib.figure import Figure

from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.studies.claims import Claim, claim_table, in_words
from bayesirt.studies.figures import study_style
from bayesirt.studies.tasks import Row, Task, run_tasks

_SETTINGS, _ROWS = "study.json", "replications.csv"
_WORDS = frozenset({"engine", "method", "warned", "failed"})


class _Log:
    """Rows of a part by their place, in memory and, if a folder is given, in a file."""

    def __init__(self, part: "Part", settings: Mapping[str, Any], folder: Path | None) -> None:
        self._columns = [*part.place, *part.measures]
        self._path = None if folder is None else folder / _ROWS
        self.rows: dict[tuple[Any, ...], Row] = {}
        if folder is None:
            return
        try:
            _claim(folder, settings)
            rows = _read(folder / _ROWS, self._columns)
        except OSError as error:
            shown = one_line(str(folder), 400)
            raise ResponseError(f"{shown} cannot be written: {error.strerror}") from error
        self.rows = {tuple(row[name] for name in part.place): row for row in rows}

    def append(self, place: tuple[Any, ...], row: Row) -> None:
        """Store a row in a single write, so that an interrupted study loses at most the last."""
        self.rows[place] = row
        if self._path is not None:
            with self._path.open("a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, self._columns, lineterminator="\n").writerow(row)


def _claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings, or check that the folder's are the same."""
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / _SETTINGS, json.dumps(settings, indent=2, sort_keys=True) + "\n"
    shown = one_line(str(folder), 400)
    if not path.exists():
        if any(folder.iterdir()):
            raise ResponseError(f"{shown} holds files that are not a study; name another folder")
        path.write_text(text, "utf-8")
    elif path.read_text("utf-8") != text:
        raise ResponseError(
            f"{shown} holds a study with other settings (see {_SETTINGS}); name another folder"
        )


def _read(path: Path, columns: Sequence[str]) -> list[Row]:
    """Read the rows, cutting off an incomplete last one."""
    content = path.read_bytes() if path.exists() else b""
    content = content[: content.rfind(b"\n") + 1]
    if not content:
        path.write_text(",".join(columns) + "\n", "utf-8")
        return []
    path.write_bytes(content)
    header, *lines = csv.reader(content.decode().splitlines())
    if header != list(columns):
        raise ResponseError(f"{one_line(str(path), 400)} has other columns; name another folder")
    return [
        {k: v if k in _WORDS else float(v or "nan") for k, v in zip(columns, line, strict=True)}
        for line in lines
    ]


class Part(NamedTuple):
    """A table that grows row by row."""

    place: Sequence[str]  # Columns that identify its rows, and by which they are sorted.
    measures: Sequence[str]
    methods: Sequence[str] = ()  # Order of methods, if the place has a column of them.
    conditions: pd.DataFrame | None = None  # Shown in place of their number, the first column.

    def told(self, rows: Iterable[Row]) -> pd.DataFrame:
        """Return the sorted rows with their conditions; NaN where nothing was measured."""
        columns = [*self.place, *self.measures]
        numbers = [name for name in columns if name not in _WORDS]
        table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(numbers, float))
        places = table[[*self.place]]
        if self.methods:
            places = places.assign(method=table["method"].map([*self.methods].index))
        table = table.loc[places.sort_values([*self.place], kind="stable").index]
        table = table.reset_index(drop=True)
        if self.conditions is None:
            return table
        labels = self.conditions.iloc[table.pop(self.place[0]).astype(int)].reset_index(drop=True)
        return pd.concat([labels, table], axis=1)


class Running(TypedDict, total=False):
    """How a study is run; none of this changes its results, except for times."""

    folder: Path | None  # Where rows are written as they come; a partial study is resumed.
    n_processes: int  # Above 1, tasks run in parallel, which distorts times.
    scheduler: str | None  # Address of a Dask scheduler, whose workers then run the tasks.
    progress: Callable[[int, int], None] | None  # Called with (done, all) after each task.


def do_tasks(
    tasks: Sequence[Task], parts: Mapping[str, Part], settings: Mapping[str, Any], running: Running
) -> dict[str, pd.DataFrame]:
    """Run the tasks with rows missing from the logs, and return each part's rows in order.

    The first part's log is in the folder itself; those of other parts are in subfolders.
    """
    folder, progress = running.get("folder"), running.get("progress")
    logs = {
        name: _Log(part, settings, folder and (folder / name if k else folder))
        for k, (name, part) in enumerate(parts.items())
    }
    waiting = [t for t in tasks if any(place not in logs[part].rows for part, place in t.places)]
    n_done = len(tasks) - len(waiting)
    for task, rows in run_tasks(waiting, running.get("n_processes", 1), running.get("scheduler")):
        for (part, place), row in zip(task.places, rows, strict=True):
            if place not in logs[part].rows:
                logs[part].append(place, dict(zip(parts[part].place, place, strict=True)) | row)
        n_done += 1
        if progress is not None:
            progress(n_done, len(tasks))
    return {name: part.told(logs[name].rows.values()) for name, part in parts.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A study's replications and results."""

    title: str
    replications: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]  # By the names of their files.
    said: Iterable[Claim]
    notes: Sequence[str]
    figures: Mapping[str, Callable[[], Figure]]  # By the names of their files, for `draw`.

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @cached_property
    def claims(self) -> pd.DataFrame:
        """The study's findings, one row per figure; see `bayesirt.studies.claims`."""
        return claim_table(self.said)

    def to_text(self) -> str:
        """Return the verdict in words."""
        return "\n".join(in_words(self.claims, self.notes))

    def draw(self, figure: str) -> Figure:
        """Return one of the figures."""
        with study_style():
            return self.figures[figure]()

    def save(self, folder: Path) -> None:
        """Write the tables as CSV, the verdict as text and the figures as SVG.

        Parameters
        ----------
        folder : Path
            Created if missing; may be the one that the study ran in.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in {**self.tables, "claims": self.claims}.items():
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        (folder / "verdict.txt").write_text(self.to_text() + "\n", "utf-8")
        for name in self.figures:
            self.draw(name).savefig(folder / f"{name}.svg", metadata={"Date": None})

"""The engine of all studies: tasks whose rows are logged as they come, and what a study leaves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from bayesirt.studies.claims import Claim, claim_table, in_words
from bayesirt.studies.replication_log import ReplicationLog
from bayesirt.studies.tasks import Work, run_tasks

Row = dict[str, Any]
Place = tuple[Any, ...]
Places = list[tuple[str, Place]]
Done = Mapping[str, Collection[Place]]


class Placed(Work[Row], Protocol):
    """A task that knows the part and place of its rows."""

    @property
    def places(self) -> Places:
        """Part and place of each row."""
        ...


AnyTask = TypeVar("AnyTask", bound=Placed)


class Part(NamedTuple):
    """A table that grows row by row."""

    place: Sequence[str]  # Columns that tell its rows apart.
    measures: Sequence[str]


class Running(TypedDict, total=False):
    """How a study is run; none of this changes what comes of it, but for times."""

    folder: Path | None  # Where rows are written as they come; a part found there is gone on with.
    n_processes: int  # Above 1, tasks run side by side, which blurs times.
    scheduler: str | None  # Address of a Dask scheduler, whose workers then run the tasks.
    progress: Callable[[int, int], None] | None  # Told (done, all) after each task.


def unless_done(task: Any, done: Done) -> Any:
    """Return a task, all or nothing, if a row of its places is still missing."""
    return None if all(place in done[part] for part, place in task.places) else task


def do_tasks(
    tasks: Sequence[AnyTask],
    parts: Mapping[str, Part],
    settings: Mapping[str, Any],
    running: Running,
    *,
    left: Callable[[AnyTask, Done], AnyTask | None] = unless_done,
    count_rows: bool = False,
) -> dict[str, pd.DataFrame]:
    """Do what the logs do not hold, and return each part's rows as they were logged.

    The first part's log lies in the folder itself, and claims it; the others' in folders of their
    names. A row names its part, or else has the place of just one. Progress counts tasks, or else
    the rows at their places.
    """
    folder, progress = running.get("folder"), running.get("progress")
    logs = {
        name: ReplicationLog(
            [*part.place, *part.measures], settings, folder and (folder / name if k else folder)
        )
        for k, (name, part) in enumerate(parts.items())
    }
    done = {name: log.values_of(parts[name].place) for name, log in logs.items()}
    waiting = [rest for task in tasks if (rest := left(task, done)) is not None]
    n_all, n_waiting = (
        sum(len(task.places) if count_rows else 1 for task in some) for some in (tasks, waiting)
    )
    n_done = n_all - n_waiting
    for rows in run_tasks(waiting, running.get("n_processes", 1), running.get("scheduler")):
        for row in rows:
            name = row.pop("part", None) or _part_of(row, parts)
            if tuple(row[column] for column in parts[name].place) not in done[name]:
                logs[name].append(row)
        n_done += len(rows) if count_rows else 1
        if progress is not None:
            progress(n_done, n_all)
    return {name: log.table for name, log in logs.items()}


def _part_of(row: Row, parts: Mapping[str, Part]) -> str:
    return next(name for name, part in parts.items() if row.keys() >= set(part.place))


class SavedStudy(ABC):
    """What every study can do with its tables, claims and figures."""

    @cached_property
    def claims(self) -> pd.DataFrame:
        """What the study finds, one row a figure; see `bayesirt.studies.claims`."""
        return claim_table(self._claims())

    def to_text(self) -> str:
        """Return the verdict in words."""
        return "\n".join(in_words(self.claims, self._notes()))

    def save(self, folder: Path) -> None:
        """Write the tables as CSV, the verdict as text and the figures as SVG.

        Parameters
        ----------
        folder : Path
            Made where it is missing; may be the one that the study ran in.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in {**self._tables(), "claims": self.claims}.items():
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        (folder / "verdict.txt").write_text(self.to_text() + "\n", "utf-8")
        for name, figure in self._figures().items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})

    @abstractmethod
    def _claims(self) -> Iterable[Claim]: ...

    @abstractmethod
    def _notes(self) -> Iterable[str]: ...

    @abstractmethod
    def _tables(self) -> Mapping[str, pd.DataFrame]: ...

    @abstractmethod
    def _figures(self) -> Mapping[str, Figure]: ...

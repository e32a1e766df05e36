"""The engine of all studies: tasks whose rows are logged as they come, and what a study leaves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from bayesirt.studies.replication_log import ReplicationLog
from bayesirt.studies.tasks import Work, run_tasks

Row = dict[str, Any]
Place = tuple[Any, ...]
Done = Mapping[str, Collection[Place]]
AnyTask = TypeVar("AnyTask", bound=Work[Any])


class Part(NamedTuple):
    """A table that grows row by row."""

    place: Sequence[str]  # Columns that tell its rows apart.
    measures: Sequence[str]


def unless_done(
    places: Callable[[AnyTask], Sequence[tuple[str, Place]]],
) -> Callable[[AnyTask, Done], AnyTask | None]:
    """Return what a task still has to do, all or nothing, by the part and place of its rows."""

    def left(task: AnyTask, done: Done) -> AnyTask | None:
        return None if all(place in done[part] for part, place in places(task)) else task

    return left


def do_tasks(
    tasks: Sequence[AnyTask],
    left: Callable[[AnyTask, Done], AnyTask | None],
    parts: Mapping[str, Part],
    settings: Mapping[str, Any],
    *,
    folder: Path | None,
    n_processes: int,
    scheduler: str | None,
    progress: Callable[[int, int], None] | None,
    size: Callable[[AnyTask], int] | None = None,
) -> dict[str, pd.DataFrame]:
    """Do what the logs do not hold, and return each part's rows as they were logged.

    The first part's log lies in the folder itself, and claims it; the others' in folders of their
    names. A row names its part, or else has the place of just one. With a size, progress counts
    rows in place of tasks.
    """
    logs = {
        name: ReplicationLog(
            [*part.place, *part.measures], settings, folder and (folder / name if k else folder)
        )
        for k, (name, part) in enumerate(parts.items())
    }
    done = {name: log.values_of(parts[name].place) for name, log in logs.items()}
    waiting = [rest for task in tasks if (rest := left(task, done)) is not None]
    n_all, n_waiting = (len(t) if size is None else sum(map(size, t)) for t in (tasks, waiting))
    n_done = n_all - n_waiting
    for rows in run_tasks(waiting, n_processes, scheduler):
        for row in rows:
            name = row.pop("part", None) or _part_of(row, parts)
            if tuple(row[column] for column in parts[name].place) not in done[name]:
                logs[name].append(row)
        n_done += 1 if size is None else len(rows)
        if progress is not None:
            progress(n_done, n_all)
    return {name: log.table for name, log in logs.items()}


def _part_of(row: Row, parts: Mapping[str, Part]) -> str:
    return next(name for name, part in parts.items() if row.keys() >= set(part.place))


class SavedStudy(ABC):
    """What every study can do with its tables, sentences and figures."""

    def to_text(self) -> str:
        """Return the verdict in words."""
        return "\n".join(self._sentences())

    def save(self, folder: Path) -> None:
        """Write the tables as CSV, the verdict as text and the figures as SVG.

        Parameters
        ----------
        folder : Path
            Made where it is missing; may be the one that the study ran in.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self._tables().items():
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        (folder / "verdict.txt").write_text(self.to_text() + "\n", "utf-8")
        for name, figure in self._figures().items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})

    @abstractmethod
    def _sentences(self) -> Sequence[str]: ...

    @abstractmethod
    def _tables(self) -> Mapping[str, pd.DataFrame]: ...

    @abstractmethod
    def _figures(self) -> Mapping[str, Figure]: ...

"""The engine of all studies: tasks whose rows are logged as they come, and what a study leaves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pandas as pd
from matplotlib.figure import Figure

from bayesirt.studies.claims import Claim, claim_table, in_words
from bayesirt.studies.replication_log import ReplicationLog
from bayesirt.studies.tasks import Row, Task, run_tasks


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


def do_tasks(
    tasks: Sequence[Task], parts: Mapping[str, Part], settings: Mapping[str, Any], running: Running
) -> dict[str, pd.DataFrame]:
    """Do the tasks of which the logs lack a row, and return each part's rows as they were logged.

    The first part's log lies in the folder itself, and claims it; the others' in folders of their
    names.
    """
    folder, progress = running.get("folder"), running.get("progress")
    logs = {
        name: ReplicationLog(
            [*part.place, *part.measures], settings, folder and (folder / name if k else folder)
        )
        for k, (name, part) in enumerate(parts.items())
    }
    done = {name: log.values_of(parts[name].place) for name, log in logs.items()}
    waiting = [t for t in tasks if any(place not in done[part] for part, place in t.places)]
    n_done = len(tasks) - len(waiting)
    for task, rows in run_tasks(waiting, running.get("n_processes", 1), running.get("scheduler")):
        for (part, place), row in zip(task.places, rows, strict=True):
            if place not in done[part]:
                named: Row = dict(zip(parts[part].place, place, strict=True))
                logs[part].append(named | row)
        n_done += 1
        if progress is not None:
            progress(n_done, len(tasks))
    return {name: log.table for name, log in logs.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """What came of a study's work, and what it says."""

    title: str
    replications: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]  # By the names of their files.
    said: Iterable[Claim]
    notes: Sequence[str]
    figures: Mapping[str, Callable[[], Figure]]  # Drawn when the study is saved.

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @cached_property
    def claims(self) -> pd.DataFrame:
        """What the study finds, one row a figure; see `bayesirt.studies.claims`."""
        return claim_table(self.said)

    def to_text(self) -> str:
        """Return the verdict in words."""
        return "\n".join(in_words(self.claims, self.notes))

    def save(self, folder: Path) -> None:
        """Write the tables as CSV, the verdict as text and the figures as SVG.

        Parameters
        ----------
        folder : Path
            Made where it is missing; may be the one that the study ran in.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in {**self.tables, "claims": self.claims}.items():
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        (folder / "verdict.txt").write_text(self.to_text() + "\n", "utf-8")
        for name, draw in self.figures.items():
            draw().savefig(folder / f"{name}.svg", metadata={"Date": None})

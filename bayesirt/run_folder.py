"""The folder that keeps a run: written whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from bayesirt.errors import ResponseError
from bayesirt.item_table import item_table
from bayesirt.names import spreadsheet_safe
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.ranking import rank_subjects
from bayesirt.run import Record, Run

_RECORD = "run.json"


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Make sure, before any work, that a run can be written.

    Parameters
    ----------
    folder : Path
    overwrite : bool
        Allow a folder that already holds a run.

    Raises
    ------
    ResponseError
        If it is taken by something else, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ResponseError(f"{folder} is a file; name a folder with --out")
    taken = folder.is_dir() and any(folder.iterdir())
    if taken and not _holds_run(folder):
        raise ResponseError(f"{folder} holds files that are no run; name another folder with --out")
    if taken and not overwrite:
        raise ResponseError(f"{folder} already holds a run; pass --overwrite to replace it")
    parent = next(p for p in folder.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ResponseError(f"{folder} cannot be written: no permission in {parent}")


def _holds_run(folder: Path) -> bool:
    return (folder / _RECORD).is_file() or any(folder.glob(f"*/{_RECORD}"))


def write_folder(folder: Path, fill: Callable[[Path], None], *, overwrite: bool) -> None:
    """Fill a folder beside its place, then put it there whole.

    Parameters
    ----------
    folder : Path
    fill : callable
        Writes into the folder that it is given.
    overwrite : bool
        Replace a run that is there.

    Raises
    ------
    ResponseError
        If it cannot be written; what was there stays.
    """
    check_output(folder, overwrite=overwrite)
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".bayesirt-", dir=folder.parent) as beside:
            new, old = Path(beside, "new"), Path(beside, "old")
            new.mkdir()
            fill(new)
            if folder.exists():
                folder.rename(old)
            try:
                new.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise
    except OSError as error:
        raise ResponseError(f"{folder} cannot be written: {error.strerror}") from error


def save_run(run: Run, folder: Path, report: str) -> None:
    """Write a run's files into an empty folder.

    Parameters
    ----------
    run : Run
    folder : Path
    report : str
        The HTML document.
    """
    _write_csv(run.ranking.summary, folder / "ranking.csv")
    _write_csv(run.items, folder / "items.csv")
    pairs = run.ranking.pairwise
    _write_csv(pairs.rename(columns=spreadsheet_safe).rename_axis("subject").reset_index(),
               folder / "pairwise.csv")
    run.point.save(folder / "point.nc")
    run.posterior.save(folder / "posterior.nc")
    (folder / "report.html").write_text(report, "utf-8")
    (folder / _RECORD).write_text(run.record.to_json(), "utf-8")


def load_run(folder: Path) -> Run:
    """Read a run that `save_run` wrote.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    Run

    Raises
    ------
    ResponseError
        If the folder holds no run, or a damaged one.
    """
    if not (folder / _RECORD).is_file():
        raise ResponseError(f"{folder} holds no run; make one with bayesirt rank --out {folder}")
    try:
        record = Record.from_json((folder / _RECORD).read_text("utf-8"))
        posterior = Posterior.load(folder / "posterior.nc")
        point = PointEstimate.load(folder / "point.nc")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ResponseError(f"the run in {folder} is damaged ({error}); make it again") from error
    return Run(point, posterior, rank_subjects(posterior), item_table(posterior), record)


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    safe = table.copy()
    for column in safe.columns:
        if safe[column].map(type).eq(str).any():
            safe[column] = safe[column].map(spreadsheet_safe)
    safe.to_csv(path, index=False, lineterminator="\n")

"""A ranking and its report as a folder, written and opened from Python."""

from pathlib import Path

from bayesirt.ranking import run_folder
from bayesirt.ranking.finished_run import Run
from bayesirt.report.html import render_report


def save_run(run: Run, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a ranking with its report, tables and draws, as ``bayesirt rank --out`` does.

    Parameters
    ----------
    run : Run
    folder : str or Path
        Written whole or not at all.
    overwrite : bool
        Replace an existing run.

    Raises
    ------
    ResponseError
        If the folder cannot be written, or holds something other than a run.
    """
    save_runs({"": run}, Path(folder), overwrite=overwrite)


def save_runs(runs: dict[str, Run], folder: Path, *, overwrite: bool) -> None:
    """Write several rankings, each into a folder of its name."""

    def fill(beside: Path) -> None:
        for name, run in runs.items():
            (beside / name).mkdir(exist_ok=True)
            run_folder.save_run(run, beside / name, render_report(run))

    run_folder.write_folder(folder, fill, overwrite=overwrite)


def open_run(folder: str | Path) -> Run:
    """Open a ranking that ``bayesirt rank`` or `save_run` wrote.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    Run

    Raises
    ------
    ResponseError
        If the folder holds no run, or a damaged one.
    """
    return run_folder.load_run(Path(folder))

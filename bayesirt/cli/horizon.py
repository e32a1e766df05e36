"""The `horizon` command."""

from pathlib import Path
from typing import Annotated

import typer

from bayesirt.cli.existing_run import RunFolder
from bayesirt.cli.options import AsJson, prepare_jax, print_json, unset

Minutes = Annotated[
    Path, unset(help="File with the columns item and minutes: how long each task takes a human.")
]
Dates = Annotated[
    Path | None,
    unset(help="File with the columns subject and date, for the doubling time of horizons."),
]
ErrorOfMinutes = Annotated[
    float,
    typer.Option("--minutes-error", min=0, help="Standard deviation of the error in log minutes."),
]
OutTable = Annotated[Path | None, unset("--out", help="CSV file to write.")]
OutPicture = Annotated[Path | None, unset("--picture", help="SVG, PDF or PNG file to draw.")]


def horizon(
    run: RunFolder,
    minutes: Minutes,
    dates: Dates = None,
    error: ErrorOfMinutes = 0.0,
    out: OutTable = None,
    picture: OutPicture = None,
    as_json: AsJson = False,
) -> None:
    """Show how long a task each subject can complete, in human minutes."""
    prepare_jax()
    from bayesirt.data.readers.subject_facts import dates_of_file, minutes_of_file
    from bayesirt.data.whole_file import write_whole
    from bayesirt.ranking.horizon import horizons
    from bayesirt.ranking.run_folder import csv_of, load_run
    from bayesirt.report import terminal
    from bayesirt.report.json_rows import rows_for_json

    loaded = load_run(run)
    when = None if dates is None else dates_of_file(dates)
    task_horizons = horizons(loaded.posterior, minutes_of_file(minutes), dates=when, error=error)
    if out is not None:
        write_whole(out, csv_of(task_horizons.summary).encode())
    if picture is not None:
        from bayesirt.report.horizon_plot import plot_horizons
        from bayesirt.report.pictures import write_picture

        write_picture(plot_horizons(task_horizons), picture)
    if as_json:
        fields = {"text": task_horizons.to_text(), "horizons": rows_for_json(task_horizons.summary)}
        print_json(fields, default=str)
    else:
        terminal.print_horizons(task_horizons, loaded.ranking)

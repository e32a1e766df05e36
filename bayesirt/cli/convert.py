"""The `convert` command."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesirt.cli.options import Quiet
from bayesirt.cli.reading_input import read_found, with_reading_options
from bayesirt.cli.standard_input import piped
from bayesirt.names import one_line

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading

Source = Annotated[
    Path,
    typer.Argument(help="Results: a table, a harness log, a folder of logs, or -.", callback=piped),
]
Target = Annotated[Path, typer.Argument(help="The Parquet file to write.")]
Replace = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]


@with_reading_options
def convert(
    results: Source,
    out: Target,
    *,
    reading: "Reading",
    overwrite: Replace = False,
    quiet: Quiet = False,
) -> None:
    """Convert results to one long Parquet file, the fastest format to read."""
    from bayesirt.data.long_parquet_file import check_place

    check_place(out, overwrite=overwrite)
    # Responses that are kept on disk have no lengths or costs.
    responses, logs = read_found(results, replace(reading, out_of_core=False), talk=not quiet)
    responses.to_parquet(out, overwrite=overwrite)
    if quiet:
        return
    if logs is not None:
        typer.echo(logs.to_text())
    lengths = "" if responses.latency is None else ", with lengths or times"
    costs = "" if responses.costs is None else ", with costs"
    clusters = "" if responses.clusters is None else f", {len(responses.clusters.names)} clusters"
    typer.echo(f"{str(responses).strip('<>')}{lengths}{costs}{clusters}")
    typer.echo(f"Wrote {one_line(str(out), 400)}")

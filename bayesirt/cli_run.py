"""Commands that look at a run that `rank` wrote."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bayesirt.cli_options import AsJson, prepare_jax

RunFolder = Annotated[Path, typer.Argument(help="A folder that rank wrote.")]


class Format(StrEnum):
    """Of the ranking, for other documents."""

    markdown = "markdown"
    latex = "latex"
    json = "json"


def compare(
    run: RunFolder,
    as_json: AsJson = False,
) -> None:
    """Show the point estimate of a run beside its posterior, and where the two disagree."""
    from bayesirt import terminal
    from bayesirt.run_folder import load_run

    comparison = load_run(run).comparison
    if as_json:
        tables = {"subjects": comparison.subjects, "items": comparison.items}
        typer.echo(json.dumps({k: v.to_dict("records") for k, v in tables.items()}, indent=2))
    else:
        terminal.print_comparison(comparison)


def review(
    run: RunFolder,
    a_min: Annotated[
        float, typer.Option(min=0.01, help="Discrimination below which an item is nil.")
    ] = 0.25,
    q: Annotated[
        float,
        typer.Option(min=0.001, max=0.999, help="Bound on the share of wrong ones."),
    ] = 0.1,
    as_json: AsJson = False,
) -> None:
    """List items that could be dropped, and those whose key looks wrong."""
    from bayesirt import terminal
    from bayesirt.item_review import review_items
    from bayesirt.run_folder import load_run

    found = review_items(load_run(run).posterior, a_min=a_min, q=q)
    if as_json:
        typer.echo(json.dumps(found.summary.to_dict("records"), indent=2))
    else:
        terminal.print_review(found)


def separate(
    run: RunFolder,
    subjects: Annotated[
        list[str] | None,
        typer.Argument(help="Two subjects; left out, neighbours of the ranking."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how surely subjects are apart, and how many more questions would make it sure."""
    prepare_jax(1)
    from dataclasses import asdict

    from bayesirt.errors import ResponseError
    from bayesirt.run_folder import load_run
    from bayesirt.separation import least_detectable, separate, separate_neighbours
    from bayesirt.terminal import print_separation

    if subjects and len(subjects) != 2:
        raise ResponseError(f"name two subjects, or none, got {len(subjects)}")
    loaded = load_run(run)
    posterior, detectable = loaded.posterior, least_detectable(loaded.posterior)
    if subjects:
        found = separate(posterior, subjects[0], subjects[1])
        typer.echo(json.dumps(_finite(asdict(found)), indent=2) if as_json else found.to_text())
        return
    neighbours = separate_neighbours(posterior, loaded.ranking)
    if as_json:
        rows = [_finite(row) for row in neighbours.to_dict("records")]
        told = {"detectable": asdict(detectable), "neighbours": rows}
        typer.echo(json.dumps(told, indent=2))
    else:
        print_separation(neighbours, detectable)


def export(
    run: RunFolder,
    how: Annotated[Format, typer.Option("--format", help="Of the ranking.")] = Format.markdown,
    out: Annotated[
        Path | None, typer.Option(help="File to write; by default stdout.", show_default=False)
    ] = None,
) -> None:
    """Write the ranking for other documents."""
    prepare_jax(1)
    from bayesirt.export import ranking_as_json, ranking_as_latex, ranking_as_markdown
    from bayesirt.run_folder import load_run
    from bayesirt.whole_file import write_whole

    loaded = load_run(run)
    text = {
        Format.markdown: lambda: ranking_as_markdown(loaded),
        Format.latex: lambda: ranking_as_latex(loaded),
        Format.json: lambda: json.dumps(ranking_as_json(loaded), indent=2) + "\n",
    }[how]()
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text.encode())


def _finite(row: dict[Any, Any]) -> dict[str, Any]:
    """Return None for numbers beyond all bounds, which JSON does not know."""
    return {str(key): None if value == float("inf") else value for key, value in row.items()}

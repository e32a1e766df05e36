"""Commands that read a run that `rank` wrote."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesirt.cli.options import AsJson, prepare_jax, print_json, unset
from bayesirt.errors import ResponseError

if TYPE_CHECKING:
    from bayesirt.ranking.subject_ranking import Ranking

RunFolder = Annotated[Path, typer.Argument(help="A folder that rank wrote.")]


class Format(StrEnum):
    """Formats in which a ranking is exported."""

    markdown = "markdown"
    latex = "latex"
    json = "json"


def compare(run: RunFolder, as_json: AsJson = False) -> None:
    """Compare the point estimate of a run with its posterior."""
    prepare_jax()
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report import terminal

    loaded = load_run(run)
    comparison, ranking = loaded.comparison, loaded.ranking
    if as_json:
        tables = {"subjects": comparison.subjects, "items": comparison.items}
        rows = {k: v.to_dict("records") for k, v in tables.items()}
        print_json({**_warned(ranking), **rows})
    else:
        terminal.print_comparison(comparison, ranking.warnings, sound=ranking.sound)


def review(
    run: RunFolder,
    a_min: Annotated[
        float,
        typer.Option(min=0.01, help="Discrimination below which an item counts as uninformative."),
    ] = 0.25,
    q: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="Largest expected share of false alarms.")
    ] = 0.1,
    out: Annotated[Path | None, unset(help="CSV file to write the listed items to.")] = None,
    as_json: AsJson = False,
) -> None:
    """List items that look mis-keyed, duplicated or uninformative, with the evidence."""
    prepare_jax()
    from bayesirt.checks.fit.item_pairs import local_dependence
    from bayesirt.checks.item_review import review_items
    from bayesirt.data.whole_file import write_whole
    from bayesirt.ranking.run_folder import csv_of, load_run
    from bayesirt.report import terminal
    from bayesirt.report.json_rows import rows_for_json

    posterior = load_run(run).posterior
    item_review = review_items(posterior, a_min=a_min, q=q, dependence=local_dependence(posterior))
    if out is not None:
        write_whole(out, csv_of(item_review.listed).encode())
    if as_json:
        print_json(rows_for_json(item_review.summary))
    else:
        terminal.print_review(item_review)


def fit_check(
    run: RunFolder,
    seed: Annotated[
        int | None, unset(min=0, max=2**32 - 1, help="Random seed; by default that of the run.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether one ability explains the responses of a run, and where it does not."""
    prepare_jax()
    from bayesirt.checks.fit.fit_check import check_fit, fit_key
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report import terminal
    from bayesirt.report.json_rows import rows_for_json

    loaded = load_run(run)
    key = fit_key(loaded.record.settings.seed if seed is None else seed)
    fit = check_fit(loaded.posterior, key=key, progress=not as_json)
    if as_json:
        tables = {"models": fit.summary, "items": fit.items, "subjects": fit.subjects}
        tables |= {"pairs": fit.pairs}
        tables |= {} if fit.categories is None else {"categories": fit.categories}
        rows = {name: rows_for_json(table) for name, table in tables.items()}
        print_json({"text": fit.to_text(), **rows})
    else:
        terminal.print_fit(fit)


def separate(
    run: RunFolder,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Two subjects; by default all neighbours in the ranking."),
    ] = None,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="Compare clusters instead of subjects.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how certain differences are, and how many extra questions would settle them."""
    prepare_jax()
    from dataclasses import asdict

    import pandas as pd

    from bayesirt.ranking import cluster_separation, separation
    from bayesirt.ranking.cluster_ranking import rank_clusters
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report.json_rows import rows_for_json
    from bayesirt.report.terminal import print_separation

    if names and len(names) != 2:
        raise ResponseError(f"name two to compare, or none, got {len(names)}")
    loaded = load_run(run)
    posterior, ranking = loaded.posterior, loaded.ranking
    if names:
        two = cluster_separation.separate_clusters if clusters else separation.separate
        comparison = two(posterior, names[0], names[1])
        fields = _warned(ranking) | rows_for_json(pd.DataFrame([asdict(comparison)]))[0]
        text = "\n".join([*ranking.warnings, comparison.to_text()])
        typer.echo(json.dumps(fields, indent=2) if as_json else text)
        return
    if clusters:
        ranked = rank_clusters(posterior)
        neighbours = cluster_separation.separate_neighbouring_clusters(posterior, ranked)
    else:
        neighbours = separation.separate_neighbours(posterior, ranking)
    detectable = separation.least_detectable(posterior)
    if as_json:
        fields = {"detectable": asdict(detectable), "neighbours": rows_for_json(neighbours)}
        print_json(_warned(ranking) | fields)
    else:
        shown = None if clusters else detectable
        print_separation(neighbours, shown, ranking.warnings, sound=ranking.sound)


def export(
    run: RunFolder,
    how: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.markdown,
    out: Annotated[Path | None, unset(help="File to write; by default standard output.")] = None,
) -> None:
    """Export the ranking as Markdown, LaTeX or JSON."""
    prepare_jax()
    from bayesirt.data.whole_file import write_whole
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report.export import ranking_as_json, ranking_as_latex, ranking_as_markdown

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


def _warned(ranking: "Ranking") -> dict[str, Any]:
    """Return the warnings of a ranking for JSON, or nothing if it has none."""
    return {"warnings": list(ranking.warnings)} if ranking.warnings else {}


def keep(
    run: RunFolder,
    n: Annotated[
        int | None,
        unset(
            "-n",
            min=1,
            help="How many; by default the fewest that separate 95% of the pairs that all "
            "questions separate.",
        ),
    ] = None,
    out: Annotated[Path | None, unset(help="CSV file to write the items to.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the few questions that separate the models nearly as well as all of them."""
    prepare_jax()
    from bayesirt.data.whole_file import write_whole
    from bayesirt.ranking.kept_items import keep_items
    from bayesirt.ranking.run_folder import csv_of, load_run
    from bayesirt.report import terminal
    from bayesirt.report.json_rows import rows_for_json

    loaded = load_run(run)
    selection = keep_items(loaded.posterior, n)
    items = selection.summary.head(selection.n)
    if out is not None:
        write_whole(out, csv_of(items).encode())
    if as_json:
        fields = {"text": selection.to_text(), "items": rows_for_json(items)}
        print_json(_warned(loaded.ranking) | fields)
    else:
        terminal.print_kept(selection, loaded.ranking)


def plot(
    run: RunFolder,
    picture: Annotated[
        str | None,
        typer.Argument(help="Name of a picture of the report; omit to list the names."),
    ] = None,
    out: Annotated[Path | None, unset(help="SVG, PDF or PNG file; by default PICTURE.svg.")] = None,
) -> None:
    """Save a picture of a run's report to a file."""
    prepare_jax()
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report.pictures import pictures_of, plot_run, title_of, write_picture

    loaded = load_run(run)
    if picture is None:
        for name in pictures_of(loaded):
            typer.echo(f"{name:12} {title_of(loaded, name)}")
        return
    out = Path(f"{picture}.svg") if out is None else out
    write_picture(plot_run(loaded, picture), out)
    typer.echo(f"{title_of(loaded, picture)}: {out}")


def cite(run: RunFolder) -> None:
    """Print a methods paragraph for a paper, with BibTeX."""
    prepare_jax()
    from bayesirt.ranking.run_folder import load_run
    from bayesirt.report.citation import cite as cited

    typer.echo(str(cited(load_run(run))))

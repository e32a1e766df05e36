"""The `bank` commands and `score`: a suite of benchmarks that grows."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesirt.cli.options import AsJson, Quiet, Seed, prepare_jax, print_json, unset
from bayesirt.cli.reading_input import (
    read_and_tell,
    read_new_answers,
    with_answer_options,
    with_options_of_answers,
)
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading

bank = typer.Typer(
    help="Keep calibrated benchmarks in an item bank, and add to it.", no_args_is_help=True
)


class AnchorsBy(StrEnum):
    """Ways to choose anchors."""

    clusters = "clusters"
    random = "random"
    discrimination = "discrimination"
    design = "design"
    information = "information"


Folder = Annotated[Path, typer.Argument(help="Folder of the bank.")]
From = Annotated[
    Path, typer.Option("--from", help="Results of the reference subjects: a long file, or logs.")
]
NewBenchmark = Annotated[
    Path, typer.Argument(help="Results on the new benchmark, from subjects in the bank.")
]
AnswersFile = Annotated[Path, typer.Argument(help="Answers of new subjects to anchors.")]
BenchmarkColumn = Annotated[str, typer.Option(help="Column with the benchmark of each item.")]
Name = Annotated[str | None, unset(help="Name of the benchmark; by default the file name.")]
Page = Annotated[
    Path | None, unset(help="HTML page to write, with items, anchors and all scores so far.")
]
NumberOfAnchors = Annotated[int, typer.Option(min=1, help="Anchors per benchmark.")]
ChosenBy = Annotated[
    AnchorsBy,
    typer.Option(
        "--anchors-by",
        help="How to choose anchors: clusters of similar items (Habba et al., 2026); design, for "
        "the lowest expected variance of the score; highest information; highest discrimination; "
        "or at random.",
    ),
]
NumberOfAbilities = Annotated[
    int | None,
    unset(min=1, max=60, help="Number of abilities; by default chosen on held-out answers."),
]


@bank.command()
@with_options_of_answers
def create(
    folder: Folder,
    results: From,
    benchmark_column: BenchmarkColumn = "benchmark",
    anchors: NumberOfAnchors = 100,
    anchors_by: ChosenBy = AnchorsBy.clusters,
    abilities: NumberOfAbilities = None,
    *,
    reading: "Reading",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Calibrate the first benchmarks and choose their anchors."""
    prepare_jax()
    import jax

    from bayesirt.bank.growing_suite import create_suite
    from bayesirt.progress import fits_shown
    from bayesirt.report.terminal_bank import print_bank

    responses = read_and_tell(results, reading, talk=not quiet)
    if benchmark_column not in responses.item_metadata:
        raise ResponseError(
            f"the results have no column {benchmark_column!r} that is the same for all rows of an "
            f"item; name the benchmark's column with --benchmark-column"
        )
    with fits_shown(not quiet):
        made = create_suite(
            folder,
            responses,
            [str(x) for x in responses.item_metadata[benchmark_column]],
            key=jax.random.key(seed),
            n_anchors=anchors,
            how=anchors_by.value,
            n_abilities=abilities,
            source=_source(results),
            progress=not quiet,
            announce=_announce(not quiet),
        )
    if not quiet:
        print_bank(made)


@bank.command()
@with_options_of_answers
def add(
    folder: Folder,
    results: NewBenchmark,
    name: Name = None,
    anchors: NumberOfAnchors = 100,
    anchors_by: ChosenBy = AnchorsBy.clusters,
    *,
    reading: "Reading",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Add a benchmark; existing items and scores never change."""
    prepare_jax()
    import jax

    from bayesirt.bank.growing_suite import add_benchmark
    from bayesirt.progress import fits_shown
    from bayesirt.report.terminal_bank import print_bank

    responses = read_and_tell(results, reading, talk=not quiet)
    with fits_shown(not quiet):
        made = add_benchmark(
            folder,
            name or results.name.split(".")[0],
            responses,
            key=jax.random.key(seed),
            n_anchors=anchors,
            how=anchors_by.value,
            source=_source(results),
            progress=not quiet,
            announce=_announce(not quiet),
        )
    if not quiet:
        print_bank(made)


@bank.command()
def review(
    folder: Folder,
    report: Page = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Look for leaked or changed anchors, and for benchmarks that have stopped being useful."""
    prepare_jax()
    import jax

    from bayesirt.bank.folder import read_bank
    from bayesirt.bank.review import review_bank
    from bayesirt.data.whole_file import write_whole
    from bayesirt.report.bank_html import render_bank_report
    from bayesirt.report.terminal_bank import print_review, review_as_json

    if report is not None and report.suffix != ".html":
        raise ResponseError(f"--report writes an HTML page; name it {one_line(report.stem)}.html")
    pool = read_bank(folder)
    result = review_bank(pool, key=jax.random.key(seed), announce=_announce(not (quiet or as_json)))
    if report is not None:
        write_whole(report, render_bank_report(pool, result).encode())
    if as_json:
        print_json(review_as_json(result))
    elif not quiet:
        print_review(result)


@with_answer_options
def score_subjects(
    folder: Folder,
    answers: AnswersFile,
    *,
    reading: "Reading",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict scores of new subjects on every benchmark from their answers to anchors."""
    prepare_jax()
    import jax

    from bayesirt.bank.folder import read_bank
    from bayesirt.bank.scoring import answers_table, score_answers
    from bayesirt.report.terminal_bank import print_suite_scores, suite_scores_as_json

    items = read_bank(folder).items.names
    talk = not (quiet or as_json)
    table = answers_table(read_new_answers(answers, items, reading, talk=talk), items)
    scores = score_answers(
        folder, table, key=jax.random.key(seed), source=_source(answers),
        progress=talk, announce=_announce(talk),
    )  # fmt: skip
    if as_json:
        print_json(suite_scores_as_json(scores))
    elif not quiet:
        print_suite_scores(scores)


def _announce(talk: bool) -> Callable[[str], None] | None:
    """Return a function that prints each step on stderr, if it is a terminal."""
    if not (talk and sys.stderr.isatty()):
        return None
    return lambda text: typer.echo(f"{text} ...", err=True)


def _source(path: Path) -> dict[str, Any]:
    from bayesirt.ranking.record import sha256_of

    return {"name": path.name, "sha256": sha256_of(path)}

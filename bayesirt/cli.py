"""The command line: parse, call one function, print."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bayesirt.cli_bank import bank, score_subjects
from bayesirt.cli_convert import convert
from bayesirt.cli_input import announce, read_and_tell, read_found, with_reading_options
from bayesirt.cli_next_item import next_item
from bayesirt.cli_options import (
    AsJson,
    Chains,
    CheckpointFolder,
    Draws,
    Engine,
    EngineOption,
    Example,
    Model,
    ModelOption,
    Out,
    Overwrite,
    PerComponent,
    Point,
    PointOption,
    PriorKind,
    PriorsOption,
    Quiet,
    Results,
    Seed,
    Slopes,
    SlopesOption,
    TargetAccept,
    Warmup,
    WrongLengthsOption,
    prepare_jax,
)  # fmt: skip
from bayesirt.cli_profile import profile
from bayesirt.cli_study import studies

if TYPE_CHECKING:
    from bayesirt.readers.reading import Reading
    from bayesirt.responses import Responses
    from bayesirt.run import Run, Settings

app = typer.Typer(
    help="Rank language models, and any other subjects, with honest uncertainty.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(studies, name="study")
app.add_typer(bank, name="bank")


def _print_version(wanted: bool) -> None:
    if wanted:
        from bayesirt import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options before a command."""


@app.command()
@with_reading_options
def rank(
    results: Results = None,
    example: Example = False,
    out: Out = Path("run"),
    overwrite: Overwrite = False,
    per_component: PerComponent = False,
    *,
    reading: "Reading",
    seed: Seed = 0,
    chains: Chains = 4,
    warmup: Warmup = 1000,
    draws: Draws = 1000,
    target_accept: TargetAccept = 0.95,
    model: ModelOption = Model.two_pl,
    wrong_lengths: WrongLengthsOption = False,
    priors: PriorsOption = PriorKind.hierarchical,
    slopes: SlopesOption = Slopes.positive,
    engine: EngineOption = Engine.auto,
    point: PointOption = Point.auto,
    checkpoint: CheckpointFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the subjects of results, and write tables, draws and a report."""
    prepare_jax(chains)
    from bayesirt.models import Priors
    from bayesirt.run import Settings
    from bayesirt.run_folder import check_output

    check_output(out, overwrite=overwrite)
    path = _input(results, example)
    talk = not (quiet or as_json)
    responses = read_and_tell(path, reading, talk=talk)
    settings = Settings(
        seed, chains, warmup, draws, target_accept, Priors(priors.value, slopes.value),
        point.value, engine.value, model.value, wrong_lengths,
    )  # fmt: skip
    runs = _rank_groups(responses, settings, path, per_component, talk, checkpoint)
    _write(runs, out, overwrite)
    if as_json:
        _print_json(runs, per_component)
    elif not quiet:
        _print(runs, out)


app.command()(profile)
app.command()(convert)
app.command("score")(score_subjects)
app.command("next-item")(next_item)


@app.command()
@with_reading_options
def check(
    results: Results = None,
    example: Example = False,
    *,
    reading: "Reading",
    as_json: AsJson = False,
) -> None:
    """Say what results hold, whether they can be ranked, and whether averages would do."""
    prepare_jax(1)
    from bayesirt import terminal
    from bayesirt.averages import average_rule

    responses, found = read_found(_input(results, example), reading, talk=not as_json)
    rule = average_rule(responses)
    if as_json:
        logs = {} if found is None else {"logs": found.as_json()}
        typer.echo(json.dumps(terminal.check_as_json(responses, rule) | logs, indent=2))
    else:
        if found is not None:
            typer.echo(found.to_text())
        terminal.print_check(responses, rule)


@app.command()
def compare(
    run: Annotated[Path, typer.Argument(help="A folder that `rank` wrote.")],
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


@app.command()
def review(
    run: Annotated[Path, typer.Argument(help="A folder that rank wrote.")],
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


def _rank_groups(
    responses: "Responses",
    settings: "Settings",
    path: Path,
    per_component: bool,
    talk: bool,
    checkpoint: Path | None,
) -> dict[str, "Run"]:
    from bayesirt.errors import ResponseError
    from bayesirt.run import rank_responses

    groups = {"": responses}
    if per_component:
        found = responses.components()
        groups = {
            f"group_{k}": responses.select(*members)
            for k, members in enumerate(found, 1)
            if min(map(len, members)) >= 2
        }
        left_out = len(found) - len(groups)
        if not groups:
            raise ResponseError("no group has two subjects and two items; nothing can be ranked")
        if left_out and talk:
            typer.echo(f"{left_out} groups are too small to rank and are left out", err=True)
    runs = {
        name: rank_responses(
            group,
            settings,
            source=path,
            progress=talk,
            announce=announce if talk else None,
            checkpoint=checkpoint and checkpoint / name,
        )
        for name, group in groups.items()
    }
    if checkpoint and checkpoint.is_dir() and not any(checkpoint.iterdir()):
        checkpoint.rmdir()  # that of the groups is gone, each by itself
    return runs


def _write(runs: dict[str, "Run"], out: Path, overwrite: bool) -> None:
    from bayesirt.report import render_report
    from bayesirt.run_folder import save_run, write_folder

    def fill(folder: Path) -> None:
        for name, run in runs.items():
            (folder / name).mkdir(exist_ok=True)
            save_run(run, folder / name, render_report(run))

    write_folder(out, fill, overwrite=overwrite)


def _print(runs: dict[str, "Run"], out: Path) -> None:
    from bayesirt.terminal import print_run

    for name, run in runs.items():
        print_run(run, out / name)


def _print_json(runs: dict[str, "Run"], per_component: bool) -> None:
    from bayesirt.terminal import run_as_json

    objects = {name: run_as_json(run) for name, run in runs.items()}
    typer.echo(json.dumps(objects if per_component else objects[""], indent=2))


def _input(results: Path | None, example: bool) -> Path:
    from bayesirt.errors import ResponseError

    if example == (results is not None):
        raise ResponseError("name one results file, or pass --example")
    if results is not None:
        return results
    from bayesirt.example import example_path

    return example_path()


def _fail(message: str) -> NoReturn:
    typer.echo(f"bayesirt: {message}", err=True)
    raise SystemExit(2)


def main() -> None:
    """Run the command line; bad input is one sentence on stderr and exit code 2."""
    from bayesirt.errors import ResponseError

    try:
        app()
    except ResponseError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        typer.echo("bayesirt: interrupted before there was anything to save", err=True)
        raise SystemExit(130) from None
    except MemoryError:
        _fail("not enough memory for these responses")
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None

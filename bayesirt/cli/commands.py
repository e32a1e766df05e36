"""The command line: parse, call one function, print."""

import atexit
import gc
import sys
import warnings
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bayesirt.cli.bank import bank, score_subjects
from bayesirt.cli.convert import convert
from bayesirt.cli.existing_run import cite, compare, export, fit_check, keep, plot, review, separate
from bayesirt.cli.gate import gate
from bayesirt.cli.horizon import horizon
from bayesirt.cli.next_item import next_item
from bayesirt.cli.options import AsJson, Example, Results, prepare_jax, print_json
from bayesirt.cli.profile import profile
from bayesirt.cli.rank import rank
from bayesirt.cli.reading_input import input_path, read_found, with_reading_options
from bayesirt.cli.study import studies
from bayesirt.errors import ResponseError

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading

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
    """Handle the options before a command."""


app.command()(rank)
app.command()(profile)
app.command()(convert)
app.command()(gate)
app.command("score")(score_subjects)
app.command("next-item")(next_item)
for _command in (compare, review, keep, separate, horizon, plot, export, cite):
    app.command()(_command)
app.command("fit-check")(fit_check)


@app.command()
@with_reading_options
def check(
    results: Results = None,
    example: Example = False,
    *,
    reading: "Reading",
    as_json: AsJson = False,
) -> None:
    """Summarise results: whether they can be ranked, and whether averages would do."""
    prepare_jax()
    from bayesirt.ranking.simple_averages import average_rule
    from bayesirt.report import terminal

    responses, log_summary = read_found(input_path(results, example), reading, talk=not as_json)
    rule = average_rule(responses)
    if as_json:
        logs = {} if log_summary is None else {"logs": log_summary.as_json()}
        print_json(terminal.check_as_json(responses, rule) | logs)
    else:
        if log_summary is not None:
            typer.echo(log_summary.to_text())
        terminal.print_check(responses, rule, reading.facet)


_SELDOM = (50_000, 20, 50)
"""Thresholds of Python's garbage collector. A command creates few cycles, but tracing would trigger
collections all the time, a tenth of the run time of `rank`."""


def _fail(message: str) -> NoReturn:
    typer.echo(f"bayesirt: {message}", err=True)
    raise SystemExit(2)


def _say_warning(message: Warning | str, *_place: Any, **_more: Any) -> None:
    """Print a warning on stderr without the line of code that raised it."""
    typer.echo(f"warning: {message}", err=True)


def main() -> None:
    """Run the command line; bad input gives one sentence on stderr and exit code 2."""
    gc.set_threshold(*_SELDOM)
    atexit.register(gc.freeze)  # Skips a last collection when the process ends.
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
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

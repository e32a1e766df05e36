"""Options and functions that commands which read results share."""

import inspect
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bayesirt.cli.options import Duplicates, ItemsIn, ScoreKind, signed
from bayesirt.cli.reading_options import READING
from bayesirt.errors import ResponseError

if TYPE_CHECKING:
    from bayesirt.data.readers.found_logs import FoundLogs
    from bayesirt.data.readers.reading import Reading
    from bayesirt.data.responses import Responses
    from bayesirt.data.scales import Scale
    from bayesirt.inference.ability_belief import Answers

OF_ANSWERS = ("duplicates", "threshold", "metric", "filter", "skip_damaged")
"""Options for answers of new subjects; their columns must have the standard names."""
WITHOUT_SUBJECTS = tuple(name for name in READING if name not in ("cluster", "cost"))
"""Options for commands that do not use clusters or costs of subjects."""
READING_OPTIONS = "reading"
"""Name of the argument that `with_reading_options` replaces by the options."""


def with_reading_options(
    command: Callable[..., None], options: Collection[str] = READING
) -> Callable[..., None]:
    """Give a command options for how results are read."""
    ordered: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name != READING_OPTIONS:
            ordered.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        ordered += [
            inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in READING.items()
            if name in options
        ]

    def run(**given: Any) -> None:
        from bayesirt.data.readers.reading import Reading

        values = {name: _plain(given.pop(name)) for name in options}
        command(**given, **{READING_OPTIONS: Reading(**values)})

    return signed(run, command, ordered)


def _plain(value: Any) -> Any:
    """Return the value of an option as the library takes it."""
    if isinstance(value, ItemsIn | Duplicates | ScoreKind):
        return value.value
    return tuple(value) if isinstance(value, list) else value


def input_path(results: Path | None, example: bool) -> Path:
    """Return the results that were named, or the embedded example."""
    if example == (results is not None):
        raise ResponseError("name one results file, or pass --example")
    if results is not None:
        return results
    from bayesirt.data.example import example_path

    return example_path()


def with_answer_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for how answers of new subjects are read."""
    return with_reading_options(command, OF_ANSWERS)


def with_options_of_answers(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all reading options except clusters and costs, which it cannot use."""
    return with_reading_options(command, WITHOUT_SUBJECTS)


def read_found(
    path: Path, reading: "Reading", *, talk: bool = True
) -> tuple["Responses", "FoundLogs | None"]:
    """Read results, and return them with a summary of the logs, if they are logs."""
    from bayesirt.data.readers.recognise import read_results
    from bayesirt.progress import progress_bar

    if not talk:
        return read_results(path, reading)
    with progress_bar("reading") as show:
        return read_results(
            path,
            reading,
            progress=show,
            announce=lambda text: typer.echo(f"reading: {text}", err=True),
        )


def read_and_tell(path: Path, reading: "Reading", *, talk: bool = True) -> "Responses":
    """Read results, and summarise on stderr what was found if they are logs."""
    responses, log_summary = read_found(path, reading, talk=talk)
    if log_summary is not None and talk:
        typer.echo(log_summary.to_text(), err=True)
    return responses


def read_new_answers(
    path: Path,
    items: Sequence[str],
    reading: "Reading",
    *,
    talk: bool = True,
    scale: "Scale | None" = None,
) -> dict[str, "Answers"]:
    """Read answers of new subjects, and summarise on stderr what was found if they are logs."""
    from bayesirt.bank.new_answers import read_found_answers

    answers, log_summary = read_found_answers(path, items, reading, scale)
    if log_summary is not None and talk:
        typer.echo(log_summary.to_text(), err=True)
    return answers


def announce(text: str) -> None:
    """Print on stderr how long sampling will take."""
    typer.echo(f"sampling: {text}", err=True)


def say(text: str) -> None:
    """Print on stderr, if it is a terminal, a step that can take seconds."""
    if sys.stderr.isatty():
        typer.echo(f"{text} ...", err=True)

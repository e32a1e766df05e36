"""The command line: parse, call one function, print."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from bayesirt.responses import Responses
    from bayesirt.run import Run, Settings

app = typer.Typer(
    help="Rank language models, and any other subjects, with honest uncertainty.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class ItemsIn(StrEnum):
    """Where the items of a wide table stand."""

    rows = "rows"
    columns = "columns"


class Duplicates(StrEnum):
    """What rows with the same subject and item are."""

    error = "error"
    trials = "trials"
    first = "first"
    last = "last"


class PriorKind(StrEnum):
    """Kinds of priors on items."""

    hierarchical = "hierarchical"
    fixed = "fixed"


class Point(StrEnum):
    """Point estimators that the sampler may start from."""

    auto = "auto"
    cbmm = "cbmm"
    mml = "mml"


class Engine(StrEnum):
    """Posterior engines."""

    auto = "auto"
    nuts = "nuts"
    blocked = "blocked"
    laplace = "laplace"


class Slopes(StrEnum):
    """What discriminations may be."""

    positive = "positive"
    free = "free"
    rasch = "rasch"


Results = Annotated[
    Path | None, typer.Argument(help="CSV, TSV, JSON Lines or Parquet, long or wide, maybe .gz.")
]
Example = Annotated[bool, typer.Option("--example", help="Use the embedded example.")]
Column = Annotated[str | None, typer.Option(help="Column of a long file.", show_default=False)]
Orientation = Annotated[
    ItemsIn | None, typer.Option(help="Orientation of a wide file.", show_default=False)
]
Repeated = Annotated[Duplicates, typer.Option(help="What rows with the same subject and item are.")]
Threshold = Annotated[
    float | None, typer.Option(help="Scores from here on count as right.", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


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
def rank(
    results: Results = None,
    example: Example = False,
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("run"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in that folder.")
    ] = False,
    per_component: Annotated[
        bool, typer.Option("--per-component", help="Rank unconnected groups each by itself.")
    ] = False,
    subject: Column = None,
    item: Column = None,
    score: Column = None,
    trials: Column = None,
    latency: Column = None,
    items_in: Orientation = None,
    duplicates: Repeated = Duplicates.error,
    threshold: Threshold = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same draws.")
    ] = 0,
    chains: Annotated[int, typer.Option(min=2, max=64, help="Markov chains.")] = 4,
    warmup: Annotated[int, typer.Option(min=10, help="Draws of a chain to warm up.")] = 1000,
    draws: Annotated[int, typer.Option(min=10, help="Draws of a chain to keep.")] = 1000,
    target_accept: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Higher means smaller steps.")
    ] = 0.95,
    priors: Annotated[
        PriorKind, typer.Option(help="Items learn their spread, or have a fixed one.")
    ] = PriorKind.hierarchical,
    slopes: Annotated[
        Slopes, typer.Option(help="Discriminations: positive, of any sign, or all 1.")
    ] = Slopes.positive,
    engine: Annotated[
        Engine, typer.Option(help="nuts, blocked: exact; laplace: approximate; auto: by size.")
    ] = Engine.auto,
    point: Annotated[
        Point, typer.Option(help="Point estimator to start from: mml for few items, else cbmm.")
    ] = Point.auto,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder to save unfinished chains in; the same command goes on from there.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the subjects of a results file, and write tables, draws and a report."""
    _prepare_jax(chains)
    from bayesirt import terminal
    from bayesirt.models import Priors
    from bayesirt.run import Settings
    from bayesirt.run_folder import check_output

    check_output(out, overwrite=overwrite)
    path = _input(results, example)
    responses = _read(path, subject, item, score, trials, latency, items_in, duplicates, threshold)
    settings = Settings(
        seed,
        chains,
        warmup,
        draws,
        target_accept,
        Priors(priors.value, slopes.value),
        point.value,
        engine.value,
    )
    talk = not (quiet or as_json)
    runs = _rank_groups(responses, settings, path, per_component, talk, checkpoint)

    _write(runs, out, overwrite)
    if as_json:
        objects = {name: terminal.run_as_json(run) for name, run in runs.items()}
        typer.echo(json.dumps(objects if per_component else objects[""], indent=2))
    elif not quiet:
        for name, run in runs.items():
            terminal.print_run(run, out / name)


@app.command()
def check(
    results: Results = None,
    example: Example = False,
    subject: Column = None,
    item: Column = None,
    score: Column = None,
    trials: Column = None,
    latency: Column = None,
    items_in: Orientation = None,
    duplicates: Repeated = Duplicates.error,
    threshold: Threshold = None,
    as_json: AsJson = False,
) -> None:
    """Say what a results file holds and whether it can be ranked, without ranking."""
    from bayesirt import terminal

    responses = _read(
        _input(results, example),
        subject, item, score, trials, latency, items_in, duplicates, threshold,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(responses.summary["value"].to_dict(), indent=2))
    else:
        terminal.print_check(responses)


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


studies = typer.Typer(help="Study how far the answers can be trusted.", no_args_is_help=True)
app.add_typer(studies, name="study")


class StudiedEngine(StrEnum):
    """Engines that a study can judge."""

    nuts = "nuts"
    blocked = "blocked"
    laplace = "laplace"


@studies.callback()
def _study_options() -> None:
    """Take the name of a study."""


@studies.command()
def calibration(
    engine: Annotated[
        list[StudiedEngine] | None, typer.Option(help="May be given several times; by default all.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="Subjects x items, such as 20x15; may be repeated.")
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Of each size.")] = 200,
    out: Annotated[
        Path, typer.Option(help="Folder; one that holds a part of this study is gone on with.")
    ] = Path("calibration"),
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same study.")
    ] = 0,
    priors: Annotated[
        PriorKind, typer.Option(help="Items learn their spread, or have a fixed one.")
    ] = PriorKind.hierarchical,
    slopes: Annotated[
        Slopes, typer.Option(help="Discriminations: positive, of any sign, or all 1.")
    ] = Slopes.positive,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Replications side by side.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Simulate from the prior and see whether engines and their intervals are right."""
    sizes = [_size(text) for text in size or ("12x8", "20x15", "40x40")]
    _prepare_jax(1)
    import jax

    from bayesirt.models import Priors
    from bayesirt.progress import progress_bar
    from bayesirt.studies import calibration_study
    from bayesirt.studies.engines import study_engines

    assumed = Priors(priors.value, slopes.value)
    with progress_bar("replications") as show:
        study = calibration_study(
            study_engines([e.value for e in engine or StudiedEngine], assumed),
            sizes,
            replications,
            key=jax.random.key(seed),
            priors=assumed,
            folder=out,
            n_processes=processes,
            progress=None if quiet else show,
        )
    study.save(out)
    if not quiet:
        typer.echo(study.to_text())
        typer.echo(f"Tables and figures: {out}")


def _size(text: str) -> tuple[int, int]:
    from bayesirt.errors import ResponseError

    numbers = text.split("x")
    if len(numbers) != 2 or not all(n.isdecimal() and int(n) >= 2 for n in numbers):
        raise ResponseError(f"a size is subjects x items, such as 20x15, got {text!r}")
    return int(numbers[0]), int(numbers[1])


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
    return {
        name: rank_responses(
            group,
            settings,
            source=path,
            progress=talk,
            announce=(lambda text: typer.echo(f"sampling: {text}", err=True)) if talk else None,
            checkpoint=checkpoint and checkpoint / name,
        )
        for name, group in groups.items()
    }


def _write(runs: dict[str, "Run"], out: Path, overwrite: bool) -> None:
    from bayesirt.report import render_report
    from bayesirt.run_folder import save_run, write_folder

    def fill(folder: Path) -> None:
        for name, run in runs.items():
            (folder / name).mkdir(exist_ok=True)
            save_run(run, folder / name, render_report(run))

    write_folder(out, fill, overwrite=overwrite)


def _input(results: Path | None, example: bool) -> Path:
    from bayesirt.errors import ResponseError

    if example == (results is not None):
        raise ResponseError("name one results file, or pass --example")
    if results is not None:
        return results
    from bayesirt.example import example_path

    return example_path()


def _read(
    path: Path,
    subject: str | None,
    item: str | None,
    score: str | None,
    trials: str | None,
    latency: str | None,
    items_in: ItemsIn | None,
    duplicates: Duplicates,
    threshold: float | None,
) -> "Responses":
    from bayesirt.readers import read_responses

    return read_responses(
        path,
        subject=subject,
        item=item,
        score=score,
        trials=trials,
        latency=latency,
        items_in=items_in and items_in.value,
        duplicates=duplicates.value,
        threshold=threshold,
    )


def _prepare_jax(chains: int) -> None:
    """Set JAX up for this process: 64 bits, a device for each chain, a cache of compiled code."""
    import os

    if "jax" not in sys.modules:
        flag = f"--xla_force_host_platform_device_count={chains}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    import jax

    jax.config.update("jax_enable_x64", True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bayesirt", "jax")
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") is None:
        settings: dict[str, Any] = {
            "jax_compilation_cache_dir": str(cache),
            "jax_persistent_cache_min_compile_time_secs": 0.2,
        }
        for name, value in settings.items():
            jax.config.update(name, value)


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

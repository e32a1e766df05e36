"""The `study` commands: one function per study, which turns its own options into the study."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesirt.cli.options import (
    PriorKind,
    PriorsOption,
    Quiet,
    Seed,
    Slopes,
    SlopesOption,
    prepare_jax,
    signed,
    unset,
)
from bayesirt.cli.reading_options import Column

if TYPE_CHECKING:
    from bayesirt.studies import Study

studies = typer.Typer(
    help="Run a simulation study of how trustworthy results are.", no_args_is_help=True
)

Dask = Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.")]
Folder = Annotated[
    Path, typer.Option(help="Output folder. A partial study found there is resumed.")
]
Processes = Annotated[int, typer.Option(min=1, max=64, help="Number of parallel processes.")]
Begun = Callable[..., "Study"]  # Runs a study, given its key and how to run it.


class StudiedEngine(StrEnum):
    """Engines that a study can judge."""

    nuts = "nuts"
    blocked = "blocked"
    laplace = "laplace"


def _quick(text: str) -> Any:
    return typer.Option("--quick", help=text)


@studies.callback()
def _study_options() -> None:
    """Make every study a subcommand."""


def _command(title: str, processes: int = 2) -> Callable[[Callable[..., Begun]], None]:
    """Make a command of a function that prepares a study, and add the options of all studies.

    The command runs the study with a progress bar, saves it and prints its summary.
    """

    def register(begin: Callable[..., Begun]) -> None:
        shared: dict[str, tuple[Any, Any]] = {
            "out": (Folder, Path(begin.__name__)),
            "seed": (Seed, 0),
            "processes": (Processes, processes),
            "dask": (Dask, None),
            "quiet": (Quiet, False),
        }
        ordered = [
            *inspect.signature(begin).parameters.values(),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=kind)
                for name, (kind, d) in shared.items()
            ),
        ]

        def run(**given: Any) -> None:
            running = {name: given.pop(name) for name in shared}
            prepare_jax()
            _do(begin(**given), title, **running)

        studies.command()(signed(run, begin, ordered))

    return register


def _do(
    study: Begun, title: str, out: Path, seed: int, processes: int, dask: str | None, quiet: bool
) -> None:
    import jax

    from bayesirt.progress import progress_bar

    with progress_bar(title) as show:
        result = study(
            key=jax.random.key(seed),
            folder=out,
            n_processes=processes,
            scheduler=dask,
            progress=None if quiet else show,
        )
    result.save(out)
    if not quiet:
        typer.echo(result.to_text())
        typer.echo(f"Tables and figures: {out}")


def _read(reader: Callable[..., Any], path: Path | None, *how: str, **options: Any) -> Any:
    """Read a file, or return None if none is named."""
    return None if path is None else reader(path, *how, **options)


@_command("replications", processes=1)
def calibration(
    engine: Annotated[
        list[StudiedEngine] | None, typer.Option(help="Engine to study; repeatable. Default: all.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="Subjects x items, such as 20x15; repeatable.")
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Replications per size.")] = 200,
    priors: PriorsOption = PriorKind.hierarchical,
    slopes: SlopesOption = Slopes.positive,
) -> Begun:
    """Simulate from the prior to check that engines and their intervals are correct."""
    from bayesirt.models import Priors
    from bayesirt.studies import calibration_study
    from bayesirt.studies.replication import Design, study_engines

    sizes = [_size(text) for text in size or ("12x8", "20x15", "40x40")]
    assumed = Priors(priors.value, slopes.value)
    engines = study_engines([e.value for e in engine or StudiedEngine], assumed)
    return partial(calibration_study, engines, sizes, replications, design=Design(assumed))


@_command("suites")
def sparse(
    quick: Annotated[bool, _quick("A coarser grid and fewer seeds: about a minute.")] = False,
    priors: PriorsOption = PriorKind.hierarchical,
) -> Begun:
    """See when simple averages mislead, and whether the posterior warns of it (Kang, 2026)."""
    from bayesirt.models import Priors
    from bayesirt.studies import QUICK, SparseDesign, sparse_study

    design = replace(QUICK if quick else SparseDesign(), priors=Priors(priors.value))
    return partial(sparse_study, design)


@_command("suites")
def cbmm(
    responses: Annotated[
        Path | None,
        unset(help="Results file for stability, ranks and levels; by default simulated."),
    ] = None,
    quick: Annotated[bool, _quick("Smaller suites and fewer of them: two minutes.")] = False,
) -> Begun:
    """See what cBMM recovers, how stable it is, and which items can go (Qu et al., 2026)."""
    from bayesirt.data.readers import read_responses
    from bayesirt.studies import CBMM_QUICK, CBMMDesign, cbmm_study

    design = CBMM_QUICK if quick else CBMMDesign()
    return partial(cbmm_study, design, responses=_read(read_responses, responses))


@_command("tasks")
def lart(
    responses: Annotated[
        Path | None, unset(help="Long results file with tokens or times; by default simulated.")
    ] = None,
    latency: Column = None,
    suffix: Annotated[
        list[str] | None,
        typer.Option(
            help="Suffix of a name that only describes the prompt, such as _one_shot; repeatable. "
            "Subjects that differ only in it are kept together."
        ),
    ] = None,
    criterion: Annotated[
        Path | None, unset(help="CSV (subject, value) of an external measure of ability.")
    ] = None,
    quick: Annotated[bool, _quick("Fewer replications: two to three minutes.")] = False,
) -> Begun:
    """See what answer lengths add to ability, on simulated and own results (Xu et al., 2026)."""
    from bayesirt.data.readers import read_responses
    from bayesirt.studies import LART_QUICK, LaRTDesign, lart_study
    from bayesirt.studies.lart_matrix import read_criterion

    return partial(
        lart_study,
        LART_QUICK if quick else LaRTDesign(),
        responses=_read(read_responses, responses, latency=latency),
        suffixes=suffix or (),
        criterion=_read(read_criterion, criterion),
    )


@_command("tasks")
def abilities(
    responses: Annotated[
        Path | None,
        typer.Option(help="Results file to study; by default suites and a matrix are simulated."),
    ] = None,
    q_matrix: Annotated[
        Path | None, unset("--q-matrix", help="Which abilities each of its items needs.")
    ] = None,
    groups: Annotated[
        Path | None, unset(help="CSV (item, benchmark), to predict one benchmark from another.")
    ] = None,
    quick: Annotated[bool, _quick("Smaller, with fewer splits: three minutes.")] = False,
) -> Begun:
    """See what fine-grained abilities add, and what they predict (Zhang et al., 2026)."""
    from bayesirt.data.readers import read_q_matrix, read_responses
    from bayesirt.studies import ABILITIES_QUICK, AbilitiesDesign, abilities_study
    from bayesirt.studies.labels import read_labels

    return partial(
        abilities_study,
        ABILITIES_QUICK if quick else AbilitiesDesign(),
        responses=_read(read_responses, responses),
        q=_read(read_q_matrix, q_matrix),
        groups=_read(read_labels, groups, "item", "benchmark"),
    )


@_command("banks")
def cat(
    quick: Annotated[bool, _quick("One small bank of each model: about a minute.")] = False,
) -> Begun:
    """See what adaptive item selection saves, and whether the intervals still hold."""
    from bayesirt.studies import CAT_QUICK, CATDesign, cat_study

    return partial(cat_study, CAT_QUICK if quick else CATDesign())


@_command("chains")
def fpc(
    responses: Annotated[
        Path | None, typer.Option(help="Complete results file; by default a suite is simulated.")
    ] = None,
    groups: Annotated[
        Path | None, unset(help="CSV (item, benchmark): the benchmark of each item.")
    ] = None,
    families: Annotated[
        Path | None,
        unset(help="CSV (subject, family), to predict families left out of the calibration."),
    ] = None,
    quick: Annotated[bool, _quick("A short chain with few steps: three minutes.")] = False,
) -> Begun:
    """See how well a growing suite predicts subjects from a few anchors (Habba et al., 2026)."""
    from bayesirt.data.readers import read_responses
    from bayesirt.studies import FPC_QUICK, fpc_study
    from bayesirt.studies.labels import read_labels

    return partial(
        fpc_study,
        FPC_QUICK if quick else None,
        responses=_read(read_responses, responses),
        groups=_read(read_labels, groups, "item", "benchmark"),
        families=_read(read_labels, families, "subject", "family"),
    )


def _size(text: str) -> tuple[int, int]:
    from bayesirt.errors import ResponseError

    numbers = text.split("x")
    if len(numbers) != 2 or not all(n.isdecimal() and int(n) >= 2 for n in numbers):
        raise ResponseError(f"a size is subjects x items, such as 20x15, got {text!r}")
    return int(numbers[0]), int(numbers[1])

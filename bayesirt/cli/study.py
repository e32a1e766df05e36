"""The `study` commands."""

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
)
from bayesirt.cli.reading_options import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesirt.studies import Study

studies = typer.Typer(
    help="Run a simulation study of how far results can be trusted.", no_args_is_help=True
)

Dask = Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.")]
Folder = Annotated[
    Path, typer.Option(help="Output folder. A partial study found there is resumed.")
]
Processes = Annotated[int, typer.Option(min=1, max=64, help="Number of parallel processes.")]


def _file(text: str, *names: str) -> Any:
    """Return the option of a file that a study may be given."""
    return typer.Option(*names, help=text, show_default=False)


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
        list[StudiedEngine] | None, typer.Option(help="Engine to study; repeatable. Default: all.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="Subjects x items, such as 20x15; repeatable.")
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Replications per size.")] = 200,
    out: Folder = Path("calibration"),
    seed: Seed = 0,
    priors: PriorsOption = PriorKind.hierarchical,
    slopes: SlopesOption = Slopes.positive,
    processes: Processes = 1,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Simulate from the prior and see whether engines and their intervals are right."""
    sizes = [_size(text) for text in size or ("12x8", "20x15", "40x40")]
    prepare_jax(1)
    from bayesirt.models import Priors
    from bayesirt.studies import calibration_study
    from bayesirt.studies.replication import Design, study_engines

    assumed = Priors(priors.value, slopes.value)
    engines = study_engines([e.value for e in engine or StudiedEngine], assumed)
    design = Design(assumed)
    study = partial(calibration_study, engines, sizes, replications, design=design)
    _run(study, "replications", seed, out, processes, dask, quiet)


@studies.command()
def sparse(
    quick: Annotated[
        bool, typer.Option("--quick", help="A coarser grid and fewer seeds: about a minute.")
    ] = False,
    out: Folder = Path("sparse"),
    seed: Seed = 0,
    priors: PriorsOption = PriorKind.hierarchical,
    processes: Processes = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See when the simple average misleads, and whether the posterior warns (Kang, 2026)."""
    prepare_jax(1)
    from bayesirt.models import Priors
    from bayesirt.studies import QUICK, SparseDesign, sparse_study

    design = replace(QUICK if quick else SparseDesign(), priors=Priors(priors.value))
    _run(partial(sparse_study, design), "suites", seed, out, processes, dask, quiet)


@studies.command()
def cbmm(
    responses: Annotated[
        Path | None, _file("Results file for stability, ranks and levels; by default simulated.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller suites and fewer of them: two minutes.")
    ] = False,
    out: Folder = Path("cbmm"),
    seed: Seed = 0,
    processes: Processes = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what cBMM recovers, how steady it is, and which items may go (Qu et al., 2026)."""
    prepare_jax(1)
    from bayesirt.data.readers import read_responses
    from bayesirt.studies import CBMM_QUICK, CBMMDesign, cbmm_study

    given = None if responses is None else read_responses(responses)
    study = partial(cbmm_study, CBMM_QUICK if quick else CBMMDesign(), responses=given)
    _run(study, "suites", seed, out, processes, dask, quiet)


@studies.command()
def lart(
    responses: Annotated[
        Path | None, _file("Long results file with tokens or times; by default simulated.")
    ] = None,
    latency: Column = None,
    suffix: Annotated[
        list[str] | None,
        typer.Option(
            help="Suffix of names that only says how a subject was prompted, such as _one_shot; "
            "repeatable. Subjects that differ only in it are kept together."
        ),
    ] = None,
    criterion: Annotated[
        Path | None, _file("CSV (subject, value) of an external measure of ability.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer replications: two to three minutes.")
    ] = False,
    out: Folder = Path("lart"),
    seed: Seed = 0,
    processes: Processes = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what lengths of answers add to ability, simulated and on your own (Xu et al., 2026)."""
    prepare_jax(1)
    from bayesirt.data.readers import read_responses
    from bayesirt.studies import LART_QUICK, LaRTDesign, lart_study
    from bayesirt.studies.lart_matrix import read_criterion

    study = partial(
        lart_study,
        LART_QUICK if quick else LaRTDesign(),
        responses=None if responses is None else read_responses(responses, latency=latency),
        suffixes=suffix or (),
        criterion=None if criterion is None else read_criterion(criterion),
    )
    _run(study, "tasks", seed, out, processes, dask, quiet)


@studies.command()
def abilities(
    responses: Annotated[
        Path | None,
        typer.Option(help="Results file to study; by default suites and a matrix are simulated."),
    ] = None,
    q_matrix: Annotated[
        Path | None, _file("Which abilities each of its items needs.", "--q-matrix")
    ] = None,
    groups: Annotated[
        Path | None, _file("CSV (item, benchmark), to predict one benchmark from another.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller, with fewer splits: three minutes.")
    ] = False,
    out: Folder = Path("abilities"),
    seed: Seed = 0,
    processes: Processes = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what fine-grained abilities are worth, and what they predict (Zhang et al., 2026)."""
    prepare_jax(1)
    from bayesirt.data.readers import read_q_matrix, read_responses
    from bayesirt.studies import ABILITIES_QUICK, AbilitiesDesign, abilities_study
    from bayesirt.studies.labels import read_labels

    study = partial(
        abilities_study,
        ABILITIES_QUICK if quick else AbilitiesDesign(),
        responses=None if responses is None else read_responses(responses),
        q=None if q_matrix is None else read_q_matrix(q_matrix),
        groups=None if groups is None else read_labels(groups, "item", "benchmark"),
    )
    _run(study, "tasks", seed, out, processes, dask, quiet)


@studies.command()
def cat(
    quick: Annotated[
        bool, typer.Option("--quick", help="One small bank of each model: about a minute.")
    ] = False,
    out: Folder = Path("cat"),
    seed: Seed = 0,
    processes: Processes = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what choosing items adaptively saves, and whether the intervals still hold."""
    prepare_jax(1)
    from bayesirt.studies import CAT_QUICK, CATDesign, cat_study

    study = partial(cat_study, CAT_QUICK if quick else CATDesign())
    _run(study, "banks", seed, out, processes, dask, quiet)


@studies.command()
def fpc(
    responses: Annotated[
        Path | None, typer.Option(help="Complete results file; by default a suite is simulated.")
    ] = None,
    groups: Annotated[
        Path | None, _file("CSV (item, benchmark): the benchmark of each item.")
    ] = None,
    families: Annotated[
        Path | None,
        _file("CSV (subject, family), to predict families left out of the calibration."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short chain with few steps: three minutes.")
    ] = False,
    out: Folder = Path("fpc"),
    seed: Seed = 0,
    processes: Processes = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See how well a growing suite predicts subjects from a few anchors (Habba et al., 2026)."""
    prepare_jax(1)
    from bayesirt.data.readers import read_responses
    from bayesirt.studies import FPC_QUICK, fpc_study
    from bayesirt.studies.labels import read_labels

    study = partial(
        fpc_study,
        FPC_QUICK if quick else None,
        responses=None if responses is None else read_responses(responses),
        groups=None if groups is None else read_labels(groups, "item", "benchmark"),
        families=None if families is None else read_labels(families, "subject", "family"),
    )
    _run(study, "chains", seed, out, processes, dask, quiet)


def _run(
    study: "Callable[..., Study]",
    title: str,
    seed: int,
    out: Path,
    processes: int,
    dask: str | None,
    quiet: bool,
) -> None:
    """Do a study with a progress bar, save what it brought, and tell what it says."""
    import jax

    from bayesirt.progress import progress_bar

    with progress_bar(title) as show:
        found = study(
            key=jax.random.key(seed),
            folder=out,
            n_processes=processes,
            scheduler=dask,
            progress=None if quiet else show,
        )
    found.save(out)
    if not quiet:
        typer.echo(found.to_text())
        typer.echo(f"Tables and figures: {out}")


def _size(text: str) -> tuple[int, int]:
    from bayesirt.errors import ResponseError

    numbers = text.split("x")
    if len(numbers) != 2 or not all(n.isdecimal() and int(n) >= 2 for n in numbers):
        raise ResponseError(f"a size is subjects x items, such as 20x15, got {text!r}")
    return int(numbers[0]), int(numbers[1])

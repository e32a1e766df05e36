"""The `study` commands."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesirt.cli_options import (
    Column,
    PriorKind,
    PriorsOption,
    Quiet,
    Seed,
    Slopes,
    SlopesOption,
    prepare_jax,
)

if TYPE_CHECKING:
    from bayesirt.studies import CalibrationStudy, CATStudy, CBMMStudy, LaRTStudy, SparseStudy

studies = typer.Typer(help="Study how far the answers can be trusted.", no_args_is_help=True)

Dask = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers do the work.")
]


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
    seed: Seed = 0,
    priors: PriorsOption = PriorKind.hierarchical,
    slopes: SlopesOption = Slopes.positive,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Replications side by side.")] = 1,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Simulate from the prior and see whether engines and their intervals are right."""
    sizes = [_size(text) for text in size or ("12x8", "20x15", "40x40")]
    prepare_jax(1)
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
            scheduler=dask,
            progress=None if quiet else show,
        )
    _finish(study, out, quiet)


@studies.command()
def sparse(
    quick: Annotated[
        bool, typer.Option("--quick", help="A coarser grid and fewer seeds: about a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder; one that holds a part of this study is gone on with.")
    ] = Path("sparse"),
    seed: Seed = 0,
    priors: PriorsOption = PriorKind.hierarchical,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Batches side by side.")] = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See when the simple average misleads, and whether the posterior warns (papers/002)."""
    prepare_jax(1)
    from dataclasses import replace

    import jax

    from bayesirt.models import Priors
    from bayesirt.progress import progress_bar
    from bayesirt.studies import QUICK, SparseDesign, sparse_study

    with progress_bar("suites") as show:
        study = sparse_study(
            replace(QUICK if quick else SparseDesign(), priors=Priors(priors.value)),
            key=jax.random.key(seed),
            folder=out,
            n_processes=processes,
            scheduler=dask,
            progress=None if quiet else show,
        )
    _finish(study, out, quiet)


@studies.command()
def cbmm(
    responses: Annotated[
        Path | None,
        typer.Option(
            help="Results file for stability, ranks and levels; without it one is simulated.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller suites and fewer of them: two minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder; one that holds a part of this study is gone on with.")
    ] = Path("cbmm"),
    seed: Seed = 0,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Suites side by side.")] = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what cBMM recovers, how steady it is, and which items may be dropped (papers/000)."""
    prepare_jax(1)
    import jax

    from bayesirt.progress import progress_bar
    from bayesirt.readers import read_responses
    from bayesirt.studies import CBMM_QUICK, CBMMDesign, cbmm_study

    given = None if responses is None else read_responses(responses)
    with progress_bar("suites") as show:
        study = cbmm_study(
            CBMM_QUICK if quick else CBMMDesign(),
            key=jax.random.key(seed),
            responses=given,
            folder=out,
            n_processes=processes,
            scheduler=dask,
            progress=None if quiet else show,
        )
    _finish(study, out, quiet)


@studies.command()
def lart(
    responses: Annotated[
        Path | None,
        typer.Option(
            help="Long results file with tokens or times; without it all is simulated.",
            show_default=False,
        ),
    ] = None,
    latency: Column = None,
    suffix: Annotated[
        list[str] | None,
        typer.Option(
            help="Ending of names that says only how a subject was asked, such as _one_shot; may "
            "be repeated. Subjects alike but for it are kept together."
        ),
    ] = None,
    criterion: Annotated[
        Path | None,
        typer.Option(
            help="CSV (subject, value) of ability measured from outside.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer replications: two to three minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder; one that holds a part of this study is gone on with.")
    ] = Path("lart"),
    seed: Seed = 0,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Suites side by side.")] = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what the length of answers adds to ability, simulated and on one's own (papers/001)."""
    prepare_jax(1)
    import jax

    from bayesirt.progress import progress_bar
    from bayesirt.readers import read_responses
    from bayesirt.studies import LART_QUICK, LaRTDesign, lart_study
    from bayesirt.studies.lart_criterion import read_criterion

    given = None if responses is None else read_responses(responses, latency=latency)
    with progress_bar("tasks") as show:
        study = lart_study(
            LART_QUICK if quick else LaRTDesign(),
            key=jax.random.key(seed),
            responses=given,
            suffixes=suffix or (),
            criterion=None if criterion is None else read_criterion(criterion),
            folder=out,
            n_processes=processes,
            scheduler=dask,
            progress=None if quiet else show,
        )
    _finish(study, out, quiet)


@studies.command()
def cat(
    quick: Annotated[
        bool, typer.Option("--quick", help="One small bank of each model: about a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder; one that holds a part of this study is gone on with.")
    ] = Path("cat"),
    seed: Seed = 0,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Banks side by side.")] = 2,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """See what choosing items adaptively saves, and whether the intervals still hold."""
    prepare_jax(1)
    import jax

    from bayesirt.progress import progress_bar
    from bayesirt.studies import CAT_QUICK, CATDesign, cat_study

    with progress_bar("banks") as show:
        study = cat_study(
            CAT_QUICK if quick else CATDesign(),
            key=jax.random.key(seed),
            folder=out,
            n_processes=processes,
            scheduler=dask,
            progress=None if quiet else show,
        )
    _finish(study, out, quiet)


def _finish(
    study: "CalibrationStudy | CATStudy | CBMMStudy | LaRTStudy | SparseStudy",
    out: Path,
    quiet: bool,
) -> None:
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

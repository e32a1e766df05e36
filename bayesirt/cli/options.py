"""Options that commands share, JAX settings, and JSON output."""

import inspect
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bayesirt.cli.standard_input import piped
from bayesirt.jax_settings import cache_folder, configure_jax, keep_compiled_code


def unset(*names: str, **told: Any) -> Any:
    """Return an option whose default is not shown: it has none, or its help states it."""
    return typer.Option(*names, show_default=False, **told)


def signed(
    run: Callable[..., None], command: Callable[..., Any], ordered: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Give a function the name and help of a command, and options in this order."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return run


class ItemsIn(StrEnum):
    """Whether the items of a wide table are its rows or its columns."""

    rows = "rows"
    columns = "columns"


class Duplicates(StrEnum):
    """How to treat repeated rows of a subject and item."""

    error = "error"
    trials = "trials"
    first = "first"
    last = "last"


class PriorKind(StrEnum):
    """Kinds of item priors."""

    hierarchical = "hierarchical"
    fixed = "fixed"


class PointChoice(StrEnum):
    """Point estimators that the sampler may start from."""

    auto = "auto"
    cbmm = "cbmm"
    joint_map = "joint_map"
    spectral = "spectral"
    em = "em"
    saem = "saem"


class Repeats(StrEnum):
    """Whether a subject's runs of a question are dependent."""

    auto = "auto"
    dependent = "dependent"
    independent = "independent"


class ScoreKind(StrEnum):
    """Kinds of scores."""

    binary = "binary"
    graded = "graded"
    continuous = "continuous"
    unbounded = "unbounded"


class EngineChoice(StrEnum):
    """Posterior engines."""

    auto = "auto"
    nuts = "nuts"
    blocked = "blocked"
    laplace = "laplace"


class Structure(StrEnum):
    """How abilities relate to each other."""

    auto = "auto"
    correlated = "correlated"
    general = "general"
    independent = "independent"


class ProfileEngine(StrEnum):
    """Posterior engines of the Q-matrix model."""

    auto = "auto"
    blocked = "blocked"
    nuts = "nuts"


class NextBy(StrEnum):
    """Criteria for the next item."""

    information = "information"
    variance = "variance"


class Slopes(StrEnum):
    """Constraints on discriminations."""

    positive = "positive"
    free = "free"
    rasch = "rasch"


class Model(StrEnum):
    """Statistical models of the responses."""

    auto = "auto"
    two_pl = "2pl"
    three_pl = "3pl"
    repeats = "repeats"
    graded = "graded"
    continuous = "continuous"
    normal = "normal"
    lart = "lart"
    mirt = "mirt"


Results = Annotated[
    Path | None,
    typer.Argument(
        help="Results: CSV, TSV, JSON, JSON Lines, Excel or Parquet, long or wide, optionally .gz; "
        "a folder of Parquet files; a harness log; a folder of logs; or - for standard input.",
        callback=piped,
    ),
]
Example = Annotated[bool, typer.Option("--example", help="Use the embedded example.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Out = Annotated[Path, typer.Option(help="Output folder.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run in the output folder.")
]
Update = Annotated[
    bool,
    typer.Option(
        "--update",
        help="Continue from the run in the output folder, if there is one: list what is new, start "
        "from its draws, and replace it.",
    ),
]
PerComponent = Annotated[
    bool, typer.Option("--per-component", help="Rank unconnected groups separately.")
]
ByOption = Annotated[
    str | None,
    unset(help="Also rank by topic: a column of the items, or a file with item and topic."),
]
FormulaOption = Annotated[
    str,
    unset(
        help='Formulas for difficulty and ability: "difficulty ~ log(minutes) + (1|judge); '
        'ability ~ (1|llm)".'
    ),
]
GroupOption = Annotated[
    str,
    unset(help="Column that groups questions with dependent answers, such as those on one text."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**32 - 1, help="Random seed; the same seed gives the same result."),
]
Chains = Annotated[int, typer.Option(min=2, max=64, help="Number of Markov chains.")]
Warmup = Annotated[int, typer.Option(min=10, help="Warm-up draws per chain.")]
RankWarmup = Annotated[
    int | None, unset(min=10, help="Warm-up draws per chain: 250, or 1000 with --engine nuts.")
]
Draws = Annotated[int, typer.Option(min=10, help="Draws per chain to keep.")]
Anchors = Annotated[
    list[str],
    unset(
        "--anchor",
        help="Fix a subject's value on your own scale: NAME=130. A second anchor sets the unit.",
    ),
]
PopulationOption = Annotated[
    bool, typer.Option("--population", help="Add the expected score over questions like these.")
]
FitCheckOption = Annotated[
    bool,
    typer.Option(
        "--check-fit/--no-check-fit",
        help="Check whether one ability explains the results; compare with Rasch and with two "
        "abilities.",
    ),
]
TargetAccept = Annotated[
    float,
    typer.Option(
        min=0.5, max=0.999, help="Target acceptance rate of NUTS; higher means smaller steps."
    ),
]
Budget = Annotated[
    float, typer.Option(min=0, help="Extra seconds for chains that have not converged.")
]
PriorsOption = Annotated[
    PriorKind, typer.Option(help="Item priors: hierarchical (learned centre and spread) or fixed.")
]
SlopesOption = Annotated[
    Slopes, typer.Option(help="Discriminations: positive, free (any sign) or rasch (all 1).")
]
SlopesIfAny = Annotated[
    Slopes | None,
    typer.Option(
        help="Discriminations: positive, free (any sign) or rasch (all 1). Default: positive, or "
        "rasch if those do not converge."
    ),
]
EngineOption = Annotated[
    EngineChoice,
    typer.Option(help="nuts and blocked are exact, laplace is approximate, auto chooses by size."),
]
PointOption = Annotated[
    PointChoice,
    typer.Option(
        help="Point estimator to start from; auto: em, but cbmm for the 2pl with many items."
    ),
]
NewAnswers = Annotated[
    Path | None,
    typer.Argument(help="Answers of one or more new subjects; omit if there are none yet."),
]
OneSubject = Annotated[str | None, unset(help="Use only this subject's answers.")]
NumberOfItems = Annotated[int, typer.Option("-n", min=1, help="Number of items to suggest.")]
NextByOption = Annotated[
    NextBy,
    typer.Option(help="For a run: highest expected information, or lowest expected variance."),
]
StopWidth = Annotated[
    float | None,
    unset(
        help="Stop when the 90% interval of the ability (for a bank: of the suite score) is "
        "narrower than this, such as 0.05."
    ),
]
ModelOption = Annotated[
    Model,
    typer.Option(
        help="2pl: right and wrong answers; 3pl: also guessing; repeats: dependent runs of a "
        "question; graded: grades; continuous: scores from 0 to 1; normal: unbounded scores; "
        "lart: answers and their lengths; mirt: several abilities without a Q-matrix; auto: by "
        "the kind of answers."
    ),
]
AbilitiesOption = Annotated[
    str | None,
    unset(
        "--abilities",
        metavar="K",
        help="With mirt: number of abilities; auto chooses it on held-out answers. Models are then "
        "ranked by their expected score.",
    ),
]
RepeatsOption = Annotated[
    Repeats,
    typer.Option(
        help="For questions run several times: whether a subject's runs are dependent (model "
        "repeats, with pass@k and pass^k) or independent (2pl); auto decides from the data."
    ),
]
Guessing = Annotated[
    float | None,
    unset(
        help="With 3pl: probability of guessing right, such as 0.25; by default learned for each "
        "item."
    ),
]
WrongLengthsOption = Annotated[
    bool,
    typer.Option(
        "--wrong-lengths", help="With lart: model the lengths of wrong answers separately."
    ),
]
QMatrixFile = Annotated[
    Path,
    unset(
        "--q-matrix",
        help="Which abilities each item needs: a 0/1 table of items x abilities, a list, or JSON.",
    ),
]
StructureOption = Annotated[
    Structure,
    typer.Option(
        help="How abilities relate: correlated, through one general ability, or independent; auto "
        "chooses by their number."
    ),
]
ProfileEngineOption = Annotated[
    ProfileEngine, typer.Option(help="blocked and nuts are exact; auto is blocked.")
]
CheckpointFolder = Annotated[
    Path | None, unset(help="Folder for unfinished chains; the same command resumes from there.")
]


def print_json(value: Any, **how: Any) -> None:
    """Print an object as JSON."""
    typer.echo(json.dumps(value, indent=2, **how))


def prepare_jax() -> None:
    """Configure JAX without importing it, as many commands never use it.

    Sets 64-bit floats, and caches of programs and of all compiled code.
    """
    import os

    configure_jax({"jax_enable_x64": True})
    if folder := cache_folder():
        os.environ.setdefault("BAYESIRT_PROGRAMS", str(folder / "programs"))
        keep_compiled_code(least_seconds=0)

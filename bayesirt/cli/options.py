"""What the commands may be told, and what each prepares before it computes."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


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
    joint_map = "joint_map"
    spectral = "spectral"
    em = "em"
    saem = "saem"


class Model(StrEnum):
    """What is assumed of the responses."""

    two_pl = "2pl"
    three_pl = "3pl"
    lart = "lart"


class Engine(StrEnum):
    """Posterior engines."""

    auto = "auto"
    nuts = "nuts"
    blocked = "blocked"
    laplace = "laplace"


class Structure(StrEnum):
    """How abilities go together."""

    auto = "auto"
    correlated = "correlated"
    general = "general"
    independent = "independent"


class ProfileEngine(StrEnum):
    """Posterior engines of the Q-matrix model."""

    auto = "auto"
    blocked = "blocked"
    nuts = "nuts"
    laplace = "laplace"


class NextBy(StrEnum):
    """What the next item is chosen by."""

    information = "information"
    variance = "variance"


class Slopes(StrEnum):
    """What discriminations may be."""

    positive = "positive"
    free = "free"
    rasch = "rasch"


Results = Annotated[
    Path | None,
    typer.Argument(
        help="CSV, TSV, JSON Lines or Parquet, long or wide, maybe .gz; or a harness's log, or a "
        "folder of logs."
    ),
]
Example = Annotated[bool, typer.Option("--example", help="Use the embedded example.")]
Column = Annotated[str | None, typer.Option(help="Column of a long file.", show_default=False)]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Column of a long file that several subjects share, such as the LLM that they are "
        "runs of; or a file with the columns subject and cluster.",
        show_default=False,
    ),
]
CostOption = Annotated[
    str | None,
    typer.Option(
        help="Column of a long file with what an answer cost; or a file with the columns subject "
        "and cost.",
        show_default=False,
    ),
]
Orientation = Annotated[
    ItemsIn | None, typer.Option(help="Orientation of a wide file.", show_default=False)
]
Repeated = Annotated[Duplicates, typer.Option(help="What rows with the same subject and item are.")]
Threshold = Annotated[
    float | None, typer.Option(help="Scores from here on count as right.", show_default=False)
]
Metric = Annotated[
    list[str],
    typer.Option(
        help="What scores a log: metric, scorer or statistic; NAME, or BENCHMARK=NAME. May be "
        "repeated.",
        show_default=False,
    ),
]
Filter = Annotated[
    list[str],
    typer.Option(
        help="Filter of lm-eval's logs: NAME, or BENCHMARK=NAME. May be repeated.",
        show_default=False,
    ),
]
SkipDamaged = Annotated[
    bool, typer.Option("--skip-damaged", help="Leave out logs that cannot be read, and say so.")
]
READING: dict[str, tuple[Any, Any]] = {
    "subject": (Column, None),
    "item": (Column, None),
    "score": (Column, None),
    "trials": (Column, None),
    "latency": (Column, None),
    "items_in": (Orientation, None),
    "cluster": (ClusterOption, None),
    "cost": (CostOption, None),
    "duplicates": (Repeated, Duplicates.error),
    "threshold": (Threshold, None),
    "metric": (Metric, []),
    "filter": (Filter, []),
    "skip_damaged": (SkipDamaged, False),
}
"""Every option that says how results are to be read, with its default."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Out = Annotated[Path, typer.Option(help="Folder for the run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in that folder.")]
Update = Annotated[
    bool,
    typer.Option(
        "--update",
        help="Go on from the run in that folder if it holds one: say what is new, start from its "
        "draws, replace it.",
    ),
]
PerComponent = Annotated[
    bool, typer.Option("--per-component", help="Rank unconnected groups each by itself.")
]
Seed = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="The same seed gives the same answer.")
]
Chains = Annotated[int, typer.Option(min=2, max=64, help="Markov chains.")]
Warmup = Annotated[int, typer.Option(min=10, help="Draws of a chain to warm up.")]
RankWarmup = Annotated[
    int | None,
    typer.Option(
        min=10,
        help="Draws of a chain to warm up: 1000, or 250 for a run that is updated.",
        show_default=False,
    ),
]
Draws = Annotated[int, typer.Option(min=10, help="Draws of a chain to keep.")]
Anchors = Annotated[
    list[str],
    typer.Option(
        "--anchor",
        help="NAME=130: that subject's value on a scale of your own; a second one gives the unit.",
        show_default=False,
    ),
]
PopulationOption = Annotated[
    bool,
    typer.Option("--population", help="Add the expected score over questions like these."),
]
FitCheckOption = Annotated[
    bool,
    typer.Option(
        "--check-fit/--no-check-fit",
        help="Check whether one ability explains the results, against Rasch and two abilities.",
    ),
]
TargetAccept = Annotated[
    float, typer.Option(min=0.5, max=0.999, help="Higher means smaller steps.")
]
Budget = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds in which chains may go on after these draws, until they converge."
    ),
]
PriorsOption = Annotated[
    PriorKind, typer.Option(help="Items learn their spread, or have a fixed one.")
]
SlopesOption = Annotated[
    Slopes, typer.Option(help="Discriminations: positive, of any sign, or all 1.")
]
SlopesIfAny = Annotated[
    Slopes | None,
    typer.Option(
        help="Discriminations: positive, of any sign, or all 1. By default positive; of any sign "
        "where positive ones do not converge."
    ),
]
EngineOption = Annotated[
    Engine, typer.Option(help="nuts, blocked: exact; laplace: approximate; auto: by size.")
]
PointOption = Annotated[
    Point,
    typer.Option(
        help="Point estimator to start from; auto: mml for few items, else cbmm, and em for lart."
    ),
]
NewAnswers = Annotated[
    Path | None,
    typer.Argument(help="Results of one new subject or several; left out, there are none yet."),
]
OneSubject = Annotated[
    str | None, typer.Option(help="Only this subject of the answers.", show_default=False)
]
NumberOfItems = Annotated[int, typer.Option("-n", min=1, help="Items to suggest.")]
NextByOption = Annotated[
    NextBy, typer.Option(help="Of a run: most expected information, or least expected variance.")
]
StopWidth = Annotated[
    float | None,
    typer.Option(
        help="Stop when the 90% interval is shorter: of ability, or for a bank of the suite score, "
        "such as 0.05.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    Model,
    typer.Option(help="2pl: answers alone; 3pl: with guessing; lart: answers and their lengths."),
]
Guessing = Annotated[
    float | None,
    typer.Option(
        help="With 3pl: share right by guessing, such as 0.25; left out, each item learns its own.",
        show_default=False,
    ),
]
WrongLengthsOption = Annotated[
    bool,
    typer.Option("--wrong-lengths", help="With lart: wrong answers have lengths of their own."),
]
QMatrixFile = Annotated[
    Path,
    typer.Option(
        "--q-matrix",
        help="Which abilities each item needs: item x ability of 0 and 1, or a list, or JSON.",
        show_default=False,
    ),
]
StructureOption = Annotated[
    Structure,
    typer.Option(
        help="Abilities: each pair correlated, one general ability behind all, or independent; "
        "auto: by their number."
    ),
]
ProfileEngineOption = Annotated[
    ProfileEngine, typer.Option(help="blocked, nuts: exact; laplace: approximate; auto: by size.")
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder to save unfinished chains in; the same command goes on from there.",
        show_default=False,
    ),
]


def prepare_jax(chains: int) -> None:
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
            "jax_persistent_cache_min_compile_time_secs": 0,
        }
        for name, value in settings.items():
            jax.config.update(name, value)

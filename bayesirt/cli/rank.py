"""The `rank` command."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from bayesirt.cli.options import (
    AbilitiesOption,
    Anchors,
    AsJson,
    Budget,
    ByOption,
    Chains,
    CheckpointFolder,
    Draws,
    EngineChoice,
    EngineOption,
    Example,
    FitCheckOption,
    FormulaOption,
    GroupOption,
    Guessing,
    Model,
    ModelOption,
    Out,
    Overwrite,
    PerComponent,
    PointChoice,
    PointOption,
    PopulationOption,
    PriorKind,
    PriorsOption,
    Quiet,
    RankWarmup,
    Repeats,
    RepeatsOption,
    Results,
    Seed,
    Slopes,
    SlopesIfAny,
    TargetAccept,
    Update,
    WrongLengthsOption,
    prepare_jax,
    print_json,
)
from bayesirt.cli.reading_input import (
    announce,
    input_path,
    read_and_tell,
    say,
    with_reading_options,
)
from bayesirt.cli.several_abilities import rank_by_several
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading
    from bayesirt.data.responses import Responses
    from bayesirt.ranking.finished_run import Run
    from bayesirt.ranking.settings import Settings


@with_reading_options
def rank(
    results: Results = None,
    example: Example = False,
    out: Out = Path("run"),
    overwrite: Overwrite = False,
    update: Update = False,
    per_component: PerComponent = False,
    by: ByOption = None,
    formula: FormulaOption = "",
    group: GroupOption = "",
    *,
    reading: "Reading",
    seed: Seed = 0,
    chains: Chains = 4,
    warmup: RankWarmup = None,
    draws: Draws = 1000,
    target_accept: TargetAccept = 0.95,
    budget: Budget = 120,
    model: ModelOption = Model.auto,
    abilities: AbilitiesOption = None,
    wrong_lengths: WrongLengthsOption = False,
    anchor: Anchors = [],  # noqa: B006
    priors: PriorsOption = PriorKind.hierarchical,
    slopes: SlopesIfAny = None,
    guessing: Guessing = None,
    repeats: RepeatsOption = Repeats.auto,
    engine: EngineOption = EngineChoice.auto,
    point: PointOption = PointChoice.auto,
    checkpoint: CheckpointFolder = None,
    check_fit: FitCheckOption = True,
    population: PopulationOption = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank subjects by ability, and write tables, draws and a report."""
    typed = SimpleNamespace(**locals())
    prepare_jax()
    path, talk = input_path(results, example), not (quiet or as_json)
    if model is Model.mirt or abilities is not None:
        return rank_by_several(typed, path, talk=talk)
    settings = _settings(typed)
    earlier = _earlier_run(out, settings, overwrite, update, per_component)
    reading = _reading(typed, settings)
    responses = _read(path, reading, talk)
    if not per_component:
        settings = _explained(settings, responses, reading, earlier)
    arguments = _arguments(typed, path, responses, reading, talk)
    _import_meanwhile()
    runs = _runs(earlier, responses, settings, arguments, per_component, reading.topic_column)
    runs = _finished(runs, earlier, out, overwrite or update, check_fit, talk)
    return _print(runs, out, as_json, quiet)


def _settings(typed: SimpleNamespace) -> "Settings":
    """Return the settings that the typed options ask for."""
    from bayesirt.data.difficulty import parts_of
    from bayesirt.models import Priors
    from bayesirt.ranking.settings import Settings

    slopes: Slopes = typed.slopes or Slopes.positive
    return Settings(
        typed.seed, typed.chains, typed.warmup or 0, typed.draws, typed.target_accept, typed.budget,
        Priors(
            typed.priors.value, slopes.value, typed.guessing, groups=typed.group,
            **parts_of(typed.formula),
        ),
        typed.point.value, typed.engine.value, _model(typed.model, typed.repeats),
        typed.wrong_lengths, _scale(typed.anchor),
        population=typed.population, other_slopes=typed.slopes is None,
    )  # fmt: skip


def _reading(typed: SimpleNamespace, settings: "Settings") -> "Reading":
    """Return how to read results, with the columns of topics and of explanatory variables."""
    reading: Reading = typed.reading.with_columns(*settings.described)
    if typed.by and typed.per_component:
        raise ResponseError("--by needs one ranking of all subjects; leave out --per-component")
    return replace(reading, by=typed.by) if typed.by else reading


def _explained(
    settings: "Settings", responses: "Responses", reading: "Reading", earlier: "Run | None"
) -> "Settings":
    """Add the effects of facets and factors; an earlier run must have the same ones."""
    from bayesirt.ranking.run_update import refuse_other_model

    settings = settings.explained(responses, reading.facet, reading.factors)
    if earlier is not None:
        refuse_other_model(earlier, settings)
    return settings


def _model(model: Model, repeats: Repeats) -> str:
    """Return the name of the model, which --repeats may determine."""
    choice = {
        Repeats.dependent: Model.repeats,
        Repeats.independent: Model.two_pl,
    }.get(repeats, model)
    if model not in (Model.auto, choice):
        raise ResponseError(
            f"--repeats {repeats} means --model {choice}; leave out either it or --model {model}"
        )
    return choice.value


def _read(path: Path, reading: "Reading", talk: bool) -> "Responses":
    """Read results, and refuse unusable topics before any work is done."""
    from bayesirt.data.topics import items_by_topic

    responses = read_and_tell(path, reading, talk=talk)
    if reading.topic_column:
        items_by_topic(responses, reading.topic_column)
    return responses


def _arguments(
    typed: SimpleNamespace, path: Path, responses: "Responses", reading: "Reading", talk: bool
) -> dict[str, Any]:
    """Return the arguments of `rank_responses` besides responses and settings."""
    from bayesirt.ranking.record import facts_of

    if talk:
        say("computing a point estimate")
    return {
        "data": facts_of(responses, path, reading.given),
        "check_fit": typed.check_fit,
        "progress": talk,
        "announce": announce if talk else None,
        "checkpoint": typed.checkpoint,
    }


def _import_meanwhile() -> None:
    """Import what writes the report while code is compiled."""
    from bayesirt.threads import in_background

    in_background(lambda: import_module("bayesirt.report.run_files"))


def _scale(anchors: list[str]) -> tuple[tuple[str, float], ...]:
    """Parse anchors of the form NAME=130; a name may contain an equals sign."""
    scale: dict[str, float] = {}
    for anchor in anchors:
        name, _, value = anchor.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not name or number != number or name in scale:
            raise ResponseError(
                f"--anchor {one_line(anchor)!r} must name a subject once, with its value: NAME=130"
            )
        scale[name] = number
    return tuple(scale.items())


def _earlier_run(
    out: Path, settings: "Settings", overwrite: bool, update: bool, per_component: bool
) -> "Run | None":
    """Check that a run can be written, and return the run that it continues, if any."""
    from bayesirt.ranking.run_folder import check_output, holds_run, load_run

    if update and per_component:
        raise ResponseError("--update continues a single ranking; leave out --per-component")
    if settings.scale and per_component:
        raise ResponseError("--anchor needs one ranking of all subjects; leave out --per-component")
    check_output(out, overwrite=overwrite or update)
    if not (update and holds_run(out)):
        return None
    return load_run(out)


def _updated(
    earlier: "Run", responses: "Responses", settings: "Settings", arguments: dict[str, Any]
) -> "Run":
    """Print what has changed, and continue from the earlier run if anything has."""
    from bayesirt.ranking.new_responses import changes_since
    from bayesirt.ranking.run_update import samples_anew, update_run, with_other_changes

    was = earlier.record.settings
    settings = replace(settings, priors=was.priors, model=was.model)
    changes = changes_since(earlier.posterior, responses)
    changes = with_other_changes(changes, earlier, responses, settings, arguments["data"].sha256)
    if arguments["progress"]:
        typer.echo(changes.to_text(), err=True)
        if not changes and samples_anew(was, settings):
            note = "Its draws are sound, so they stay; pass --overwrite for new ones."
            typer.echo(note, err=True)
    if not changes:
        return earlier
    return update_run(earlier, responses, settings, changes, **arguments)


def _runs(
    earlier: "Run | None",
    responses: "Responses",
    settings: "Settings",
    arguments: dict[str, Any],
    per_component: bool,
    topics: str | None,
) -> dict[str, "Run"]:
    """Rank all subjects, continuing an earlier run if there is one, or rank each group."""
    from bayesirt.ranking.by_topic import with_topics
    from bayesirt.ranking.run import rank_responses

    if per_component:
        return _rank_groups(responses, settings, arguments)
    if earlier is not None:
        run = _updated(earlier, responses, settings, arguments)
    else:
        run = rank_responses(responses, settings, **arguments)
    if topics:
        run = with_topics(run, responses, topics, announce=arguments["announce"])
    return {"": run}


def _rank_groups(
    responses: "Responses", settings: "Settings", arguments: dict[str, Any]
) -> dict[str, "Run"]:
    """Rank each connected group of subjects and items separately."""
    from bayesirt.ranking.run import rank_responses

    components = responses.components()
    groups = {
        f"group_{k}": _without_useless_clusters(responses.select(*members))
        for k, members in enumerate(components, 1)
        if min(map(len, members)) >= 2
    }
    left_out = len(components) - len(groups)
    if not groups:
        raise ResponseError("no group has two subjects and two items; nothing can be ranked")
    if left_out and arguments["progress"]:
        typer.echo(f"{left_out} groups are too small to rank and are left out", err=True)
    checkpoint, data = arguments["checkpoint"], arguments["data"]
    runs = {
        name: rank_responses(
            group,
            _explained_within(group, settings, data.reading),
            **arguments
            | {"checkpoint": checkpoint and checkpoint / name, "data": data.of_part(group)},
        )
        for name, group in groups.items()
    }
    if checkpoint and checkpoint.is_dir() and not any(checkpoint.iterdir()):
        checkpoint.rmdir()  # Each group has already removed its own folder.
    return runs


def _explained_within(
    group: "Responses", settings: "Settings", reading: Mapping[str, Any]
) -> "Settings":
    """Add the effects of those facets and factors that vary within the group."""
    items, subjects = group.item_metadata, group.subject_metadata
    facets = [x for x in reading.get("facet", ()) if items[x].nunique() > 1]
    factors = [x for x in reading.get("factors", ()) if subjects[x].nunique() > 1]
    return settings.explained(group, facets, factors)


def _without_useless_clusters(group: "Responses") -> "Responses":
    """Drop clusters that carry no information within this group."""
    useful = group.clusters is not None and group.clusters.tell_apart
    return group if useful else replace(group, clusters=None)


def _finished(
    runs: dict[str, "Run"],
    earlier: "Run | None",
    out: Path,
    overwrite: bool,
    check_fit: bool,
    talk: bool,
) -> dict[str, "Run"]:
    """Check the fit of the runs if asked to, and write them; an earlier one that stands, stays."""
    from bayesirt.report.run_files import save_runs

    if earlier is not None and runs[""] is earlier:
        return {"": earlier.without_changes()}
    if check_fit and all(run.posterior.complete for run in runs.values()):
        if talk:
            say("checking the fit")
        runs = {name: run.with_fit(progress=talk) for name, run in runs.items()}
    if talk:
        say("writing the report")
    save_runs(runs, out, overwrite=overwrite)
    return runs


def _print(runs: dict[str, "Run"], out: Path, as_json: bool, quiet: bool) -> None:
    """Print the ranking of each run; print nothing if quiet."""
    from bayesirt.report.export import ranking_as_json
    from bayesirt.report.terminal import print_run

    if as_json:
        objects = {name: ranking_as_json(run) for name, run in runs.items()}
        print_json(objects.get("", objects))
        return
    if not quiet:
        for name, run in runs.items():
            print_run(run, out / name)

"""The command `rank --model mirt`: a ranking by several abilities."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

from bayesirt.cli.options import Model, PointChoice, PriorKind, Repeats, print_json
from bayesirt.cli.reading_input import announce, read_and_tell, say
from bayesirt.errors import ResponseError
from bayesirt.names import one_line

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading
    from bayesirt.profiles.exploration import Exploration, ExplorationSettings


def rank_by_several(typed: SimpleNamespace, path: Path, *, talk: bool) -> None:
    """Rank by several abilities, after refusing options that need a single one."""
    from bayesirt.profiles.exploration import ExplorationSettings

    _refuse_options_of_one_ability(typed.model, {
        "--by": typed.by, "--per-component": typed.per_component, "--update": typed.update,
        "--anchor": typed.anchor, "--population": typed.population,
        "--wrong-lengths": typed.wrong_lengths, "--slopes": typed.slopes,
        "--guessing": typed.guessing is not None,
        "--priors": typed.priors is not PriorKind.hierarchical,
        "--formula": typed.formula, "--group": typed.group, "--facet": typed.reading.facet,
        "--subject-factors": typed.reading.factors,
        "--point": typed.point is not PointChoice.auto,
        "--repeats": typed.repeats is not Repeats.auto,
    })  # fmt: skip
    settings = ExplorationSettings(
        typed.seed, typed.chains, typed.warmup or 500, typed.draws, typed.target_accept,
        typed.budget, _number_of_abilities(typed.abilities), typed.engine.value,
    )  # fmt: skip
    run = _explore(
        path, typed.reading, settings, typed.out,
        talk=talk, checkpoint=typed.checkpoint, overwrite=typed.overwrite,
    )  # fmt: skip
    _print_explored(run, typed.out, as_json=typed.as_json, quiet=typed.quiet)


def _refuse_options_of_one_ability(model: Model, given: Mapping[str, object]) -> None:
    """Refuse --abilities with other models, and options that need a single ability."""
    if model not in (Model.mirt, Model.auto):
        raise ResponseError(
            f"--abilities belongs to --model mirt, and {model} has one ability; leave out either "
            f"--abilities or --model {model}"
        )
    if refused := [name for name, value in given.items() if value]:
        raise ResponseError(
            f"{refused[0]} belongs to rankings by one ability; leave it out, or leave out "
            f"--model mirt and --abilities"
        )


def _explore(
    path: Path,
    reading: "Reading",
    settings: "ExplorationSettings",
    out: Path,
    *,
    talk: bool,
    checkpoint: Path | None,
    overwrite: bool,
) -> "Exploration":
    """Rank subjects by several abilities, and write the run."""
    from bayesirt.profiles.exploration import explore_responses, save_exploration
    from bayesirt.ranking.run_folder import check_output, write_folder
    from bayesirt.report.exploration_html import render_exploration

    check_output(out, overwrite=overwrite)
    responses = read_and_tell(path, reading, talk=talk)
    run = explore_responses(
        responses, settings, source=path, reading=reading.given, progress=talk,
        announce=announce if talk else None, checkpoint=checkpoint,
    )  # fmt: skip
    if talk:
        say("writing the report")
    report = render_exploration(run)
    write_folder(out, lambda folder: save_exploration(run, folder, report), overwrite=overwrite)
    return run


def _number_of_abilities(abilities: str | None) -> int | Literal["auto"]:
    """Return the number of abilities that was typed, or "auto"."""
    if abilities in (None, "auto"):
        return "auto"
    if not (abilities.isascii() and abilities.isdigit() and int(abilities) >= 1):
        raise ResponseError(
            f"--abilities must be 1 or more, or auto, got {one_line(abilities)!r}; pass a number "
            f"such as 2"
        )
    return int(abilities)


def _print_explored(run: "Exploration", out: Path, *, as_json: bool, quiet: bool) -> None:
    """Print the ranking, or nothing if quiet."""
    from bayesirt.report.terminal_profiles import exploration_as_json, print_exploration

    if as_json:
        print_json(exploration_as_json(run))
    elif not quiet:
        print_exploration(run, out)

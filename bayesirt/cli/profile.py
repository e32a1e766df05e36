"""The `profile` command."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bayesirt.cli.options import (
    AsJson,
    Budget,
    Chains,
    CheckpointFolder,
    Draws,
    Out,
    Overwrite,
    ProfileEngine,
    ProfileEngineOption,
    QMatrixFile,
    Quiet,
    Results,
    Seed,
    Structure,
    StructureOption,
    Warmup,
    prepare_jax,
    print_json,
)
from bayesirt.cli.reading_input import announce, read_and_tell, say, with_reading_options
from bayesirt.cli.reading_options import READING
from bayesirt.errors import ResponseError

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading


@partial(with_reading_options, options=[name for name in READING if name != "cost"])
def profile(
    q_matrix: QMatrixFile,
    results: Results = None,
    out: Out = Path("profiles"),
    overwrite: Overwrite = False,
    *,
    reading: "Reading",
    seed: Seed = 0,
    chains: Chains = 4,
    warmup: Warmup = 500,
    draws: Draws = 1000,
    budget: Budget = 120,
    structure: StructureOption = Structure.auto,
    engine: ProfileEngineOption = ProfileEngine.auto,
    checkpoint: CheckpointFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show each subject's profile of abilities, and predict unanswered items."""
    prepare_jax()
    from bayesirt.data.readers import read_q_matrix
    from bayesirt.profiles.profile_folder import save_profiles
    from bayesirt.profiles.profile_run import ProfileSettings, profile_responses
    from bayesirt.ranking.run_folder import check_output, write_folder
    from bayesirt.report.profile_html import render_profile_report
    from bayesirt.report.terminal_profiles import print_profiles, profiles_as_json

    check_output(out, overwrite=overwrite)
    if results is None:
        raise ResponseError("name one results file as well as the Q-matrix")
    q = read_q_matrix(q_matrix)
    talk = not (quiet or as_json)
    responses = read_and_tell(results, reading, talk=talk)
    settings = ProfileSettings(
        seed, chains, warmup, draws,
        budget=budget, structure=structure.value, engine=engine.value,
    )  # fmt: skip
    run = profile_responses(
        responses, q, settings, source=results, reading=reading.given, progress=talk,
        announce=announce if talk else None, checkpoint=checkpoint,
    )  # fmt: skip
    if talk:
        say("writing the report")
    report = render_profile_report(run)
    write_folder(out, lambda folder: save_profiles(run, folder, report), overwrite=overwrite)
    if as_json:
        print_json(profiles_as_json(run))
    elif not quiet:
        print_profiles(run, out)

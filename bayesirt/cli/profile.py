"""The `profile` command."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bayesirt.cli import options
from bayesirt.cli.reading_input import announce, read_and_tell, say, with_reading_options
from bayesirt.cli.reading_options import READING
from bayesirt.errors import ResponseError

if TYPE_CHECKING:
    from bayesirt.data.readers.reading import Reading


@partial(with_reading_options, options=[name for name in READING if name != "cost"])
def profile(
    q_matrix: options.QMatrixFile,
    results: options.Results = None,
    out: options.Out = Path("profiles"),
    overwrite: options.Overwrite = False,
    *,
    reading: "Reading",
    seed: options.Seed = 0,
    chains: options.Chains = 4,
    warmup: options.Warmup = 500,
    draws: options.Draws = 1000,
    budget: options.Budget = 120,
    structure: options.StructureOption = options.Structure.auto,
    engine: options.ProfileEngineOption = options.ProfileEngine.auto,
    checkpoint: options.CheckpointFolder = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Show each subject's profile of abilities, and predict unanswered items."""
    options.prepare_jax(chains)
    from bayesirt.data.readers import read_q_matrix
    from bayesirt.profiles.profile_folder import save_profiles
    from bayesirt.profiles.profile_run import ProfileSettings, profile_responses
    from bayesirt.ranking.run_folder import check_output, write_folder
    from bayesirt.report.profile_html import render_profile_report
    from bayesirt.report.terminal_profiles import print_profiles, profiles_as_json

    check_output(out, overwrite=overwrite)
    if results is None:
        raise ResponseError("name one results file beside the Q-matrix")
    q = read_q_matrix(q_matrix)
    talk = not (quiet or as_json)
    responses = read_and_tell(results, reading, talk=talk)
    settings = ProfileSettings(seed, chains, warmup, draws, budget, structure.value, engine.value)
    run = profile_responses(
        responses, q, settings, source=results, reading=reading.given, progress=talk,
        announce=announce if talk else None, checkpoint=checkpoint,
    )  # fmt: skip
    if talk:
        say("writing the report")
    report = render_profile_report(run)
    write_folder(out, lambda folder: save_profiles(run, folder, report), overwrite=overwrite)
    if as_json:
        options.print_json(profiles_as_json(run))
    elif not quiet:
        print_profiles(run, out)

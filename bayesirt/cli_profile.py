"""The `profile` command."""

import json
from pathlib import Path

import typer

from bayesirt.cli_input import announce, read_input
from bayesirt.cli_options import (
    AsJson,
    Chains,
    CheckpointFolder,
    Column,
    Draws,
    Duplicates,
    Orientation,
    Out,
    Overwrite,
    ProfileEngine,
    ProfileEngineOption,
    QMatrixFile,
    Quiet,
    Repeated,
    Results,
    Seed,
    Structure,
    StructureOption,
    Threshold,
    Warmup,
    prepare_jax,
)


def profile(
    q_matrix: QMatrixFile,
    results: Results = None,
    out: Out = Path("profiles"),
    overwrite: Overwrite = False,
    subject: Column = None,
    item: Column = None,
    score: Column = None,
    trials: Column = None,
    items_in: Orientation = None,
    duplicates: Repeated = Duplicates.error,
    threshold: Threshold = None,
    seed: Seed = 0,
    chains: Chains = 4,
    warmup: Warmup = 500,
    draws: Draws = 1000,
    structure: StructureOption = Structure.auto,
    engine: ProfileEngineOption = ProfileEngine.auto,
    checkpoint: CheckpointFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say what each subject has of each ability, and predict items that nobody has answered."""
    prepare_jax(chains)
    from bayesirt import terminal
    from bayesirt.errors import ResponseError
    from bayesirt.profile_folder import save_profiles
    from bayesirt.profile_run import ProfileSettings, profile_responses
    from bayesirt.readers import read_q_matrix
    from bayesirt.report import render_profile_report
    from bayesirt.run_folder import check_output, write_folder

    check_output(out, overwrite=overwrite)
    if results is None:
        raise ResponseError("name one results file beside the Q-matrix")
    q = read_q_matrix(q_matrix)
    responses = read_input(
        results, subject, item, score, trials, None, items_in, duplicates, threshold
    )
    settings = ProfileSettings(seed, chains, warmup, draws, structure.value, engine.value)
    talk = not (quiet or as_json)
    run = profile_responses(
        responses, q, settings, source=results, progress=talk,
        announce=announce if talk else None, checkpoint=checkpoint,
    )  # fmt: skip
    report = render_profile_report(run)
    write_folder(out, lambda folder: save_profiles(run, folder, report), overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(terminal.profiles_as_json(run), indent=2))
    elif not quiet:
        terminal.print_profiles(run, out)

"""The folder of ability profiles, which is written completely or not at all."""

import json
import os
from pathlib import Path

from bayesirt.data.readers import read_q_matrix
from bayesirt.errors import ResponseError
from bayesirt.names import one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.profiles.ability_profiles import profile_abilities
from bayesirt.profiles.profile_run import (
    ProfileRun,
    ProfileSettings,
    notes_on,
    predicted,
    split_rows,
)
from bayesirt.ranking.record import Record
from bayesirt.ranking.run_folder import CLUSTERS, PROFILES, Q_MATRIX, RECORD, write_rest


def save_profiles(run: ProfileRun, folder: Path, report: str) -> None:
    """Write a run's files into an empty folder."""
    profiles = run.profiles
    tables = {
        PROFILES: profiles.summary,
        "abilities.csv": profiles.abilities,
        "ability_pairs.csv": profiles.pairs,
        CLUSTERS: run.clusters,
        "predictions.csv": run.predictions and run.predictions.summary,
        "predicted_scores.csv": run.predictions and run.predictions.scores,
    }
    run.point.save(folder / "point.nc")
    run.posterior.save(folder / "posterior.nc")
    (folder / Q_MATRIX).write_text(json.dumps(run.q.as_lists(), indent=1) + "\n", "utf-8")
    write_rest(folder, tables, report, run.record)


def load_profiles(folder: Path) -> ProfileRun:
    """Read a run that `save_profiles` wrote."""
    shown = one_line(str(folder), 400)
    if not os.path.isfile(folder / Q_MATRIX):
        raise ResponseError(f"{shown} holds no ability profiles; make them with bayesirt profile")
    try:
        text = (folder / RECORD).read_text("utf-8")
        record = Record.from_json(text, lambda stored: ProfileSettings(**stored))
        posterior = Posterior.load(folder / "posterior.nc")
        point = PointEstimate.load(folder / "point.nc")
        q = read_q_matrix(folder / Q_MATRIX)
        seen_q, new = split_rows(q, posterior.items)
        profiles = profile_abilities(posterior, seen_q)
        predictions = predicted(posterior, new, record.settings.seed)
        return ProfileRun(q, point, posterior, profiles, predictions, notes_on(q, seen_q), record)
    except (OSError, KeyError, TypeError, ValueError) as error:
        reason = one_line(str(error), 120)
        raise ResponseError(
            f"the profiles in {shown} are damaged ({reason}); make them again"
        ) from error

"""Profile runs: ability profiles from responses and a Q-matrix."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd

from bayesirt.data.connections import refuse_disconnected
from bayesirt.data.q_matrix import QMatrix
from bayesirt.data.responses import Responses
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.engines import EngineName, sample_posterior
from bayesirt.models import QMirt
from bayesirt.models.q_mirt import Structure, default_structure
from bayesirt.names import counted, first_few, one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.profiles.ability_profiles import AbilityProfiles, profile_abilities
from bayesirt.profiles.cluster_levels import cluster_levels
from bayesirt.profiles.item_prediction import ItemPredictions, predict_items
from bayesirt.progress import fits_shown
from bayesirt.ranking.record import Record, diagnostics_of, facts_of, timed, versions
from bayesirt.ranking.settings import Sampling

_MOST_NAMED = 5


@dataclass(frozen=True)
class ProfileSettings(Sampling):
    """Settings that the user chooses."""

    warmup: int = 500
    # How abilities relate; auto: chosen by their number.
    structure: Structure | Literal["auto"] = "auto"
    engine: EngineName = "auto"

    def describe_model(self) -> str:
        """Describe the model and its assumptions in a few words."""
        return f"Q-matrix 2PL: compensatory, positive slopes, {self.structure} abilities"


@dataclass(frozen=True, eq=False, repr=False)
class ProfileRun:
    """Ability profiles, with everything they are based on."""

    q: QMatrix  # The Q-matrix as given.
    point: PointEstimate
    posterior: Posterior
    profiles: AbilityProfiles
    predictions: ItemPredictions | None  # For the items that have a row but no responses.
    # One sentence for each thing left out, and for abilities that the Q-matrix cannot distinguish.
    notes: tuple[str, ...]
    record: Record[ProfileSettings]

    @cached_property
    def clusters(self) -> pd.DataFrame | None:
        """The levels of the clusters of subjects, if there are any."""
        return None if self.posterior.clusters is None else cluster_levels(self.posterior)

    def __repr__(self) -> str:
        return f"<ProfileRun: {self.profiles!r} from {self.record.data.source}>"


def profile_responses(
    responses: Responses,
    q: QMatrix,
    settings: ProfileSettings | None = None,
    *,
    source: Path | None = None,
    reading: Mapping[str, Any] | None = None,
    progress: bool = False,
    announce: Callable[[str], None] | None = None,
    checkpoint: Path | None = None,
) -> ProfileRun:
    """Fit the Q-matrix model and profile the subjects.

    The Q-matrix has a row for each item. Items without responses are predicted; abilities that only
    such items need are left out, together with these items. `source` to `checkpoint` are as in
    `bayesirt.ranking.run.rank_responses`.
    """
    refuse_disconnected(responses)
    seen_q, new = split_rows(q, responses.items)
    settings = settings or ProfileSettings()
    structure = settings.structure
    if structure == "auto":
        structure = default_structure(seen_q.n_abilities)
        settings = replace(settings, structure=structure)
    model, key = QMirt.of(seen_q, structure), jax.random.key(settings.seed)
    seconds: dict[str, float] = {}
    with timed(seconds, "point estimate"), fits_shown(progress):
        point = fit_point(responses, model=model)
    data = facts_of(responses, source, reading)
    watch: dict[str, Any] = {"progress": progress, "announce": announce, "checkpoint": checkpoint}
    with timed(seconds, "posterior"):
        posterior = sample_posterior(
            responses,
            key=key,
            model=model,
            engine=settings.engine,
            init=point,
            options=replace(settings.run_options, budget=settings.budget, **watch),
        ).with_attrs(seed=settings.seed, input_sha256=data.sha256)
    with timed(seconds, "profiles"):
        profiles = profile_abilities(posterior, seen_q)
        predictions = predicted(posterior, new, settings.seed)
    diagnostics = diagnostics_of(point, posterior)
    record = Record(settings, data, versions(), seconds, diagnostics)
    return ProfileRun(q, point, posterior, profiles, predictions, notes_on(q, seen_q), record)


def predicted(posterior: Posterior, new: QMatrix | None, seed: int) -> ItemPredictions | None:
    """Return predictions for items without responses, if there are any."""
    key = jax.random.fold_in(jax.random.key(seed), 1)
    return None if new is None else predict_items(posterior, new, key=key)


def split_rows(q: QMatrix, items: Sequence[str]) -> tuple[QMatrix, QMatrix | None]:
    """Return the rows of items with responses, and those of items that can be predicted."""
    seen_q = q.for_items(items, drop_unneeded=True)
    known = np.isin(q.abilities, seen_q.abilities)
    new = ~np.isin(q.items, seen_q.items) & ~q.needs[:, ~known].any(1)
    if not new.any():
        return seen_q, None
    return seen_q, q.for_items([q.items[j] for j in np.flatnonzero(new)], drop_unneeded=True)


def notes_on(q: QMatrix, used: QMatrix) -> tuple[str, ...]:
    """Return what was left out of a Q-matrix, and which abilities cannot be distinguished."""
    unknown = ~np.isin(q.abilities, used.abilities)
    findings = replace(used, n_left_out=0).findings()
    if not unknown.any():
        return tuple(findings)
    names = [repr(one_line(q.abilities[k], 30)) for k in np.flatnonzero(unknown)]
    items = counted(int(q.needs[:, unknown].any(1).sum()), "item")
    unneeded = first_few(names, _MOST_NAMED)
    left_out = f"no item with responses needs {unneeded}: left out together with {items}"
    return (left_out, *findings)

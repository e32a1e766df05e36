"""A run that starts from an earlier one, of results that have changed since."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.models import AUTO
from bayesirt.posterior import Posterior
from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.new_responses import Changes, describe_moves
from bayesirt.ranking.run import rank_responses
from bayesirt.ranking.score_order import by_ability
from bayesirt.ranking.settings import Settings


def update_run(
    earlier: Run, responses: Responses, settings: Settings, changes: Changes, **told: Any
) -> Run:
    """Rank changed results again, starting from an earlier run's posterior."""
    run = rank_responses(responses, settings, start=earlier.posterior, **told)
    facts = changes.as_json() | {
        "moves": describe_moves(by_ability(earlier.ranking.summary), run.ranking.summary),
        "earlier_sha256": earlier.record.data.sha256,
    }
    diagnostics = {**run.record.diagnostics, "changes": facts}
    return replace(run, record=replace(run.record, diagnostics=diagnostics))


def refuse_other_model(earlier: Run, settings: Settings) -> None:
    """Refuse to update a run of another model."""
    before = earlier.record.settings
    if before.other_slopes and settings.other_slopes:  # the final slopes were not the user's choice
        settings = replace(settings, priors=replace(settings.priors, slopes=before.priors.slopes))
    if settings.model == AUTO:
        settings = replace(settings, model=before.model)
    was, now = (s.describe_model() for s in (before, settings))
    if was != now:
        raise ResponseError(
            f"the run was made with {was}, so one with {now} cannot continue from it; leave out "
            f"--update and pass --overwrite to start anew"
        )


def still_stands(
    earlier: Run, responses: Responses, settings: Settings, changes: Changes, sha256: str
) -> bool:
    """Return whether a new run would give the same results as an earlier one."""
    takes_lengths = earlier.posterior.has_speeds
    was = earlier.record.settings
    if (was.scale, was.population) != (settings.scale, settings.population):
        return False
    if _clusters(earlier.posterior) != _clusters(responses):
        return False
    costs = earlier.posterior.mean_costs, responses.costs
    if _costs(earlier.posterior.subjects, costs[0]) != _costs(responses.subjects, costs[1]):
        return False
    same = not changes and (not takes_lengths or sha256 == earlier.record.data.sha256)
    return same and earlier.posterior.complete


def _clusters(known: Posterior | Responses) -> dict[str, str]:
    """Return the cluster of each subject, by name; empty without clusters."""
    clusters = known.clusters
    return {} if clusters is None else dict(zip(known.subjects, clusters.of_each, strict=True))


def _costs(subjects: Sequence[str], costs: NDArray[np.float64] | None) -> dict[str, float]:
    """Return the cost of each subject, by name, where it is known."""
    pairs = () if costs is None else zip(subjects, costs.tolist(), strict=True)
    return {name: cost for name, cost in pairs if cost == cost}

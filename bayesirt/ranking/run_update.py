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


def with_other_changes(
    changes: Changes, earlier: Run, responses: Responses, settings: Settings, sha256: str
) -> Changes:
    """Add whatever else would give other results than those of an earlier run."""
    was, posterior = earlier.record.settings, earlier.posterior
    costs = _costs(posterior.subjects, posterior.mean_costs)
    other_file = not changes and sha256 != earlier.record.data.sha256
    differs = {
        "the anchors are different": was.scale != settings.scale,
        "the scores asked for are different": was.population != settings.population,
        "the clusters are different": _clusters(posterior) != _clusters(responses),
        "the costs are different": costs != _costs(responses.subjects, responses.costs),
        "lengths may be different": posterior.has_speeds and other_file,
        "its draws were incomplete": not posterior.complete,
        "its draws were not sound": not posterior.verdict.sound and samples_anew(was, settings),
    }
    return replace(changes, others=tuple(text for text, true in differs.items() if true))


def samples_anew(was: Settings, now: Settings) -> bool:
    """Return whether posteriors would be drawn in another way."""
    how = ("seed", "chains", "warmup", "draws", "target_accept", "budget", "point", "engine")
    return any(getattr(was, name) != getattr(now, name) for name in how)


def _clusters(known: Posterior | Responses) -> dict[str, str]:
    """Return the cluster of each subject, by name; empty without clusters."""
    clusters = known.clusters
    return {} if clusters is None else dict(zip(known.subjects, clusters.of_each, strict=True))


def _costs(subjects: Sequence[str], costs: NDArray[np.float64] | None) -> dict[str, float]:
    """Return the cost of each subject, by name, where it is known."""
    pairs = () if costs is None else zip(subjects, costs.tolist(), strict=True)
    return {name: cost for name, cost in pairs if cost == cost}

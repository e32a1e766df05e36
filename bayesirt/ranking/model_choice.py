"""The model that suits the answers, given the user's choice."""

from dataclasses import replace

import numpy as np

from bayesirt.checks.run_correlation import run_correlation
from bayesirt.data.responses import Responses
from bayesirt.models import AUTO
from bayesirt.models.named import usual_model
from bayesirt.models.priors import Priors
from bayesirt.models.repeats import Repeats
from bayesirt.models.two_pl import TwoPL
from bayesirt.names import counted, one_line
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.ranking.settings import Settings
from bayesirt.ranking.subject_ranking import best_first

_MOST_RUN_TWICE = 300_000
"""Most cells for which dependent runs are modelled by default."""


def settled(settings: Settings, responses: Responses) -> Settings:
    """Return settings with the model that suits the answers."""
    if settings.model == AUTO:
        settings = replace(settings, model=usual_model(responses))
    settings.response_model.suited_to(responses)
    return settings


def heeding_runs(
    settings: Settings, responses: Responses, point: PointEstimate, *, free: bool
) -> tuple[Settings, str]:
    """Return settings with the model of repeats if runs are dependent, and a note.

    The model stays as it is if the user chose another one or an engine that does not draw from the
    model of repeats, or if the table is too large for one that does.
    """
    if settings.model != TwoPL.name:
        return settings, ""
    correlation = run_correlation(responses, point)
    if not correlation.sure:
        return settings, ""
    note = correlation.to_text()
    if (
        free
        and settings.engine in ("auto", *Repeats().engines)
        and (settings.priors.kind, settings.priors.guessing) == (Priors.kind, Priors.guessing)
        and responses.n_observed <= _MOST_RUN_TWICE
    ):
        note = f"Several {note}, which is modelled; --repeats independent ignores it."
        return replace(settings, model=Repeats.name), note
    return settings, (f"Several {note}: intervals are too narrow. --repeats dependent models it.")


def rank_moves(posterior: Posterior, simpler: Posterior) -> str:
    """Return how far the ranking is from that of another model of the same subjects."""
    one, other = (best_first(x.reported.theta)[0].argsort() for x in (posterior, simpler))
    moves = other - one
    if not moves.any():
        return "Both give the same ranking."
    farthest = int(np.argmax(np.abs(moves)))
    n, direction = abs(int(moves[farthest])), "higher" if moves[farthest] > 0 else "lower"
    return (
        f"Their ranks correlate by {np.corrcoef(one, other)[0, 1]:.3f}; the "
        f"{posterior.tree.attrs['model']} ranks {one_line(posterior.subjects[farthest], 60)} "
        f"{counted(n, 'place')} {direction}, the largest difference."
    )

"""Which point estimators there are, and which one suits the data and the model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jax import Array
from scipy.special import ndtr

from bayesirt.data.cell_rows import fold_rows
from bayesirt.data.cells import CellList
from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.estimators.mml import fit_mml
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.estimators.saem import fit_saem
from bayesirt.estimators.spectral import fit_spectral
from bayesirt.models import AUTO, LaRT, Mirt, QMirt, ResponseModel, TwoPL, model_for
from bayesirt.point_estimate import PointEstimate

PointMethod = Literal["auto", "cbmm", "mml", "joint_map", "spectral", "em", "saem"]

FEW_ITEMS = 30
"""Up to so many items, one item's share of what is known of an ability matters: a joint estimate's
slopes are then far too steep."""

_STEPS = 3
_ONE_ABILITY = (TwoPL,)


@dataclass(frozen=True)
class Estimator:
    """A point estimator."""

    name: str  # What people type.
    # That it fits; it starts the posterior of the 3PL from an estimate without guessing,
    # and those of grades and scores from one of their shares of the full score.
    models: tuple[type[ResponseModel], ...]
    # (responses, model, key) → PointEstimate.
    fit: Callable[[Responses, Any, Array | None], PointEstimate]


def _saem(responses: Responses, model: LaRT, key: Array | None) -> PointEstimate:
    if key is None:
        raise ValueError("saem needs key=jax.random.key(seed)")
    return fit_saem(responses, key=key, link=model.link)


ESTIMATORS = (
    Estimator("cbmm", _ONE_ABILITY, lambda responses, _, __: fit_cbmm(responses)),
    Estimator("mml", _ONE_ABILITY, lambda responses, _, __: fit_mml(responses)),
    Estimator("joint_map", _ONE_ABILITY, lambda responses, _, __: fit_joint_map(responses)),
    Estimator("spectral", _ONE_ABILITY, lambda responses, _, __: fit_spectral(responses)),
    Estimator("em", (LaRT,), lambda responses, model, _: fit_lart(responses, link=model.link)),
    Estimator("saem", (LaRT,), _saem),
    Estimator("em", (Mirt,), lambda x, model, _: fit_mirt(x, n_abilities=model.n_abilities)),
    Estimator(
        "em", (QMirt,), lambda x, model, _: fit_q_mirt(x, model.q, structure=model.structure)
    ),
)


def fit_point(
    responses: Responses,
    method: PointMethod = "auto",
    *,
    model: str | ResponseModel = AUTO,
    key: Array | None = None,
) -> PointEstimate:
    """Fit a point estimate.

    Parameters
    ----------
    responses : Responses
    method : {"auto", "cbmm", "mml", "joint_map", "spectral", "em", "saem"}
        ``"auto"`` takes EM for LaRT and for several abilities; for one ability MML up to
        `FEW_ITEMS` items, where a joint estimate's slopes are far too steep, and cBMM beyond,
        where the two agree and cBMM is faster.
    model : ResponseModel, or {"auto", "2pl", "3pl", "graded", "continuous", "normal", "lart"}
    key : jax.random.key, optional
        Needed by ``"saem"``.

    Returns
    -------
    PointEstimate

    Raises
    ------
    ResponseError
        If the method is not the model's, the responses are too many for it, or LaRT misses
        lengths.
    ValueError
        If SAEM has no key.
    """
    model = model_for(responses, model)
    own = {row.name: row for row in ESTIMATORS if isinstance(model, row.models)}
    if method == "auto":
        of_one: PointMethod = "mml" if responses.n_items <= FEW_ITEMS else "cbmm"
        method = "em" if "em" in own else of_one
    if method not in own:
        *names, last = own
        listed = f"{', '.join(names)} and {last}" if names else last
        raise ResponseError(f"{method} is not an estimator of {model.name}; take auto, {listed}")
    return own[method].fit(_coarse(responses), model, key)


def _coarse(responses: Responses) -> Responses:
    """Return scores in a few steps: a score tells about as much as so many answers."""
    if responses.scale is None or not responses.scale.fine:
        return responses
    subject, item, parts, trials = responses.cells.listed()
    share = parts / trials
    if responses.scale.kind == "unbounded":  # of which few lie near an end
        share = ndtr((share - share.mean()) / share.std())
    steps = np.rint(_STEPS * share).astype(np.int8)
    cells = fold_rows(
        responses.cells.shape,
        CellList(subject, item, steps, np.full(len(steps), _STEPS, np.int8)),
        "error",
        str,
    )[0]
    return replace(responses, cells=cells, scale=None)

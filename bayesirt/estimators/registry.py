"""All point estimators, and the choice among them according to data and model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from jax import Array

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.marginal import fit_marginal
from bayesirt.estimators.mirt import fit_mirt
from bayesirt.estimators.q_mirt import fit_q_mirt
from bayesirt.estimators.saem import fit_saem
from bayesirt.estimators.spectral import fit_spectral
from bayesirt.models import (
    AUTO,
    Continuous,
    Graded,
    LaRT,
    Mirt,
    Normal,
    QMirt,
    Repeats,
    ResponseModel,
    ThreePL,
    TwoPL,
    model_for,
)
from bayesirt.point_estimate import PointEstimate
from bayesirt.random_keys import Key, as_key

PointMethod = Literal["auto", "cbmm", "joint_map", "spectral", "em", "saem"]

FEW_ITEMS = 30
"""Number of items up to which joint estimates have far too steep slopes, as each item contributes
much of the information about an ability."""

_RIGHT_OR_WRONG = (TwoPL, ThreePL, Repeats)

_MARGINAL = (TwoPL, ThreePL, Repeats, Graded, Continuous, Normal)


@dataclass(frozen=True)
class Estimator:
    """A point estimator."""

    name: str  # As on the command line.
    # Models that it can be used for; it may ignore guessing and dependent runs.
    models: tuple[type[ResponseModel], ...]
    # (responses, model, key) → PointEstimate.
    fit: Callable[[Responses, Any, Array | None], PointEstimate]


def _saem(responses: Responses, model: LaRT, key: Array | None) -> PointEstimate:
    if key is None:
        raise ValueError("saem needs key=jax.random.key(seed)")
    return fit_saem(responses, key=key, link=model.link)


ESTIMATORS = (
    Estimator("cbmm", _RIGHT_OR_WRONG, lambda responses, _, __: fit_cbmm(responses)),
    Estimator("joint_map", _RIGHT_OR_WRONG, lambda responses, _, __: fit_joint_map(responses)),
    Estimator("spectral", _RIGHT_OR_WRONG, lambda responses, _, __: fit_spectral(responses)),
    Estimator("em", _MARGINAL, lambda responses, model, _: fit_marginal(responses, model=model)),
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
    key: Key | None = None,
) -> PointEstimate:
    """Fit a point estimate.

    Parameters
    ----------
    responses : Responses
    method : {"auto", "cbmm", "joint_map", "spectral", "em", "saem"}
        ``"auto"`` is EM, except for the 2PL with more than 30 items, where cBMM agrees and is
        faster. With fewer items, slopes of joint estimates are far too steep.
    model : ResponseModel, or {"auto", "2pl", "3pl", "graded", "continuous", "normal", "lart"}
    key : jax.random.key or int, optional
        Needed for ``"saem"``.

    Returns
    -------
    PointEstimate

    Raises
    ------
    ResponseError
        If the method does not support the model, there are too many responses for it, or LaRT's
        lengths are missing.
    ValueError
        If SAEM has no key.
    """
    key = None if key is None else as_key(key)
    model = model_for(responses, model)
    estimators = {row.name: row for row in ESTIMATORS if type(model) in row.models}
    if method == "auto":
        many = type(model) is TwoPL and responses.n_items > FEW_ITEMS
        method = "cbmm" if many else "em"
    if method not in estimators:
        *names, last = estimators
        listed = f"{', '.join(names)} and {last}" if names else last
        raise ResponseError(f"{method} is not an estimator of {model.name}; use auto, {listed}")
    return estimators[method].fit(responses, model, key)

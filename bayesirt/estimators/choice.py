"""Which point estimator suits the data and the model."""

from collections.abc import Callable
from typing import Literal

from jax import Array

from bayesirt.errors import ResponseError
from bayesirt.estimators.cbmm import fit_cbmm
from bayesirt.estimators.joint_map import fit_joint_map
from bayesirt.estimators.lart_em import fit_lart
from bayesirt.estimators.mml import fit_mml
from bayesirt.estimators.saem import fit_saem
from bayesirt.estimators.spectral import fit_spectral
from bayesirt.models import ModelName
from bayesirt.models.coordinates import FEW_ITEMS
from bayesirt.point_estimate import PointEstimate
from bayesirt.responses import Responses

PointMethod = Literal["auto", "cbmm", "mml", "joint_map", "spectral", "em", "saem"]

_FITS: dict[str, Callable[[Responses], PointEstimate]] = {
    "cbmm": fit_cbmm,
    "mml": fit_mml,
    "joint_map": fit_joint_map,
    "spectral": fit_spectral,
}


def fit_point(
    responses: Responses,
    method: PointMethod = "auto",
    *,
    model: ModelName = "2pl",
    key: Array | None = None,
) -> PointEstimate:
    """Fit a point estimate.

    Parameters
    ----------
    responses : Responses
    method : {"auto", "cbmm", "mml", "joint_map", "spectral", "em", "saem"}
        ``"auto"`` takes EM for LaRT; for the 2PL MML up to `FEW_ITEMS` items, where a joint
        estimate's slopes are far too steep, and cBMM beyond, where the two agree and cBMM is
        faster.
    model : {"2pl", "3pl", "lart"}
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
    if (method in ("em", "saem")) != (model == "lart") and method != "auto":
        own = "em and saem" if model == "lart" else ", ".join(_FITS)
        raise ResponseError(f"{method} is no estimator of {model}; take auto, {own}")
    if method == "saem":
        if key is None:
            raise ValueError("saem needs key=jax.random.key(seed)")
        return fit_saem(responses, key=key)
    if model == "lart":
        return fit_lart(responses)
    if method == "auto":
        method = "mml" if responses.n_items <= FEW_ITEMS else "cbmm"
    return _FITS[method](responses)

"""Joint MAP: the 2PL by penalised joint likelihood (Kang, 2026)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.driver import iterate
from bayesirt.estimators.joint_information import (
    JointPoint,
    JointPrior,
    factored,
    joint_information,
    n_kept,
    solve,
    variances,
)
from bayesirt.estimators.joint_newton import JointState, joint_start, joint_step
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.estimators.starts import logit_start, to_standard
from bayesirt.likelihood.cell_sums import Layout, layout_of
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.host_arrays import host
from bayesirt.point_estimate import PointEstimate

MOST_KEPT = 8000
"""Largest matrix over the smaller side, in rows."""

_START = jax.jit(joint_start, static_argnums=1)
_STEP = jax.jit(joint_step, static_argnums=1)


class StandardErrors(NamedTuple):
    """Of the parameters once abilities have mean 0 and standard deviation 1."""

    theta: Float[Array, " subject"]
    # Standard errors of a and of d, and the covariance of the two.
    a: Float[Array, " item"]
    d: Float[Array, " item"]
    both: Float[Array, " item"]


def fit_joint_map(
    responses: Responses,
    *,
    log_a_sd: float = 0.5,
    b_sd: float = 2.0,
    tol: float | None = None,
    max_iterations: int = 100,
) -> PointEstimate:
    """Fit the 2PL by the mode over abilities and items together, with θ ~ N(0, 1).

    Papers/002 calls what it maximises marginal likelihood; no ability is integrated out, and it
    is penalised joint likelihood.

    Parameters
    ----------
    responses : Responses
    log_a_sd, b_sd : float
        Standard deviations of the normal priors on log a and on the difficulty b, both with
        mean 0.
    tol : float, optional
        Stop when the loss changes by at most this share of itself; by default 1e-10, or what the
        number format allows.
    max_iterations : int
        Newton steps at most.

    Returns
    -------
    PointEstimate
        θ is standardised to mean 0 and standard deviation 1; a and d are moved so that η stays.
        Standard errors come from the inverse of the observed information of all parameters
        together, by the delta method; two subjects are at -1 and 1 without error.

    Raises
    ------
    ValueError
        If a standard deviation is not positive.
    ResponseError
        If the smaller side has more than `MOST_KEPT` parameters.

    Warns
    -----
    ConvergenceWarning
        If the loss still changes at the end.

    Notes
    -----
    The loss is -Σℓ + ½ Σθ² + ½ Σ(b/2)² + ½ Σ(log a/0.5)². Newton's steps go through the Schur
    complement of the larger side: one costs N² J operations.
    They start where cheap steps on items and abilities in turn come to.
    The paper's own errors are from finite differences.

    References
    ----------
    Kang (2026), equation (5) and "Standard errors".

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tri(6, 5)
    >>> fit_joint_map(Responses.from_arrays(answers))["theta"].argmax()
    np.int64(4)
    """
    _refuse_too_large(responses)
    prior = _prior(log_a_sd, b_sd)
    layout = layout_of(responses)
    theta, a, d = logit_start(responses)
    if tol is None:
        tol = max(1e-10, 4 * float(jnp.finfo(theta.dtype).eps))
    state, run = iterate(
        lambda s: _STEP(layout, LOGIT, prior, s),
        _START(layout, LOGIT, prior, JointPoint(theta, host(np.log(a)), -d / a)),
        lambda s: s.loss,
        tol=tol,
        max_iterations=max_iterations,
        name="joint_map",
    )
    theta, a, d = state.point.slopes()
    shift, scale = to_standard(theta)
    point = (theta + shift) / scale, a * scale, d - a * shift
    observed = True
    errors = _errors(layout, LOGIT, prior, state, jnp.ones_like(state.loss))
    if not np.isfinite(errors.theta).all():
        observed = False
        errors = _errors(layout, LOGIT, prior, state, jnp.zeros_like(state.loss))
    parameters = parameter_table(responses, point, errors[:3], -errors.both / errors.a**2)
    settings = {
        "estimator": "joint_map",
        "theta_scale": "sample",
        "log_a_sd": log_a_sd,
        "b_sd": b_sd,
        "tol": tol,
        "information": "observed" if observed else "expected",
    }
    log_likelihood = -float(state.sums.subject_loss.sum())
    return PointEstimate(parameters, log_likelihood, *run[:3], run.trace, settings)


def _refuse_too_large(responses: Responses) -> None:
    size = n_kept(responses.n_subjects, responses.n_items)
    if size > MOST_KEPT:
        raise ResponseError(
            f"joint MAP needs a matrix of {size:,} x {size:,} for {responses.n_subjects:,} "
            f"subjects and {responses.n_items:,} items, and {MOST_KEPT:,} is the most; use cbmm"
        )


def _prior(log_a_sd: float, b_sd: float) -> JointPrior:
    for name, sd in (("log_a_sd", log_a_sd), ("b_sd", b_sd)):
        if not (np.isfinite(sd) and sd > 0):
            raise ValueError(f"`{name}` must be positive, got {sd}")
    return JointPrior(1.0, log_a_sd**-2, b_sd**-2)


@partial(jax.jit, static_argnums=1)
def _errors(
    layout: Layout, family: Family, prior: JointPrior, state: JointState, observed: Array
) -> StandardErrors:
    """Return standard errors by the delta method.

    With m and s the mean and standard deviation of θ: dθ* = (dθ - dm - θ* ds)/s, d log a* = d log a
    + ds/s and dd* = d* d log a + a (dm - db). Of m and s only the covariances with everything else
    are needed, which are two solutions of the system.
    """
    theta, a, d = state.point.slopes()
    information = joint_information(layout, family, state.sums, prior, state.point, observed)
    factors = factored(layout, information)
    of_theta, (of_a, of_ab, of_b) = variances(layout, information, factors)
    shift, s = to_standard(theta)
    z, intercept, n = (theta + shift) / s, d - a * shift, len(theta)
    of_s = jnp.where(z.std() > 0.5, z / n, 0)  # equal abilities are not scaled
    directions = jnp.stack([jnp.ones_like(z) / n, of_s])
    no_items = jnp.zeros_like(a)
    with_m, with_s = (
        solve(layout, information, factors, JointPoint(v, no_items, no_items)) for v in directions
    )
    (mm, ms), ss = directions @ with_m.theta, directions[1] @ with_s.theta
    spread = of_theta + mm + z**2 * ss - 2 * with_m.theta - 2 * z * with_s.theta + 2 * z * ms
    spread = jnp.maximum(spread, jnp.finfo(s.dtype).eps * of_theta)  # 0 but for rounding if n = 2
    aa = of_a + ss / s**2 + 2 * with_s.log_a / s
    dd = intercept**2 * of_a + a**2 * (mm + of_b - 2 * with_m.b)
    dd += 2 * intercept * a * (with_m.log_a - of_ab)
    ad = intercept * (of_a + with_s.log_a / s) + a * (with_m.log_a - of_ab + (ms - with_s.b) / s)
    return StandardErrors(jnp.sqrt(spread) / s, a * s * jnp.sqrt(aa), jnp.sqrt(dd), a * s * ad)

"""Joint MAP: the 2PL by penalised joint likelihood (Kang, 2026)."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.estimators.initial_values import logit_start, to_standard
from bayesirt.estimators.joint.curvature import DenseCurvature
from bayesirt.estimators.joint.density import JointPoint
from bayesirt.estimators.joint.information import JointProblem, joint_problem
from bayesirt.estimators.joint.mode import Mode, find_mode
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.likelihood.host_arrays import host
from bayesirt.models import Priors, TwoPL
from bayesirt.point_estimate import PointEstimate

MOST_KEPT = 8000
"""Maximum number of rows of the matrix over the smaller side."""


class StandardErrors(NamedTuple):
    """Standard errors after abilities are standardised to mean 0 and standard deviation 1."""

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
    """Fit the 2PL by the joint MAP estimate of abilities and items, with θ ~ N(0, 1).

    Abilities are not integrated out; the objective is the penalised joint likelihood.

    Parameters
    ----------
    responses : Responses
    log_a_sd, b_sd : float
        Standard deviations of the normal priors on log a and on the difficulty b, both with
        mean 0.
    tol : float, optional
        Stop when the remaining distance is at most this many posterior standard deviations; by
        default the square root of the machine epsilon.
    max_iterations : int
        Maximum number of Newton steps.

    Returns
    -------
    PointEstimate
        θ is standardised to mean 0 and standard deviation 1; a and d are transformed accordingly.
        Standard errors are computed by the delta method from the inverse of the observed
        information of all parameters. With two subjects, θ is -1 and 1 without error.

    Raises
    ------
    ValueError
        If a standard deviation is not positive.
    ResponseError
        If the smaller side has more than 8,000 parameters.

    Warns
    -----
    ConvergenceWarning
        If the iteration has not converged.

    Notes
    -----
    The loss is -Σℓ + ½ Σθ² + ½ Σ(b/2)² + ½ Σ(log a/0.5)². Newton steps use the Schur complement of
    the larger side and cost N² J operations each. They start from the result of cheap alternating
    steps on items and abilities. Laplace's approximation finds its mode by the same steps.

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
    problem = _problem(responses, log_a_sd, b_sd)
    theta, a, d = logit_start(responses)
    tol = float(jnp.finfo(theta.dtype).eps) ** 0.5 if tol is None else tol
    mode = find_mode(
        problem,
        {"theta": theta, "a": a, "d": d},
        centre="mode",
        tol=tol,
        max_iterations=max_iterations,
        dense_up_to=MOST_KEPT,
    )
    theta, items, _ = mode.point
    theta, a, d = map(host, (theta, *problem.coordinates.to_items(items)))
    shift, scale = to_standard(theta)
    z, intercept = (theta + shift) / scale, d - a * shift
    errors = StandardErrors(*map(host, _errors(mode, z, scale, a, intercept)))
    parameters = parameter_table(
        responses,
        (z, a * scale, intercept),
        errors[:3],
        -errors.both / errors.a**2,
    )
    settings = {
        "estimator": "joint_map",
        "theta_scale": "sample",
        "log_a_sd": log_a_sd,
        "b_sd": b_sd,
        "tol": tol,
        "information": "observed" if mode.curvature.observed else "expected",
    }
    log_likelihood = float(problem.sums(mode.point).subjects.log_likelihood.sum())
    run = len(mode.steps), mode.converged, mode.stop_reason, np.array(mode.losses)
    return PointEstimate(parameters, log_likelihood, *run, settings)


def _problem(responses: Responses, log_a_sd: float, b_sd: float) -> JointProblem:
    for name, sd in (("log_a_sd", log_a_sd), ("b_sd", b_sd)):
        if not (np.isfinite(sd) and sd > 0):
            raise ValueError(f"`{name}` must be positive, got {sd}")
    problem = joint_problem(responses.cells, TwoPL(Priors(kind="fixed")))
    if problem.n_kept > MOST_KEPT:
        raise ResponseError(
            f"joint MAP needs a matrix of {problem.n_kept:,} x {problem.n_kept:,} for "
            f"{responses.n_subjects:,} subjects and {responses.n_items:,} items, but at most "
            f"{MOST_KEPT:,} rows are possible; use cbmm"
        )
    scales = (float(log_a_sd), float(b_sd))
    return replace(problem, coordinates=problem.coordinates._replace(scales=scales))


def _errors(mode: Mode, z: Array, s: float, a: Array, intercept: Array) -> StandardErrors:
    """Return standard errors by the delta method.

    With m and s the mean and standard deviation of θ: dθ* = (dθ - dm - θ* ds)/s, d log a* = d log a
    + ds/s and dd* = d* d log a + a (dm - db). This needs the covariances of m and s with all other
    parameters, which are two solutions of the system.
    """
    assert isinstance(mode.curvature, DenseCurvature)
    _, items, means = map(host, mode.point)
    of_s = z if z.std() > 0.5 else 0 * z  # equal abilities are not scaled
    directions = host(np.stack([np.ones_like(z), of_s]) / len(z))
    along = [mode.curvature.solve(JointPoint(v, 0 * items, means)) for v in directions]
    return _by_delta(mode.curvature.covariances, directions, *along, (z, s, a, intercept))


@jax.jit
def _by_delta(
    covariances: JointPoint,
    directions: Float[Array, "2 subject"],
    with_m: JointPoint,
    with_s: JointPoint,
    standardised: tuple[Array, ...],
) -> StandardErrors:
    z, s, a, intercept = standardised
    of_theta, of_items, _ = covariances
    of_a, of_ab, of_b = of_items[:, 0, 0], of_items[:, 0, 1], of_items[:, 1, 1]
    (a_m, b_m), (a_s, b_s) = with_m.items.T, with_s.items.T
    (mm, ms), ss = directions @ with_m.theta, directions[1] @ with_s.theta
    spread = of_theta + mm + z**2 * ss - 2 * with_m.theta - 2 * z * with_s.theta + 2 * z * ms
    spread = jnp.maximum(spread, jnp.finfo(s.dtype).eps * of_theta)  # 0 up to rounding if n = 2
    aa = of_a + ss / s**2 + 2 * a_s / s
    dd = intercept**2 * of_a + a**2 * (mm + of_b - 2 * b_m) + 2 * intercept * a * (a_m - of_ab)
    ad = intercept * (of_a + a_s / s) + a * (a_m - of_ab + (ms - b_s) / s)
    return StandardErrors(jnp.sqrt(spread) / s, a * s * jnp.sqrt(aa), jnp.sqrt(dd), a * s * ad)

"""The joint mode of abilities and items, with the items' spreads learned by empirical Bayes."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesirt.errors import ResponseError
from bayesirt.estimators import lapack
from bayesirt.estimators.cluster_shares import expected_share
from bayesirt.estimators.iteration import ConvergenceWarning
from bayesirt.estimators.joint.curvature import Curvature, curvature_at
from bayesirt.estimators.joint.density import Expansion, JointPoint, Sums, expand, loss_at
from bayesirt.estimators.joint.information import JointProblem, means_curvature
from bayesirt.estimators.joint.learned_spreads import learned_spreads
from bayesirt.estimators.joint.mean_tilt import tilt_at

Centre = Literal["mean", "mode"]
Start = Mapping[str, Any]
"""θ, a, d and the family's further parameters by name."""

_MOST_HALVINGS = 20
_ROUNDING = 8.0
_MOST_SWEEPS = 12
_LEAST_SHARE = 0.3
_PATIENCE = 20
"""Newton steps after which less of the tilt's gap is closed at a time, in case it cycles."""
_MOST_TILTED = 100
"""Newton steps after which the tilt is given up: with few answers it may have no fixed point."""
_NEAR = 0.02
_LEAN_SD, _LITTLE_LEAN = 2.0, 0.1
_LEAST_SPREAD = 0.1
_LEAST_TOLD = 1e-3


class State(NamedTuple):
    """State of the search."""

    point: JointPoint
    spread: Float[Array, " coordinate"]  # σ of each item coordinate.
    tilt: JointPoint  # Added to the gradient of the log density, see `mean_tilt`.
    sums: Sums  # At the point.
    gap: JointPoint  # Last difference of the correct tilt from the one in use.
    share: float  # Share of that gap that was closed.

    def loss(self, problem: JointProblem) -> float:
        """Return the negative log of the tilted joint density, given the spreads."""
        return loss_at(problem.coordinates, *self._given, problem.before)

    def expansion(self, problem: JointProblem, *, observed: bool) -> Expansion:
        """Return the gradient and the blocks of the curvature."""
        return expand(problem.coordinates, *self._given, problem.before, observed=observed)

    @property
    def _given(self) -> tuple[Array, JointPoint, JointPoint, Sums]:
        return self.spread, self.tilt, self.point, self.sums


class Mode(NamedTuple):
    """The joint mode and how it was reached."""

    point: JointPoint
    spread: Float[Array, " coordinate"]  # σ of each item coordinate, held fixed.
    curvature: Curvature  # At the mode.
    # Root mean square of each Newton step, in posterior standard deviations.
    steps: tuple[float, ...]
    losses: tuple[float, ...]  # Before the first step, and after each.
    converged: bool
    stop_reason: str  # In words.
    lean: float  # μ_b, the origin of abilities.
    centre: Centre  # "mode" if the tilt towards the mean was given up.


def find_mode(
    problem: JointProblem,
    start: Start,
    *,
    centre: Centre,
    tol: float,
    max_iterations: int,
    dense_up_to: int,
    leans: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Mode:
    """Find the joint mode, with spreads estimated at it, by iterating until both are stable.

    Block-wise sweeps, which cost a pass over the data each, get close. Newton steps with the full
    curvature, which includes common shifts and scales of abilities and items, do the rest. Spreads
    and tilt are updated with the point.
    """
    state = _sweeps(problem, _first(problem, start), centre)
    lean = 0.0
    if problem.before.cluster is not None:
        problem, state = _clustered(problem, state, centre)
    if leans:
        problem, state, lean = _leaning(problem, state, centre)
    steps: list[float] = []
    losses = [state.loss(problem)]
    reason, converged = f"the steps are still long after {max_iterations} steps", False
    for _ in range(max_iterations):
        if len(steps) == _MOST_TILTED and centre == "mean":
            centre, state = "mode", state._replace(tilt=jax.tree.map(jnp.zeros_like, state.tilt))
        state = _up_to_date(problem, state, centre, _LEAST_SHARE / (1 + len(steps) // _PATIENCE))
        expand_at = partial(state.expansion, problem)
        curvature = curvature_at(
            problem, state.spread, state.point, expand_at, dense_up_to=dense_up_to
        )
        state, length = _newton_step(problem, state, curvature)
        distance = max(length, _remaining(length, steps[-1] if steps else np.inf))
        steps.append(length)
        losses.append(state.loss(problem))
        if tell is not None:
            tell(f"Newton step {len(steps)}: {length:.1e} posterior standard deviations")
        if distance <= tol:
            reason, converged = f"at most {tol:g} posterior standard deviations remain", True
            break
    if not converged:
        warnings.warn(f"joint mode: {reason}", ConvergenceWarning, stacklevel=3)
    run = tuple(steps), tuple(losses), converged, reason
    return Mode(state.point, state.spread, curvature, *run, lean, centre)


def _remaining(length: float, before: float) -> float:
    """Return the remaining distance if steps continue to shrink at the same rate."""
    ratio = length / before
    return length * ratio / (1 - ratio) if ratio < 1 else np.inf


def _first(problem: JointProblem, start: Start) -> State:
    coordinates = problem.coordinates
    theta, a, d = (jnp.asarray(np.nan_to_num(start[name])) for name in ("theta", "a", "d"))
    further = [jnp.asarray(start[name]) for name in problem.family.further if name in start]
    items = coordinates.from_items(a, d, *further)
    if coordinates.names[0] == "d":  # all slopes are 1
        theta = theta * a.mean()
    scales = jnp.asarray(coordinates.scales)
    means, spread = jnp.zeros(0), scales
    if coordinates.learned:
        means = items.mean(0)
        spread = jnp.clip(items.std(0), _LEAST_SPREAD, scales)
        # Estimates of poorly determined parameters are too close to each other.
        is_further = jnp.array([name not in "ad" for name in coordinates.names])
        spread = jnp.where(is_further, scales, spread)
    cluster = problem.before.cluster
    if cluster is not None:
        totals, sizes = (np.bincount(cluster, weights) for weights in (theta, None))
        means = jnp.concatenate([means, totals / sizes])
    point = JointPoint(theta, items, means)
    nothing = jax.tree.map(jnp.zeros_like, point)
    state = State(point, spread, nothing, problem.sums(point), nothing, 1.0)
    if not np.isfinite(state.loss(problem)):
        raise ResponseError(
            "the joint density is not finite at the point estimate; fit it again or pass another"
        )
    return state


def _sweeps(problem: JointProblem, state: State, centre: Centre) -> State:
    """Move items, then abilities and means, each with the others treated as known."""
    for _ in range(_MOST_SWEEPS):
        state, length = _sweep(problem, _up_to_date(problem, state, centre))
        if length <= _NEAR:
            break
    return state


def _clustered(problem: JointProblem, state: State, centre: Centre) -> tuple[JointProblem, State]:
    """Estimate the share of abilities' variance between clusters from the subjects' likelihoods."""
    cluster, n_means = problem.before.cluster, problem.coordinates.n_means
    assert cluster is not None
    for _ in range(_MOST_SWEEPS):
        expansion, before = state.expansion(problem, observed=False), problem.before
        information = jnp.maximum(expansion.theta_curvature - before.precision, _LEAST_TOLD)
        seen = state.point.theta + state.sums.subjects.score[:, 0] / information
        n_clusters = len(state.point.means) - n_means
        share = float(expected_share(seen - before.mean, 1 / information, cluster, n_clusters))
        problem = replace(problem, before=before._replace(precision=1 / (1 - share), between=share))
        state = _sweeps(problem, state, centre)
        if abs(share - float(before.between)) <= _NEAR:
            break
    return problem, state


def _leaning(
    problem: JointProblem, state: State, centre: Centre
) -> tuple[JointProblem, State, float]:
    """Shift abilities by μ_b such that intercepts do not depend on slopes, by EM steps."""
    total = 0.0
    for _ in range(_MOST_SWEEPS):
        lean, error = _lean(problem, state, total)
        total, before = total + lean, problem.before
        problem = replace(problem, before=before._replace(mean=before.mean - lean))
        theta, items, means = state.point
        a = problem.coordinates.to_items(items)[0]
        items = items.at[:, 1].add(a * lean)
        point = JointPoint(theta - lean, items, means.at[1].add(a.mean() * lean))
        state = state._replace(point=point, sums=problem.sums(point))
        if abs(lean) <= _LITTLE_LEAN * error:
            break
        state = _sweeps(problem, state, centre)
    return problem, state, total


def _lean(problem: JointProblem, state: State, so_far: float) -> tuple[float, float]:
    """Return the remaining coefficient of intercepts on slopes, and its error."""
    expansion = state.expansion(problem, observed=False)
    a, d = (x - x.mean() for x in problem.coordinates.to_items(state.point.items)[:2])
    covariance = lapack.inv(expansion.item_curvature)
    of_a = expansion.jacobian[:, 0, 0]
    aa = a @ a + of_a**2 @ covariance[:, 0, 0]
    ad = a @ d + of_a @ covariance[:, 0, 1]
    noise = state.spread[1] ** 2
    precision = aa / noise + _LEAN_SD**-2
    return float(-(ad / noise + so_far / _LEAN_SD**2) / precision), float(precision**-0.5)


def _up_to_date(
    problem: JointProblem, state: State, centre: Centre, least_share: float = _LEAST_SHARE
) -> State:
    """Update the spreads and the tilt to the state's point."""
    expansion = state.expansion(problem, observed=False)
    if problem.coordinates.learned:
        spread = learned_spreads(
            problem.coordinates, state.spread, state.point, state.sums.items, expansion
        )
        state = state._replace(spread=spread)
        expansion = state.expansion(problem, observed=False)
    return state if centre == "mode" else _tilted(problem, state, expansion, least_share)


def _tilted(problem: JointProblem, state: State, here: Expansion, least_share: float) -> State:
    """Update the tilt, with damping if it reacts to its own last change."""
    gap = jax.tree.map(jnp.subtract, tilt_at(problem, state.point, here), state.tilt)
    share = _aitken_share(state, gap, least_share)
    tilt = jax.tree.map(lambda old, change: old + share * change, state.tilt, gap)
    return state._replace(tilt=tilt, gap=gap, share=share)


def _aitken_share(state: State, gap: JointPoint, least: float) -> float:
    """Return the share that a secant through the last two gaps would close (Irons and Tuck)."""
    closed = jax.tree.map(jnp.subtract, state.gap, gap)
    length = _inner(closed, closed)
    share = state.share * _inner(state.gap, closed) / length if length > 0 else 1.0
    return float(np.clip(share, least, 1)) if _inner(state.gap, state.gap) > 0 else 1.0


def _inner(one: JointPoint, other: JointPoint) -> float:
    return sum(float(jnp.vdot(x, y)) for x, y in zip(one, other, strict=True))


def _sweep(problem: JointProblem, state: State) -> tuple[State, float]:
    expansion = state.expansion(problem, observed=False)
    step = lapack.solve(expansion.item_curvature, expansion.gradient.items[..., None])[..., 0]
    gain = float(jnp.vdot(step, expansion.gradient.items))
    theta, items, means = state.point
    state = _downhill(problem, state, JointPoint(0 * theta, step, 0 * means))
    expansion = state.expansion(problem, observed=False)
    along_theta = expansion.gradient.theta / expansion.theta_curvature
    along_means = expansion.gradient.means / means_curvature(problem, state.spread, state.point)
    gain += float(jnp.vdot(along_theta, expansion.gradient.theta))
    gain += float(jnp.vdot(along_means, expansion.gradient.means))
    state = _downhill(problem, state, JointPoint(along_theta, 0 * items, along_means))
    return state, _per_parameter(gain, state.point)


def _newton_step(problem: JointProblem, state: State, curvature: Curvature) -> tuple[State, float]:
    expansion = state.expansion(problem, observed=True)
    step = curvature.solve(expansion.gradient)
    gain = _inner(expansion.gradient, step)
    return _downhill(problem, state, step), _per_parameter(gain, state.point)


def _downhill(problem: JointProblem, state: State, step: JointPoint) -> State:
    """Take a step, halved until the loss does not rise."""
    before = state.loss(problem)
    slack = _ROUNDING * float(jnp.finfo(state.point.theta.dtype).eps) * abs(before)
    for halvings in range(_MOST_HALVINGS):
        share = 0.5**halvings
        point = JointPoint(*(x + share * along for x, along in zip(state.point, step, strict=True)))
        moved = state._replace(point=point, sums=problem.sums(point))
        if moved.loss(problem) <= before + slack:
            return moved
    return state


def _per_parameter(gain: float, point: JointPoint) -> float:
    return float(np.sqrt(max(gain, 0.0) / sum(x.size for x in point)))

"""The iteration loop that all estimators share."""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from bayesirt.progress import fit_bar

State = TypeVar("State")
Tree = TypeVar("Tree")

LOSS_RISES = "the loss rises"
"""Stop reason of an iteration that was interrupted because of `most_rise`."""


class Iterations(NamedTuple):
    """Record of an iteration."""

    iterations: int
    converged: bool
    stop_reason: str  # In words.
    trace: NDArray[np.float64]  # shape (iteration + 1,). The loss, beginning at the start.


class ConvergenceWarning(UserWarning):
    """An estimator stopped before it converged."""


def iterate(
    step: Callable[[State], State],
    state: State,
    loss: Callable[[State], Array],
    *,
    tol: float,
    max_iterations: int,
    name: str,
    most_rise: float = np.inf,
) -> tuple[State, Iterations]:
    """Repeat a step until the loss hardly changes, or only oscillates between two values."""
    trace = [float(loss(state))]
    reason = (
        f"the loss still changes by more than {tol:g} of its value after {max_iterations} steps"
    )
    converged = False
    with fit_bar(f"fitting {name}") as show:
        for _ in range(max_iterations):
            following = step(state)
            value = float(loss(following))
            if not np.isfinite(value):
                reason = "the loss is no longer finite"
                break
            trace.append(value)
            state = following
            if value > min(trace) + most_rise:
                reason = LOSS_RISES
                break
            last = tol * abs(trace[-2])
            change = min(abs(trace[-2] - value), _over_two(trace))
            if change <= last:
                reason, converged = f"the loss changed by at most {tol:g} of its value", True
                break
            show(change, last)
    if not converged:
        warnings.warn(f"{name}: {reason}", ConvergenceWarning, stacklevel=3)
    return state, Iterations(len(trace) - 1, converged, reason, np.array(trace))


def _over_two(trace: Sequence[float]) -> float:
    """Return the largest change over two steps of the last two losses; inf unless they fall."""
    if len(trace) < 4 or trace[-1] > trace[-2]:
        return np.inf
    return max(abs(trace[-1] - trace[-3]), abs(trace[-2] - trace[-4]))


def squarem_leap(first: Tree, once: Tree, twice: Tree, longest: float) -> tuple[Tree, float]:
    """Return first + 2 α r + α² v for the first step r and its change v, and α = |r| / |v|.

    It is computed with NumPy, as compiling would take longer. Varadhan & Roland 2008.
    """
    first, once, twice = jax.device_get((first, once, twice))
    r = jax.tree.map(np.subtract, once, first)
    v = jax.tree.map(lambda two, one, step: two - one - step, twice, once, r)
    of_r, of_v = (sum(float(np.vdot(x, x)) for x in jax.tree.leaves(step)) for step in (r, v))
    alpha = float(np.clip(np.sqrt(of_r / max(of_v, sys.float_info.min)), 1, longest))
    return jax.tree.map(lambda x, r, v: x + 2 * alpha * r + alpha**2 * v, first, r, v), alpha


def joined(runs: Sequence[Iterations]) -> Iterations:
    """Join successive runs, each continuing the one before."""
    traces = [run.trace[:-1] for run in runs[:-1]] + [runs[-1].trace]
    return runs[-1]._replace(
        iterations=sum(run.iterations for run in runs), trace=np.concatenate(traces)
    )

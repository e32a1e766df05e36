"""cBMM: the 2PL by constrained block minimisation (Qu et al., 2026).

Both kinds of step have the same loss and fixed points. ``step="mm"`` is the paper's Algorithm 1,
which divides each block's score by a bound on its information. ``step="newton"`` divides by the
information itself and gets close to the optimum in an order of magnitude fewer passes over the
data.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.data.stored_cells import StoredCells
from bayesirt.estimators.block_mm import init_mm, mm_step
from bayesirt.estimators.block_newton import init_newton, newton_step
from bayesirt.estimators.cell_sums import CellSums, cut_sums, jitted_cell_sums
from bayesirt.estimators.initial_values import Point, logit_start, to_standard
from bayesirt.estimators.iteration import Iterations, iterate, joined
from bayesirt.estimators.parameter_table import parameter_table
from bayesirt.estimators.standard_errors import block_errors
from bayesirt.estimators.weak_prior import FLAT, WeakPrior
from bayesirt.likelihood.cell_sums import (
    ByRows,
    DenseLayout,
    Layout,
    RowBlocks,
    in_row_blocks,
    layout_of,
)
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.few_shapes import filled_up
from bayesirt.likelihood.host_arrays import host
from bayesirt.likelihood.stored_layout import StoredLayout, stored_layout_of
from bayesirt.point_estimate import PointEstimate
from bayesirt.random_keys import Key, as_key

Start = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


class _Step(NamedTuple):
    """A compiled step with its defaults."""

    init: Callable[..., Any]
    step: Callable[..., Any]
    prior: WeakPrior
    start: Literal["logits", "random"]
    tol: float


_STEPS = {
    "mm": _Step(
        jax.jit(init_mm, static_argnums=1),
        jax.jit(mm_step, static_argnums=1),
        FLAT,
        "random",
        1e-4,
    ),
    "newton": _Step(
        init_newton,
        jax.jit(newton_step, static_argnums=1, static_argnames="dtype"),
        WeakPrior(),
        "logits",
        1e-9,
    ),
}

_COARSE_TOL = 1e-7
"""Tolerance of a first phase for large matrices in 32 bits, which is four times as fast as 64."""

_Phase = tuple[dict[str, Any], float]
"""Options of init and step, and the tolerance up to which they are used."""


def fit_cbmm(
    responses: Responses,
    *,
    step: Literal["mm", "newton"] = "newton",
    prior: WeakPrior | None = None,
    temperature: float = 1.0,
    start: Literal["logits", "random"] | Start | None = None,
    key: Key | None = None,
    tol: float | None = None,
    max_iterations: int = 1000,
) -> PointEstimate:
    """Fit the 2PL by minimising the cross-entropy over abilities and items, with a ≥ 0.

    Parameters
    ----------
    responses : Responses
    step : {"newton", "mm"}
        ``"mm"`` is Algorithm 1 of Qu et al. (2026): random start, no prior, tol 1e-4.
    prior : WeakPrior, optional
        Keeps the optimum finite if an item or subject is all right or all wrong; by default
        `WeakPrior()` for Newton and `FLAT` for MM.
    temperature : float
        σ in p = sigmoid(η/σ); it scales a and d.
    start : {"logits", "random"} or (theta, a, d), optional
        Logits of the row and column means, the paper's random start, or arrays.
    key : jax.random.key or int, optional
        Needed for the random start.
    tol : float, optional
        Stop when the relative change of the loss is at most this.
    max_iterations : int

    Returns
    -------
    PointEstimate
        θ has mean 0 and standard deviation 1; a and d are transformed accordingly.

    Raises
    ------
    ResponseError
        If the responses were left on disk and the step is not Newton's.
    ValueError
        If a random start has no key.

    References
    ----------
    Qu et al. (2026), Algorithm 1, with sums over observed cells weighted by trials.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tri(6, 5)
    >>> fit_cbmm(Responses.from_arrays(answers))["theta"].argmax()
    np.int64(4)
    """
    key = None if key is None else as_key(key)
    chosen = _STEPS[step]
    prior = prior or chosen.prior
    origin = chosen.start if start is None else start
    layout = _layout(responses, step)
    theta, a, d = _start(responses, origin, key)
    if tol is None:
        tol = max(chosen.tol, 4 * float(jnp.finfo(theta.dtype).eps))
    first = theta, a / temperature, d / temperature
    if step == "newton" and isinstance(layout, DenseLayout):
        layout, first = _with_room(layout, first)
    data = layout, LOGIT, prior
    point, run, passes = _descend(chosen, data, first, _phases(layout, tol), max_iterations)
    n, n_items = responses.n_subjects, responses.n_items
    shift, scale = to_standard(np.asarray(point[0])[:n])
    theta, a, d = map(host, point)
    theta, a, d = (theta + shift) / scale, a * scale, d - a * shift
    sums = cut_sums(jitted_cell_sums(layout, LOGIT, theta, a, d, dtype=None), n, n_items)
    point = theta[:n], a[:n_items], d[:n_items]
    settings = {
        "estimator": "cbmm",
        "theta_scale": "sample",
        "step": step,
        "temperature": temperature,
        "tol": tol,
        "start": origin if isinstance(origin, str) else "given",
        "passes": passes,
        **{f"prior_{k}": v for k, v in asdict(prior).items()},
    }
    parameters = _parameters(responses, point, sums, prior, scale, temperature)
    log_likelihood = -float(sums.subject_loss.sum())
    return PointEstimate(parameters, log_likelihood, *run[:3], run.trace, settings)


def _layout(responses: Responses, step: str) -> Layout | RowBlocks | StoredLayout:
    if step == "newton" and isinstance(responses.cells, StoredCells):
        return stored_layout_of(responses.cells)
    layout = layout_of(responses)
    return in_row_blocks(layout) if step == "newton" else layout


def _with_room(layout: DenseLayout, point: Point) -> tuple[DenseLayout, Point]:
    """Pad a small table; the padding starts at θ = a = d = 0, its optimum without answers."""
    filled = filled_up(*layout)
    sizes = (filled.shape[0], filled.shape[1], filled.shape[1])
    theta, a, d = (host(np.pad(x, (0, n - len(x)))) for x, n in zip(point, sizes, strict=True))
    return filled, (theta, a, d)


def _phases(layout: ByRows, tol: float) -> list[_Phase]:
    coarse: _Phase = ({"dtype": jnp.float32}, _COARSE_TOL)
    large = isinstance(layout, RowBlocks | StoredLayout) and tol < _COARSE_TOL
    return [coarse, ({}, tol)] if large else [({}, tol)]


def _descend(
    chosen: _Step,
    data: tuple[Any, ...],
    point: Point,
    phases: list[_Phase],
    max_iterations: int,
) -> tuple[Point, Iterations, int]:
    """Minimise the loss in each phase's precision up to its tolerance; count the passes."""
    runs: list[Iterations] = []
    passes = 0
    for precision, tol in phases:
        state, run = iterate(
            partial(chosen.step, *data, **precision),
            chosen.init(*data, point, **precision),
            lambda state: state.loss,
            tol=tol,
            max_iterations=max_iterations - sum(run.iterations for run in runs),
            name="cbmm",
        )
        runs.append(run)
        point, passes = state.point, passes + int(state.passes)
        if not run.converged:
            break
    return point, joined(runs), passes


def _start(responses: Responses, start: str | Start, key: Array | None) -> Point:
    if not isinstance(start, str):
        theta, a, d = (jnp.asarray(x, float) for x in start)
        return theta, a, d
    if start == "random":
        if key is None:
            raise ValueError("a random start needs key=jax.random.key(seed)")
        n, j = responses.n_subjects, responses.n_items
        keys = jax.random.split(key, 3)
        return (
            jax.random.normal(keys[0], (n,)),
            jnp.exp(jax.random.normal(keys[1], (j,))),
            jax.random.normal(keys[2], (j,)),
        )
    return logit_start(responses)


def _parameters(
    responses: Responses,
    point: Point,
    sums: CellSums,
    prior: WeakPrior,
    scale: float,
    temperature: float,
) -> xr.Dataset:
    """Return the standardised estimate and its errors; the prior is on the unstandardised scale."""
    own_prior = WeakPrior(
        scale**2 * prior.theta_precision, prior.a_precision / scale**2, prior.d_precision
    )
    errors = block_errors(sums, own_prior)
    theta, a, d = point
    return parameter_table(
        responses,
        (theta, temperature * a, temperature * d),
        (errors.theta, temperature * errors.a, temperature * errors.d),
        errors.theta_centre,
    )

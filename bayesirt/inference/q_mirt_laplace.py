"""The Q-matrix model by Laplace's approximation, for what items learn from answers.

All else makes the exact engine's own moves, started at each draw and repeated a few times.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.blocked import BlockedNewton, Position
from bayesirt.inference.laplace import FEW, ApproximationWarning, Samples, in_chains
from bayesirt.inference.moves import population_moves
from bayesirt.inference.options import RunOptions
from bayesirt.inference.q_mirt_approximation import Approximation, draw_abilities
from bayesirt.inference.q_mirt_information import QMirtProblem
from bayesirt.inference.q_mirt_mode import MarginalMode, find_peak
from bayesirt.inference.q_mirt_moves import free_moves, step_of_subjects
from bayesirt.models import QMirt
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words

ROUNDS = 2
"""How often abilities move, given items and correlations, for each draw: a pass over the answers
each."""

_OF_POPULATIONS = 4
"""How often, each time, all else moves that does not look at the answers."""

_SETTLED_AT_ONCE = 16
"""Draws."""

_NODES = 5
"""Least number of nodes of expectations over abilities."""
_MOST_NUMBERS = 1 << 22
"""Held at a time for a batch of draws."""
_COMPILED = 2
"""Batches after which it is known how long one takes."""


def sample_q_mirt_laplace(
    responses: Responses,
    *,
    key: Array,
    model: QMirt,
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
    max_iterations: int = 100,
    tol: float = 2e-2,
    rounds: int = ROUNDS,
) -> Posterior:
    """Draw from an approximation of the Q-matrix model's posterior.

    What answers say of items and correlations, abilities integrated out, is put as a normal density
    around its peak, with the observed information of `bayesirt.inference.q_mirt_information`; with
    the model's own priors it is drawn from by `bayesirt.inference.q_mirt_approximation`. Abilities
    are then normal given all else, and make exact steps of their own; so do all populations, which
    look at no answers. What remains approximate is what items, and correlations, learn from
    answers.

    Tierney & Kadane 1986; Louis 1982.
    """
    options = options or RunOptions()
    init = fit_point(responses, model=model) if init is None else init
    began = time.perf_counter()
    n_nodes = max(_NODES, int(init.settings.get("n_nodes", _NODES)))
    problem = QMirtProblem.of(responses, model, n_nodes)
    peak = find_peak(problem, init, tol=tol, max_iterations=max_iterations)
    few = min(responses.n_subjects, responses.n_items) < FEW
    if few or not peak.observed:
        warnings.warn(
            f"laplace: a normal approximation is rough for {responses.n_subjects} subjects x "
            f"{responses.n_items} items that say so little; sample with the blocked engine",
            ApproximationWarning,
            stacklevel=2,
        )
    n_draws = options.num_chains * options.num_samples
    samples = draw_around(problem, peak, key, n_draws, rounds=rounds, announce=options.announce)
    attributes = {
        "engine": "laplace",
        "approximate": 1,
        "few": int(few),
        "information": "observed" if peak.observed else "mended",
        "iterations": len(peak.steps),
        "converged": int(peak.converged),
        "rounds": rounds,
        "sampling_seconds": time.perf_counter() - began,
    }
    return problem.way.posterior(in_chains(samples, options), {}, responses, init, attributes)


def draw_around(
    problem: QMirtProblem,
    peak: MarginalMode,
    key: Array,
    n_draws: int,
    *,
    rounds: int,
    announce: Callable[[str], None] | None = None,
) -> Samples:
    """Draw items and correlations, abilities given these, then all that answers do not see."""
    keys = jax.random.split(key, n_draws)
    at_once = max(1, _MOST_NUMBERS // (peak.abilities.mean.size + len(peak.score)))
    batches = -(-n_draws // at_once)
    size = -(-n_draws // (batches * _SETTLED_AT_ONCE)) * _SETTLED_AT_ONCE
    batches = -(-n_draws // size)
    parts: list[Samples] = []
    for first in range(0, n_draws, size):
        began = time.perf_counter()
        own = keys[np.minimum(np.arange(first, first + size), n_draws - 1)]
        found = _DRAWN(problem, peak, own, rounds)
        parts.append({k: np.asarray(x)[: n_draws - first] for k, x in found.items()})
        if announce is not None and len(parts) == _COMPILED and batches > _COMPILED:
            left = (time.perf_counter() - began) * (batches - _COMPILED)
            announce(f"drawing: about {in_words(left)} more")
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}


def _draw(problem: QMirtProblem, peak: MarginalMode, keys: Array, rounds: int) -> Position:
    of_sites, of_abilities, of_moves = jnp.moveaxis(jax.vmap(_three)(keys), 1, 0)
    surrogate, way = Approximation.around(problem, peak), problem.way
    sites = jax.vmap(surrogate.draw)(of_sites)
    theta = draw_abilities(problem, peak, jax.vmap(surrogate.away)(sites), of_abilities)
    step_on = partial(step_of_subjects, way, problem.layout, problem.quadrature.dtype)
    sweep = BlockedNewton([*population_moves(way), *free_moves(way)]).sweep

    def settled(start: tuple[Position, Array]) -> Position:
        place, key = start

        def again(round_: Array, place: Position) -> Position:
            step_key, key_ = jax.random.split(jax.random.fold_in(key, round_))
            place = place | {"theta": step_on(step_key, place).theta}

            def settle(time_: Array, place: Position) -> Position:
                return sweep(jax.random.fold_in(key_, time_), place)[0]

            return jax.lax.fori_loop(0, _OF_POPULATIONS, settle, place)

        return way.terms(jax.lax.fori_loop(0, rounds, again, place)).values

    return jax.lax.map(settled, (sites | {"theta": theta}, of_moves), batch_size=_SETTLED_AT_ONCE)


def _three(key: Array) -> Array:
    return jax.random.split(key, 3)


_DRAWN: Any = jax.jit(_draw, static_argnums=3)

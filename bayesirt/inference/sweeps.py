"""Exact draws by blocked Newton-Metropolis: chains of sweeps over any response model."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.estimators.registry import fit_point
from bayesirt.inference.blocked import (
    BlockedNewton,
    BlockedState,
    Position,
    Statistics,
    start_chains,
)
from bayesirt.inference.chains import Length, run_chains
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.enough_draws import within
from bayesirt.inference.moves import moves_of
from bayesirt.inference.options import RunOptions, watched
from bayesirt.inference.room import Room
from bayesirt.inference.two_way import TwoWay
from bayesirt.inference.ways import way_of
from bayesirt.models import ResponseModel, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words

_OF_SWEEP = "sweep "


@dataclass(frozen=True)
class Sweeps:
    """Sweeps over a model as a `bayesirt.inference.chains.Kernel`."""

    way: TwoWay

    def init(self, key: Array, start: Position, data: Any) -> BlockedState:
        """Return the initial state."""
        return self._kernel(data).init(key, 0, start, (), {})

    def advance(self, state: BlockedState, data: Any) -> BlockedState:
        """Return the state after one sweep."""
        return self._kernel(data).sample(state, (), {})

    def collect(self, state: BlockedState) -> dict[str, Array]:
        """Return the sites, and the statistics under prefixed names."""
        return state.position | {f"{_OF_SWEEP}{k}": x for k, x in state.statistics.items()}

    def _kernel(self, data: Any) -> BlockedNewton:
        return BlockedNewton([lambda numbers, sites: _sweep(self.way, data, numbers.key(), sites)])


@partial(jax.jit, static_argnums=0)
def _sweep(way: TwoWay, data: Any, key: Array, sites: Position) -> tuple[Position, Statistics]:
    """Run a sweep; as a jitted function it is traced once for all programs that use it."""
    return BlockedNewton(moves_of(way, data)).sweep(key, sites)


def sample_blocked(
    responses: Responses,
    *,
    key: Array,
    model: ResponseModel | None = None,
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
) -> Posterior:
    """Draw from a model's posterior with blocked Newton-Metropolis.

    A sweep costs four evaluations of the data for any number of parameters. Nothing is tuned, so
    warm-up only lets chains forget their start.

    Gamerman 1997; Qi & Minka 2002. Cells are evaluated in 32 bits; parameters, sums over blocks of
    rows and Metropolis ratios have JAX's default precision.
    """
    model, options = model or TwoPL(), options or RunOptions()
    way = way_of(model, responses)
    init, data = init or fit_point(responses, model=model), way.data(responses, options.mesh)
    room = Room.of(way, data)
    start_key, run_key = jax.random.split(key)
    position = start_chains(start_key, *room.start(way.start(init, data)), options.num_chains)
    kernel = Sweeps(way)
    usual, enough = options.thinning, None
    if options.budget > 0 and not options.together:
        finished = partial(_finished, way, room, init, options.num_samples)
        enough = within(options.budget, usual, finished)
        options = replace(options, thinning=1)
    with watched(responses, model, "blocked", init, key, options) as seen:
        began = time.perf_counter()
        chains = run_chains(
            kernel,
            room.data,
            position,
            key=run_key,
            length=Length(options.num_warmup, options.num_samples, options.thinning, enough),
            watch=seen,
            forecast=seen.announce and partial(_forecast, seen.announce, options, usual),
            mesh=options.mesh,
        )
    seconds = time.perf_counter() - began
    samples, statistics = _draws_and_statistics(way, room, options.num_samples, chains.samples)
    attributes = {
        "engine": "blocked",
        "complete": int(chains.complete),
        "num_warmup": options.num_warmup,
        "thinning": chains.thinning,
        "sampling_seconds": seconds,
    }
    if chains.complete and seen.checkpoint is not None:
        seen.checkpoint.remove()
    return way.posterior(samples, statistics, responses, init, attributes)


@partial(jax.jit, static_argnums=0)
def to_draws(
    way: TwoWay, sites: Position, weights: Mapping[str, Array]
) -> tuple[dict[str, Array], Array]:
    """Return the model's sites and deterministics, and the log prior of the unconstrained sites.

    The log densities of sites in `weights` are multiplied by their weights, element by element.
    """

    def one(sites: Position) -> tuple[dict[str, Array], Array]:
        terms = way.terms(sites)
        each = {name: term * weights.get(name, 1) for name, term in terms.each.items()}
        return terms.values, terms._replace(each=each).total()

    return jax.lax.map(jax.vmap(one), sites)


def _draws_and_statistics(
    way: TwoWay, room: Room, num_samples: int, collected: Samples
) -> tuple[Samples, Samples]:
    sites = {k: x for k, x in collected.items() if not k.startswith(_OF_SWEEP)}
    statistics = {k.removeprefix(_OF_SWEEP): x for k, x in collected.items() if k not in sites}
    samples, log_density = _evaluated(way, room, num_samples, sites)
    for name in [k for k in statistics if k.endswith("log_likelihood")]:
        log_density = log_density + statistics.pop(name)
    return room.there(samples), statistics | {"lp": log_density}


def _evaluated(way: TwoWay, room: Room, num_samples: int, sites: Samples) -> Any:
    """Call `to_draws` with draws padded to `num_samples`, so that it is compiled once."""
    n_draws = len(next(iter(sites.values()))[0])
    if n_draws == num_samples:
        return jax.device_get(to_draws(way, sites, room.weights))
    last = np.minimum(np.arange(num_samples), n_draws - 1)  # pad with the last draw
    filled = {name: x[:, last] for name, x in sites.items()}
    draws = jax.device_get(to_draws(way, filled, room.weights))
    return jax.tree.map(lambda x: x[:, :n_draws], draws)


def _finished(
    way: TwoWay, room: Room, init: PointEstimate, num_samples: int, collected: Samples
) -> Samples:
    return way.finished(_draws_and_statistics(way, room, num_samples, collected)[0], init)[0]


def _forecast(
    announce: Callable[[str], None], options: RunOptions, usual: int, seconds: float
) -> None:
    """Announce the time of the fewest sweeps and, if it is longer, of the usual number."""
    least, most = (
        in_words(seconds * (options.num_warmup + options.num_samples * thinning))
        for thinning in (options.thinning, usual)
    )
    announce(f"about {least}" if least == most else f"about {least}, up to {most} or more")

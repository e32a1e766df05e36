"""Exact draws by blocked Newton-Metropolis: chains of sweeps over any response model."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jaxtyping import Array

from bayesirt.data.responses import Responses
from bayesirt.estimators.choice import fit_point
from bayesirt.inference.blocked import BlockedNewton, BlockedState, Position, start_chains
from bayesirt.inference.chains import run_chains
from bayesirt.inference.checkpoint import Samples
from bayesirt.inference.enough_draws import within
from bayesirt.inference.moves import moves_of
from bayesirt.inference.options import RunOptions, watched
from bayesirt.inference.two_way import TwoWay
from bayesirt.inference.ways import way_of
from bayesirt.models import ResponseModel, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import Posterior
from bayesirt.progress import in_words, least_seconds, rounds_of_chains

_OF_SWEEP = "sweep "


@dataclass(frozen=True)
class Sweeps:
    """Sweeps over a model as a `bayesirt.inference.chains.Kernel`."""

    way: TwoWay

    def init(self, key: Array, start: Position, data: Any) -> BlockedState:
        """Return the state at a start."""
        return BlockedNewton(moves_of(self.way, data)).init(key, 0, start, (), {})

    def advance(self, state: BlockedState, data: Any) -> BlockedState:
        """Return the state after one sweep."""
        return BlockedNewton(moves_of(self.way, data)).sample(state, (), {})

    def collect(self, state: BlockedState) -> dict[str, Array]:
        """Return the sites, and the statistics under names that no site has."""
        return state.position | {f"{_OF_SWEEP}{k}": x for k, x in state.statistics.items()}


def sample_blocked(
    responses: Responses,
    *,
    key: Array,
    model: ResponseModel | None = None,
    init: PointEstimate | None = None,
    options: RunOptions | None = None,
) -> Posterior:
    """Draw from a model's posterior with blocked Newton-Metropolis.

    A sweep costs four evaluations of the data, whatever the number of parameters. Nothing is tuned,
    so chains need only forget their start. They run side by side where JAX has a device for each,
    else vectorised.

    Gamerman 1997; Qi & Minka 2002. Cells are evaluated in 32 bits; parameters, sums over blocks of
    rows and Metropolis ratios have JAX's default precision.
    """
    model, options = model or TwoPL(), options or RunOptions()
    way = way_of(model, responses)
    data, init = way.data(responses, options.mesh), init or fit_point(responses, model=model)
    start_key, run_key = jax.random.split(key)
    position = start_chains(start_key, *way.start(init, data), options.num_chains)
    if options.num_chains == 1:
        position = jax.tree.map(lambda x: x[None], position)
    kernel = Sweeps(way)
    several = options.together or model.loadings(1).n_abilities > 1
    enough = None if several or options.budget <= 0 else within(options.budget)
    with watched(responses, model, "blocked", init, key, options) as seen:
        if seen.announce is not None:
            seen.announce(_forecast(kernel, data, run_key, position, options))
        began = time.perf_counter()
        chains = run_chains(
            kernel,
            data,
            position,
            key=run_key,
            num_warmup=options.num_warmup,
            num_samples=options.num_samples,
            thinning=options.thinning,
            enough=enough,
            progress=seen.progress,
            checkpoint=seen.checkpoint,
            mesh=options.mesh,
        )
    seconds = time.perf_counter() - began
    samples, statistics = _draws_and_statistics(way, chains.samples)
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


def to_draws(way: TwoWay, sites: Position) -> tuple[dict[str, Array], Array]:
    """Return the model's sites and deterministics, and the log prior of the unconstrained sites."""

    def one(sites: Position) -> tuple[dict[str, Array], Array]:
        terms = way.terms(sites)
        return terms.values, terms.total()

    return jax.lax.map(jax.vmap(one), sites)


def _draws_and_statistics(way: TwoWay, collected: Samples) -> tuple[Samples, Samples]:
    sites = {k: x for k, x in collected.items() if not k.startswith(_OF_SWEEP)}
    statistics = {k.removeprefix(_OF_SWEEP): x for k, x in collected.items() if k not in sites}
    samples, log_density = jax.device_get(jax.jit(partial(to_draws, way))(sites))
    for name in [k for k in statistics if k.endswith("log_likelihood")]:
        log_density = log_density + statistics.pop(name)
    return samples, statistics | {"lp": log_density}


def _forecast(kernel: Sweeps, data: Any, key: Array, starts: Position, options: RunOptions) -> str:
    advance = jax.jit(kernel.advance)
    state = kernel.init(key, jax.tree.map(lambda x: x[0], starts), data)
    seconds = least_seconds(lambda: jax.block_until_ready(advance(state, data)))
    rounds = rounds_of_chains(options.num_chains, jax.local_device_count())
    sweeps = (options.num_warmup + options.num_samples * options.thinning) * rounds
    return f"about {in_words(seconds * sweeps)}"

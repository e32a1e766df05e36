"""Chains of blocked sweeps over a model: what the 2PL and LaRT share."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array

from bayesirt.inference.blocked import BlockedNewton, BlockedState, Move, Position, start_chains
from bayesirt.inference.chains import Enough, Progress, run_chains
from bayesirt.inference.checkpoint import Checkpoint, Samples
from bayesirt.inference.two_pl_sites import AnswersPrior
from bayesirt.progress import in_words, least_seconds, rounds_of_chains

_OF_SWEEP = "sweep "


class Sweeps(ABC):
    """Sweeps over a model as a `bayesirt.inference.chains.Kernel`; subclasses name the model.

    They must be hashable, so that equal ones share their compiled code.
    """

    @property
    @abstractmethod
    def prior(self) -> AnswersPrior:
        """The model without data."""

    @abstractmethod
    def moves(self, data: Any) -> list[Move]:
        """Return the moves of one sweep."""

    def init(self, key: Array, start: Position, data: Any) -> BlockedState:
        """Return the state at a start."""
        return BlockedNewton(self.moves(data)).init(key, 0, start, (), {})

    def advance(self, state: BlockedState, data: Any) -> BlockedState:
        """Return the state after one sweep."""
        return BlockedNewton(self.moves(data)).sample(state, (), {})

    def collect(self, state: BlockedState) -> dict[str, Array]:
        """Return the sites, and the statistics under names that no site has."""
        return state.position | {f"{_OF_SWEEP}{k}": x for k, x in state.statistics.items()}


class Swept(NamedTuple):
    """What chains of sweeps brought.

    Attributes
    ----------
    samples : dict of float arrays, shape (chain, draw, ...)
        The model's sites and deterministics.
    statistics : dict of float arrays, shape (chain, draw)
        Shares accepted, and the log density ``lp`` of the unconstrained sites, up to a constant.
    complete : bool
        False if they were interrupted.
    thinning : int
        Sweeps a kept draw in the end.
    seconds : float
    """

    samples: Samples
    statistics: Samples
    complete: bool
    thinning: int
    seconds: float


def run_sweeps(
    kernel: Sweeps,
    data: Any,
    starts: tuple[Mapping[str, ArrayLike], Mapping[str, ArrayLike]],
    *,
    key: Array,
    num_chains: int,
    num_warmup: int,
    num_samples: int,
    thinning: int,
    enough: Enough | None = None,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
    mesh: Mesh | None = None,
) -> Swept:
    """Run chains of sweeps, each from a place of its own.

    Parameters
    ----------
    kernel : Sweeps
    data : pytree of arrays
        What the kernel's moves are made of.
    starts : (centre, width)
        Mean and standard deviation of the starts of each unconstrained site.
    key : jax.random.key
    num_chains, num_warmup, num_samples, thinning : int
        Warm-up sweeps and kept draws of each chain, and sweeps a kept draw.
    enough, progress, announce, checkpoint, mesh
        As `bayesirt.inference.chains.run_chains` and
        `bayesirt.inference.engines.sample_posterior` describe them.

    Returns
    -------
    Swept

    Raises
    ------
    ResponseError
        If the checkpoint is damaged or belongs to another run.
    """
    start_key, run_key = jax.random.split(key)
    position = start_chains(start_key, *starts, num_chains)
    if num_chains == 1:
        position = jax.tree.map(lambda x: x[None], position)
    if announce is not None:
        rounds = rounds_of_chains(num_chains, jax.local_device_count())
        sweeps = (num_warmup + num_samples * thinning) * rounds
        announce(_forecast(kernel, data, run_key, position, sweeps))
    began = time.perf_counter()
    chains = run_chains(
        kernel,
        data,
        position,
        key=run_key,
        num_warmup=num_warmup,
        num_samples=num_samples,
        thinning=thinning,
        enough=enough,
        progress=progress,
        checkpoint=checkpoint,
        mesh=mesh,
    )
    seconds = time.perf_counter() - began
    drawn = _draws_and_statistics(kernel.prior, chains.samples)
    return Swept(*drawn, chains.complete, chains.thinning, seconds)


def to_draws(prior: AnswersPrior, sites: Position) -> tuple[dict[str, Array], Array]:
    """Return the model's sites and deterministics, and the log prior of the unconstrained sites.

    Parameters
    ----------
    prior : AnswersPrior
    sites : dict of float arrays, shape (chain, draw, ...)
        Unconstrained.

    Returns
    -------
    draws : dict of float arrays, shape (chain, draw, ...)
    log_prior : float array, shape (chain, draw)
    """

    def one(sites: Position) -> tuple[dict[str, Array], Array]:
        terms = prior.terms(sites)
        return terms.values, terms.total()

    return jax.lax.map(jax.vmap(one), sites)


def _draws_and_statistics(prior: AnswersPrior, collected: Samples) -> tuple[Samples, Samples]:
    sites = {k: x for k, x in collected.items() if not k.startswith(_OF_SWEEP)}
    statistics = {k.removeprefix(_OF_SWEEP): x for k, x in collected.items() if k not in sites}
    samples, log_density = jax.device_get(jax.jit(partial(to_draws, prior))(sites))
    for name in [k for k in statistics if k.endswith("log_likelihood")]:
        log_density = log_density + statistics.pop(name)
    return samples, statistics | {"lp": log_density}


def _forecast(kernel: Sweeps, data: Any, key: Array, starts: Position, sweeps: float) -> str:
    advance = jax.jit(kernel.advance)
    state = kernel.init(key, jax.tree.map(lambda x: x[0], starts), data)
    seconds = least_seconds(lambda: jax.block_until_ready(advance(state, data)))
    return f"about {in_words(seconds * sweeps)}"

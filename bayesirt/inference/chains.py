"""Markov chains of any kernel, run in blocks so that they can be inspected, saved or stopped.

On CPUs each chain has a thread, as XLA computes outside of Python's lock. On other devices, where
few large operations are faster than many small ones, and on a mesh, chains are vectorised.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from itertools import count
from math import ceil
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from bayesirt.errors import ResponseError
from bayesirt.inference.checkpoint import Checkpoint, Progressed, Samples
from bayesirt.inference.key_bits import from_bits, to_bits
from bayesirt.inference.row_shards import everywhere, put_everywhere, spans_processes
from bayesirt.kept_programs import kept
from bayesirt.progress import least_seconds
from bayesirt.threads import at_once

BLOCK = 50
"""Kept draws, or warm-up steps, per block; the checkpoint is written after each block."""
_TRIED = 5
"""Steps that are timed for a forecast."""

Progress = Callable[[int, int], None]
Enough = Callable[[Samples, int], bool]
"""(draws of shape (chain, draw, ...), steps per draw) → whether chains may end. It is called after
half of the draws and each further eighth, with 0 for the steps, and then with all draws."""


class Kernel(Hashable, Protocol):
    """One step of a Markov chain; equal kernels share their compiled code.

    The data are an argument, not a constant, so that other data of the same shape need no
    recompilation.
    """

    def init(self, key: Array, start: Any, data: Any) -> Any:
        """Return the initial state."""
        ...

    def advance(self, state: Any, data: Any) -> Any:
        """Return the next state."""
        ...

    def collect(self, state: Any) -> dict[str, Array]:
        """Return the values of a state to keep."""
        ...


class Chains(NamedTuple):
    """Result of running chains."""

    samples: Samples  # shape (chain, draw, ...). The values that the kernel collects.
    complete: bool  # False if interrupted, with fewer draws than requested.
    thinning: int  # Final number of steps per kept draw.


class Length(NamedTuple):
    """Length of chains."""

    num_warmup: int
    num_samples: int
    thinning: int = 1  # Steps per kept draw.
    enough: Enough | None = None  # Stopping rule; by default chains end after `num_samples` draws.

    def steps_after(self, rounds: int) -> int:
        """Return the total number of steps after this many further rounds."""
        again = (self.num_samples // 2) * (2 ** (rounds + 1) - 2)
        return self.num_warmup + self.thinning * (self.num_samples + again)

    @property
    def early(self) -> set[int]:
        """Steps after half of the draws and each further eighth, in whole blocks."""
        blocks = (ceil(share / 8 * self.num_samples / BLOCK) for share in range(4, 8))
        return {self.num_warmup + self.thinning * BLOCK * n for n in blocks}


class Watch(NamedTuple):
    """Callbacks and checkpoint of running chains."""

    progress: Progress | None = None  # Called with steps done and total steps.
    checkpoint: Checkpoint | None = None
    # Not used with several processes: a forecast needs all of them, and some may have no callback.
    announce: Callable[[str], None] | None = None


def run_chains(
    kernel: Kernel,
    data: Any,
    starts: Any,
    *,
    key: Array,
    length: Length,
    watch: Watch | None = None,
    forecast: Callable[[float], None] | None = None,
    mesh: Mesh | None = None,
) -> Chains:
    """Run one chain from each start.

    `forecast` is called first, with the seconds that one step of all chains takes.
    """
    num_warmup, num_samples, thinning, enough = length
    progress, checkpoint, _ = watch or Watch()
    state, block = _begun(kernel, data, starts, key, mesh)
    if checkpoint is not None:
        state = _loaded(checkpoint, state, mesh)
    _tell_speed(forecast, partial(block, state.chain, data, 1, _TRIED))

    rounds = next(r for r in count() if state.steps <= length.steps_after(r))
    total, complete, tell = length.steps_after(rounds), True, progress or (lambda *_: None)
    tell(state.steps, total)  # compiling a block may take longer than running it
    try:
        while True:
            early = enough is not None and state.steps < total and state.steps in length.early
            if early or state.steps >= total:
                draws = _joined(state.kept, num_samples)
                if enough is None or enough(draws, 0 if early else thinning * 2**rounds):
                    tell(total, total)
                    break
            if state.steps >= total:
                rounds += 1
                total = length.steps_after(rounds)
            warming = state.steps < num_warmup
            stride = 1 if warming else thinning * 2**rounds
            n_remaining = (num_warmup if warming else total) - state.steps
            size = min(BLOCK, n_remaining // stride)
            chain, collected = block(state.chain, data, size, stride)
            new_draws = [] if warming else [_first_of(collected, size)]
            state = Progressed(chain, state.steps + size * stride, [*state.kept, *new_draws])
            if checkpoint is not None:
                checkpoint.save(state)
            tell(state.steps, total)
    except KeyboardInterrupt:
        if not state.kept or spans_processes(mesh):
            raise
        complete = False
    return Chains(_joined(state.kept, num_samples), complete, thinning * 2**rounds)


def _begun(
    kernel: Kernel, data: Any, starts: Any, key: Array, mesh: Mesh | None
) -> tuple[Progressed, Callable[..., Any]]:
    """Return the initial states of chains and a function that runs a block of steps."""
    keys = jax.random.split(key, len(jax.tree.leaves(starts)[0]))
    if in_threads(mesh):
        # Split on the host, where no program has to be compiled for it.
        bits, values = jax.device_get((to_bits(keys), starts))
        states = [
            _FIRST(kernel, from_bits(own, key), jax.tree.map(itemgetter(k), values), data)
            for k, own in enumerate(bits)
        ]
        return Progressed(states, 0, []), partial(_blocks, kernel)
    first, block = _vectorised(kernel, mesh)
    keys, starts = put_everywhere((keys, starts), mesh)
    return Progressed(first(keys, starts, data), 0, []), block


def in_threads(mesh: Mesh | None) -> bool:
    """Return whether each chain has a thread."""
    return mesh is None and jax.default_backend() == "cpu"


def _blocks(
    kernel: Kernel, states: Sequence[Any], data: Any, size: int, stride: int
) -> tuple[list[Any], Samples]:
    """Run a block of each chain in a thread."""

    def one(state: Any) -> tuple[Any, dict[str, Array]]:
        return jax.block_until_ready(_BLOCK(kernel, state, data, size, stride))

    _BLOCK(kernel, states[0], data, 0, 1)  # compile it once, before all threads would
    states, collected = zip(*at_once([partial(one, state) for state in states]), strict=True)
    return list(states), {name: np.stack([x[name] for x in collected]) for name in collected[0]}


def _first_of(collected: dict[str, Array], size: int) -> Samples:
    return {k: np.array(x[:, :size]) for k, x in jax.device_get(collected).items()}


def _tell_speed(forecast: Callable[[float], None] | None, some: Callable[[], Any]) -> None:
    if forecast is not None:
        forecast(least_seconds(lambda: jax.block_until_ready(some()), tries=2) / _TRIED)


def _joined(kept: list[Samples], num_samples: int) -> Samples:
    """Return the draws of all blocks, thinned to even spacing, as later rounds are thinner."""
    joined = {k: np.concatenate([part[k] for part in kept], axis=1) for k in kept[0]}
    n_draws = len(next(iter(joined.values()))[0])
    n_extra, half = max(0, n_draws - num_samples), num_samples // 2
    rounds = -(-n_extra // half) if n_extra else 0
    own_round = -(-np.maximum(np.arange(n_draws) + 1 - num_samples, 0) // max(half, 1))
    lags = np.where(own_round > 0, num_samples + half * own_round, num_samples) - np.arange(n_draws)
    keep = np.flatnonzero((lags - 1) % 2 ** (rounds - own_round) == 0)[-num_samples:]
    return {k: x[:, keep] for k, x in joined.items()} if rounds else joined


def _loaded(checkpoint: Checkpoint, beginning: Progressed, mesh: Mesh | None) -> Progressed:
    state = checkpoint.load(beginning)
    if int(put_everywhere(np.array(state.steps), mesh)) != state.steps:
        raise ResponseError(
            f"checkpoint {str(checkpoint.folder)!r} differs between processes; use a folder that "
            f"all of them share"
        )
    return state._replace(chain=put_everywhere(state.chain, mesh))


@lru_cache(maxsize=16)
def _vectorised(kernel: Kernel, mesh: Mesh | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return compiled functions for the first states and for a block of steps of all chains."""
    compiled = partial(jax.jit, out_shardings=None if mesh is None else everywhere(mesh))
    return (
        compiled(jax.vmap(kernel.init, in_axes=(0, 0, None))),
        compiled(jax.vmap(partial(_block, kernel), in_axes=(0, None, None, None))),
    )


def _first_state(kernel: Kernel, key: Array, start: Any, data: Any) -> Any:
    return kernel.init(key, start, data)


def _block(
    kernel: Kernel, state: Any, data: Any, size: Array, stride: Array
) -> tuple[Any, dict[str, Array]]:
    """Return a chain's state after a block of steps, and the values collected."""
    shapes = jax.eval_shape(kernel.collect, state)
    empty = {k: jnp.zeros((BLOCK, *x.shape), x.dtype) for k, x in shapes.items()}

    def keep(k: Array, carry: tuple[Any, dict[str, Array]]) -> tuple[Any, dict[str, Array]]:
        state, collection = carry
        state = jax.lax.fori_loop(0, stride, lambda _, s: kernel.advance(s, data), state)
        collected = kernel.collect(state)
        return state, {name: x.at[k].set(collected[name]) for name, x in collection.items()}

    return jax.lax.fori_loop(0, size, keep, (state, empty))


_FIRST, _BLOCK = kept(_first_state, constants=1), kept(_block, constants=1)

"""Blocked Newton-Metropolis as a NumPyro kernel that updates block after block.

This module does not depend on a model. A model provides its moves, built from the steps of
`bayesirt.inference.block_steps`, and `BlockedNewton` applies them as one sweep.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array
from numpy.typing import NDArray
from numpyro.infer.mcmc import MCMCKernel

from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.random_keys import host_random

_PER_VALUE = 2
"""Random numbers drawn at a time for each value of the position; more are drawn if needed."""

Position = dict[str, Array]
Statistics = dict[str, Array]
Move = Callable[[RandomNumbers, Position], tuple[Position, Statistics]]


class BlockedState(NamedTuple):
    """State of a chain."""

    position: Position  # The model's unconstrained sites.
    # Statistics of the last sweep's moves, such as acceptance rates.
    statistics: Statistics
    rng_key: Array


class BlockedNewton(MCMCKernel):  # type: ignore[misc]
    """A NumPyro kernel that applies moves one after another: a sweep."""

    sample_field = "position"

    def __init__(self, moves: Sequence[Move]) -> None:
        self._moves = tuple(moves)

    def init(
        self,
        rng_key: Array,
        num_warmup: int,  # noqa: ARG002
        init_params: Position,
        model_args: Any,  # noqa: ARG002
        model_kwargs: Any,  # noqa: ARG002
    ) -> BlockedState:
        """Return the initial state; warm-up adapts nothing and only lets the chain forget it."""
        expected = jax.eval_shape(self._over_chains(rng_key), rng_key, init_params)
        statistics = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), expected[1])
        position = jax.tree.map(lambda x, s: jnp.asarray(x, s.dtype), init_params, expected[0])
        return BlockedState(position, statistics, rng_key)

    def sample(
        self,
        state: BlockedState,
        model_args: Any,  # noqa: ARG002
        model_kwargs: Any,  # noqa: ARG002
    ) -> BlockedState:
        """Return the state after one sweep."""
        sweep = self._over_chains(state.rng_key)
        split = jax.random.split if state.rng_key.ndim == 0 else jax.vmap(jax.random.split)
        keys = split(state.rng_key)
        position, statistics = sweep(keys[..., 0], state.position)
        return BlockedState(position, statistics, keys[..., 1])

    def get_diagnostics_str(self, state: BlockedState) -> str:
        """Return the acceptance rate of each block, for the progress bar."""
        parts = (
            f"{name.removeprefix('acceptance_')} {float(jnp.mean(value)):.2f}"
            for name, value in state.statistics.items()
            if name.startswith("acceptance_")
        )
        return "accepted: " + ", ".join(parts)

    def sweep(self, key: Array, position: Position) -> tuple[Position, Statistics]:
        """Apply every move once to one chain."""
        at_once = _PER_VALUE * sum(x.size for x in position.values())
        return moved_by(self._moves, RandomNumbers(key, at_once), position)

    def _over_chains(self, rng_key: Array) -> Callable[..., tuple[Position, Statistics]]:
        return self.sweep if rng_key.ndim == 0 else jax.vmap(self.sweep)


def moved_by(
    moves: Sequence[Move], numbers: RandomNumbers, position: Position
) -> tuple[Position, Statistics]:
    """Apply moves one after another; return the new position and all their statistics."""
    statistics: Statistics = {}
    for move in moves:
        position, move_statistics = move(numbers, position)
        statistics |= move_statistics
    return position, statistics


def start_chains(
    key: Array, centre: Mapping[str, ArrayLike], width: Mapping[str, ArrayLike], num_chains: int
) -> dict[str, NDArray[np.floating]]:
    """Draw starts around a centre, with a leading axis of chains."""
    random, dtype = host_random(key), jnp.result_type(float)
    noise = {x: random.standard_normal((num_chains, *np.shape(centre[x]))) for x in sorted(centre)}
    spread = {x: np.asarray(width[x]) * noise[x] for x in centre}
    return {x: np.asarray(np.asarray(centre[x]) + spread[x], dtype) for x in centre}

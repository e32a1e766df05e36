"""Trajectories of Hamiltonian dynamics, one Metropolis decision each."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bayesirt.inference.block_steps import log_uniform


class Trajectory(NamedTuple):
    """Where a trajectory led."""

    position: Float[Array, " dim"]  # Its end, or its start where that was refused.
    accepted: Bool[Array, ""]


def follow(
    key: Array,
    here: Float[Array, " dim"],
    log_density: Callable[[Array], Array],
    *,
    step: float | Array,
    n_steps: int,
) -> Trajectory:
    """Follow one trajectory with unit masses: exact for the density.

    Duane et al. 1987; Neal 2011.
    """
    ascend = jax.value_and_grad(log_density)
    step_key, momentum_key, accept_key = jax.random.split(key, 3)
    size = step * jax.random.uniform(step_key, (), here.dtype, 0.5, 1.0)
    momentum = jax.random.normal(momentum_key, here.shape, here.dtype)
    before, slope = ascend(here)

    def leap(_: Array | int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        place, momentum, _, slope = state
        momentum += size / 2 * slope
        place = place + size * momentum
        value, slope = ascend(place)
        return place, momentum + size / 2 * slope, value, slope

    start = (here, momentum, before, slope)
    there, arrived, after, _ = jax.lax.fori_loop(0, n_steps, leap, start)
    ratio = after - before + ((momentum**2).sum() - (arrived**2).sum()) / 2
    accepted = log_uniform(accept_key, ratio) < ratio
    return Trajectory(jnp.where(accepted, there, here), accepted)

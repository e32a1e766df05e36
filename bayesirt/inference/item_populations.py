"""Draws of the means and spreads of further item parameters, given the parameters' values.

The normal approximation fixes each spread at its estimate. These few numbers depend on each draw
only through sums over its items.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.inference.block_steps import log_concave_move
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.models import ResponseModel

ROUNDS = 10


def draw_item_populations(
    model: ResponseModel, values: Mapping[str, Array], key: Array
) -> dict[str, Float[Array, " draw"]]:
    """Draw μ and σ of each site given its unconstrained values, shape (draw, item)."""
    draws = {}
    for k, (name, x) in enumerate(values.items()):
        of_mean, of_spread = (model.prior_of(f"{kind}_{name}") for kind in ("mu", "sigma"))
        centre, sd = float(of_mean.loc), float(of_mean.scale)
        learned = of_spread is not None
        scale = float(of_spread.scale) if learned else model.usual[name][1]
        site_key = jax.random.fold_in(key, k)
        mu, sigma = _drawn(x, site_key, (centre, sd, scale), learned=learned)
        draws[f"mu_{name}"] = mu
        if learned:
            draws[f"sigma_{name}"] = sigma
    return draws


@partial(jax.jit, static_argnames="learned")
def _drawn(
    x: Float[Array, "draw item"], key: Array, prior: tuple[float, ...], *, learned: bool
) -> tuple[Array, Array]:
    """Draw μ given σ and σ given μ in turn; priors μ ~ N(centre, sd), σ ~ HalfNormal(scale)."""
    (centre, sd, scale), n = prior, x.shape[1]
    mean, squares = x.mean(1), n * x.var(1)
    start = 0.5 * jnp.log(squares / n + 1e-3) if learned else 0 * mean + jnp.log(scale)

    def again(round_: Array, place: tuple[Array, Array]) -> tuple[Array, Array]:
        numbers = RandomNumbers(jax.random.fold_in(key, round_))
        precision = n * jnp.exp(-2 * place[1]) + sd**-2
        expected = (n * jnp.exp(-2 * place[1]) * mean + centre / sd**2) / precision
        mu = expected + numbers.normal(mean.shape, x.dtype) / jnp.sqrt(precision)
        if not learned:
            return mu, place[1]
        scatter = squares + n * (mean - mu) ** 2

        def log_density(t: Array) -> Array:
            log_sigma = place[1] + t
            spread = jnp.exp(2 * log_sigma)
            return (1 - n) * log_sigma - scatter / (2 * spread) - spread / (2 * scale**2)

        t, _ = log_concave_move(numbers, log_density, 0.5 * jnp.log(scatter / n) - place[1])
        return mu, place[1] + t

    mu, log_sigma = jax.lax.fori_loop(0, ROUNDS, again, (mean, start))
    return mu, jnp.exp(log_sigma)

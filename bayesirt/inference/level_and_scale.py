"""Redraws of level, unit and item population for draws from a normal approximation.

A normal approximation of a θ + d is accurate. Along θ + c with d - a c, and s θ with a / s, the
posterior depends only on the priors and is not normal; and the approximation fixes the items'
spreads at their estimates. So these few numbers are redrawn for each draw, from sums over subjects
and items.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators.cluster_shares import Products
from bayesirt.inference.block_steps import log_concave_move, normal_draw
from bayesirt.inference.random_numbers import RandomNumbers
from bayesirt.inference.site_terms import site_terms
from bayesirt.models import Priors
from bayesirt.models.two_pl import hierarchical_items

Samples = dict[str, NDArray[np.floating]]
Numbers = dict[str, Float[Array, " draw"]]

ROUNDS = 20
_NORMAL = ("c", "centre_a", "centre_d", "lean")
_LOG_CONCAVE = ("log_s", "log_spread_a", "log_spread_d")


class Moments(NamedTuple):
    """Moments of each draw's subjects and items, on which the priors depend."""

    n_subjects: int
    n_items: int
    # shape (draw,). Sums over subjects, weighted by the inverse covariance if there are clusters.
    theta: Array
    theta_square: Array
    one: Array
    # shape (draw,). Means over items of log slopes (or free slopes), intercepts and slopes.
    u: Array
    d: Array
    a: Array
    # shape (draw,). Sums over items of squares and products, about the means.
    uu: Array
    dd: Array
    aa: Array
    ad: Array


def redraw_level_and_scale(
    samples: Samples,
    priors: Priors,
    key: Array,
    *,
    products: Products | None = None,
) -> Samples:
    """Redraw level, unit and population of each draw; a θ + d does not change.

    `products` are the sums over abilities if there are clusters.
    """
    free = priors.slopes == "free"
    seen = _moments(samples, products, free=free)
    numbers = _run(priors, seen, key)
    population = {k: np.asarray(x) for k, x in _hyper(numbers, seen, free=free).items()}
    dtype = samples["theta"].dtype
    s, c = (np.asarray(x, dtype)[:, None] for x in (jnp.exp(numbers["log_s"]), numbers["c"]))
    a = samples["a"] / s
    d = samples["d"] - a * c
    moved = {"theta": s * samples["theta"] + c, "a": a, "d": d, "b": -d / a}
    spreads = {f"sigma_{x}": np.exp(population[f"sigma_{x}"]) for x in ("a", "d")}
    return moved | {k: x.astype(dtype) for k, x in (population | spreads).items()}


def _moments(samples: Samples, products: Products | None = None, *, free: bool) -> Moments:
    theta, a, d = (samples[name] for name in ("theta", "a", "d"))
    u = a if free else np.log(a)
    means = [x.mean(1, dtype=np.float64) for x in (u, d, a)]
    about_u, about_d, about_a = (x - m[:, None] for x, m in zip((u, d, a), means, strict=True))

    def product(x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.einsum("sj,sj->s", x, y, dtype=np.float64)

    pairs = ((about_u,) * 2, (about_d,) * 2, (about_a,) * 2, (about_a, about_d))
    if products is None:
        one = np.full(len(theta), theta.shape[1], np.float64)
        products = Products(
            *map(jnp.asarray, (product(theta, theta), theta.sum(1, dtype=np.float64), one))
        )
    sums = [products.sums, products.squares, products.ones, *means]
    arrays = (jnp.asarray(x) for x in [*sums, *(product(*pair) for pair in pairs)])
    return Moments(theta.shape[1], a.shape[1], *arrays)


def _hyper(numbers: Numbers, seen: Moments, *, free: bool) -> Numbers:
    """Return the population's unconstrained sites."""
    s = jnp.exp(numbers["log_s"])
    mu_a, sigma_a = numbers["centre_a"] - numbers["log_s"], numbers["log_spread_a"]
    if free:
        mu_a, sigma_a = numbers["centre_a"] / s, sigma_a - numbers["log_s"]
    return {
        "mu_a": mu_a,
        "sigma_a": sigma_a,
        "mu_d": numbers["centre_d"] + numbers["lean"] * seen.a,
        "sigma_d": numbers["log_spread_d"],
        "mu_b": numbers["c"] + s * numbers["lean"],
    }


def log_density(priors: Priors, seen: Moments, numbers: Numbers) -> Float[Array, " draw"]:
    """Return the log density of the seven numbers of each draw, up to a constant.

    With θ' = s θ + c, a' = a / s, d' = d - a' c and m = (μ_b - c) / s, d' - (μ_d - μ_b a') is d -
    μ_d + m a: priors of items depend on s and c only through those of μ_a and μ_b. The volume
    grows as sᴺ: the factor s from μ_b = c + s m cancels with that of the shift, whose unit grows
    with θ'.
    """
    free = priors.slopes == "free"
    population = _hyper(numbers, seen, free=free)
    anyone = {name: jnp.zeros(1) for name in ("a", "d")}

    def of_population(sites: Numbers) -> Array:
        each = site_terms(lambda: hierarchical_items(1, priors), anyone | sites).each
        return sum((each[name] for name in sites), jnp.zeros(()))

    s, c, lean = jnp.exp(numbers["log_s"]), numbers["c"], numbers["lean"]
    n, n_items = seen.n_subjects, seen.n_items
    growth = n * numbers["log_s"] - (numbers["log_s"] if free else 0)
    of_theta = -0.5 * (s**2 * seen.theta_square + 2 * s * c * seen.theta + seen.one * c**2)
    squares_a = seen.uu + n_items * (seen.u - numbers["centre_a"]) ** 2
    squares_d = seen.dd + n_items * (seen.d - numbers["centre_d"]) ** 2
    squares_d += 2 * lean * seen.ad + lean**2 * seen.aa
    value = growth + of_theta + jax.vmap(of_population)(population)
    for squares, name in ((squares_a, "log_spread_a"), (squares_d, "log_spread_d")):
        value += -n_items * numbers[name] - 0.5 * jnp.exp(-2 * numbers[name]) * squares
    return value


@partial(jax.jit, static_argnums=0)
def _run(priors: Priors, seen: Moments, key: Array) -> Numbers:
    """Repeat steps of all numbers, starting from moment estimates."""
    lean = -seen.ad / (seen.aa + 1e-6)
    sd = [0.5 * jnp.log(x / seen.n_items + 1e-3) for x in (seen.uu, seen.dd + lean * seen.ad)]
    zero = jnp.zeros_like(seen.theta)
    origin = {
        "c": zero, "log_s": zero, "lean": lean, "centre_a": seen.u, "centre_d": seen.d,
        "log_spread_a": sd[0], "log_spread_d": sd[1],
    }  # fmt: skip
    keys = jax.random.split(key, ROUNDS)

    def step(round_: Array, numbers: Numbers) -> Numbers:
        for k, name in enumerate([*_NORMAL, *_LOG_CONCAVE]):
            own, value = RandomNumbers(jax.random.fold_in(keys[round_], k)), numbers[name]

            def along(t: Array, name: str = name, numbers: Numbers = numbers) -> Array:
                return log_density(priors, seen, numbers | {name: numbers[name] + t})

            if name in _NORMAL:
                t = normal_draw(own, along, zero)
            else:
                t, _ = log_concave_move(own, along, origin[name] - value)
            numbers = numbers | {name: value + t}
        return numbers

    return jax.lax.fori_loop(0, ROUNDS, step, origin)

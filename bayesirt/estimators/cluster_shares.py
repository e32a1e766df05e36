"""The share of the variance of normally distributed abilities that is between clusters.

An ability is the sum of its cluster's γ ~ N(0, κ) and an individual part N(0, 1 - κ). With γ
integrated out, the density of κ depends on sums over clusters only.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

_LOGITS = (-12.0, 12.0, 321)
"""Grid of the logits of shares: first, last, number of points."""
_APART = (_LOGITS[1] - _LOGITS[0]) / (_LOGITS[2] - 1)


class Products(NamedTuple):
    """Quadratic forms of abilities and ones in the abilities' inverse covariance, for each draw."""

    squares: Float[Array, " draw"]  # θᵀ Σ⁻¹ θ
    sums: Float[Array, " draw"]  # 1ᵀ Σ⁻¹ θ
    ones: Float[Array, " draw"]  # 1ᵀ Σ⁻¹ 1


def share_density(
    codes: Int[ArrayLike, " subject"], n_clusters: int, theta: Float[Array, "*ability subject"]
) -> Callable[[Array], Array]:
    """Return the log density of logit κ given θ, with the clusters' abilities integrated out.

    Several abilities are independent. The θ of a cluster of n subjects are normal with variance 1
    and covariance κ: their mean has variance κ + (1 - κ)/n, and their n - 1 contrasts have variance
    1 - κ.
    """
    codes = jnp.asarray(codes)
    n, sums = _by_cluster(theta, codes, n_clusters)
    mean = sums / n
    within = jnp.sum((theta - mean[..., codes]) ** 2)
    n_within = theta.size - mean.size

    def log_density(logit: Array) -> Array:
        log_rest = jax.nn.log_sigmoid(-logit)
        of_mean = jax.nn.sigmoid(logit) + jnp.exp(log_rest) / n
        means = -0.5 * jnp.sum(jnp.log(of_mean) + mean**2 / of_mean)
        contrasts = -0.5 * (n_within * log_rest + within * jnp.exp(-log_rest))
        return means + contrasts + jax.nn.log_sigmoid(logit) + log_rest

    return log_density


@partial(jax.jit, static_argnames="n_clusters")
def expected_share(
    values: Float[Array, " subject"],
    noise: Float[Array, " subject"],
    cluster: Int[Array, " subject"],
    n_clusters: int,
) -> Float[Array, ""]:
    """Return the posterior mean of the share given abilities with noise of known variance."""

    def log_density(share: Array) -> Array:
        weight = 1 / (1 - share + noise)
        total = jax.ops.segment_sum(weight, cluster, n_clusters)
        pulled = jax.ops.segment_sum(weight * values, cluster, n_clusters)
        grown = 1 + share * total
        volume = jnp.log(weight).sum() - jnp.log(grown).sum()
        return (volume - (weight * values**2).sum() + share * (pulled**2 / grown).sum()) / 2

    shares = jax.nn.sigmoid(jnp.linspace(*_LOGITS))
    log_weights = jax.lax.map(log_density, shares) + jnp.log(shares) + jnp.log1p(-shares)
    return jax.nn.softmax(log_weights) @ shares


@partial(jax.jit, static_argnames="n_clusters")
def draw_shares(
    theta: Float[Array, "draw subject"],
    cluster: Int[Array, " subject"],
    n_clusters: int,
    key: Array,
) -> Float[Array, " draw"]:
    """Draw a share given the abilities of each draw, approximately."""

    def one(given: tuple[Array, Array]) -> Array:
        return near_share(given[0], share_density(cluster, n_clusters, given[1]))[0]

    return jax.nn.sigmoid(jax.lax.map(one, (jax.random.split(key, len(theta)), theta)))


def near_share(
    key: Array, log_density: Callable[[Array], Array]
) -> tuple[Float[Array, ""], Callable[[Array], Array]]:
    """Draw a logit from a piecewise constant density on the grid; also return its log density."""
    point_key, between_key = jax.random.split(key)
    logits = jnp.linspace(*_LOGITS)
    heights = jax.vmap(log_density)(logits)
    between = _APART * jax.random.uniform(between_key, (), logits.dtype, -0.5, 0.5)
    logit = logits[jax.random.categorical(point_key, heights)] + between

    def drawn_by(logit: Array) -> Array:
        point = jnp.round((logit - _LOGITS[0]) / _APART).astype(int)
        return heights[jnp.clip(point, 0, len(heights) - 1)]

    return logit, drawn_by


@partial(jax.jit, static_argnames="n_clusters")
def draw_clusters_given(
    theta: Float[Array, "draw subject"],
    share: Float[Array, " draw"],
    cluster: Int[Array, " subject"],
    n_clusters: int,
    key: Array,
) -> Float[Array, "draw cluster"]:
    """Draw the abilities of clusters given those of subjects."""
    size, sums = _by_cluster(theta, cluster, n_clusters)
    share = share[:, None]
    precision = size / (1 - share) + 1 / share
    noise = jax.random.normal(key, precision.shape, theta.dtype)
    return sums / (1 - share) / precision + noise / jnp.sqrt(precision)


@partial(jax.jit, static_argnames="n_clusters")
def products(
    theta: Float[Array, "draw subject"],
    share: Float[Array, " draw"],
    cluster: Int[Array, " subject"],
    n_clusters: int,
) -> Products:
    """Return the quadratic forms that occur in the prior of all abilities."""
    size, sums = _by_cluster(theta, cluster, n_clusters)
    precision = 1 / (1 - share[:, None] + size * share[:, None])
    shared = (share[:, None] * precision * sums**2).sum(1)
    squares = ((theta**2).sum(1) - shared) / (1 - share)
    return Products(squares, (precision * sums).sum(1), (precision * size).sum(1))


def _by_cluster(theta: Array, cluster: Array, n_clusters: int) -> tuple[Array, Array]:
    """Return the number of subjects in each cluster, and their sums of abilities in each draw."""
    size = jnp.bincount(cluster, length=n_clusters)
    return size, jax.ops.segment_sum(theta.T, cluster, n_clusters).T

"""Each subject's ability integrated out, by nodes around where its own answers put it."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.likelihood.cell_sums import ByRows, Layout, in_row_blocks
from bayesirt.likelihood.family import Family

_MODE_STEPS = 2
_FARTHEST = 2.0
_BLOCK_CELLS = 1 << 15
"""Cells of a block of rows, each of which is evaluated at every node."""


class Abilities(NamedTuple):
    """A normal distribution for each ability, before its answers are seen."""

    mean: Float[Array, " subject"]
    variance: Float[Array, " subject"]


class AbilityPosteriors(NamedTuple):
    """What each subject's answers, given items, say of its ability."""

    log_likelihood: Float[Array, " subject"]  # log ∫ p(answers | θ) p(θ) dθ.
    mode: Float[Array, " subject"]
    mean: Float[Array, " subject"]
    variance: Float[Array, " subject"]
    scale: Float[Array, " subject"]  # 1/√curvature at the mode: nodes lie at mode + scale x.
    # Log posterior density at the nodes, up to the same constant everywhere.
    log_density: Float[Array, "subject node"]


class ExpectedItemSums(NamedTuple):
    """Expectations over the abilities' posteriors of what the cells say of each item."""

    score: Float[Array, "2 item"]  # Of (a, d): by Fisher's identity the marginal likelihood's own.
    information: Float[Array, "3 item"]  # aa, ad and dd, as if abilities were seen.


def integrate_abilities(
    layout: ByRows,
    family: Family,
    items: tuple[Float[Array, " item"], Float[Array, " item"]],
    before: Abilities,
    near: Float[Array, " subject"],
    *,
    n_nodes: int,
    dtype: DTypeLike,
) -> tuple[AbilityPosteriors, ExpectedItemSums]:
    """Integrate abilities out by adaptive Gauss-Hermite quadrature, one block of rows at a time.

    Liu & Pierce 1994.
    """
    function = partial(_integrate_rows, family, n_nodes, dtype)

    def in_blocks(layout: Layout, rows: object, *others: Array) -> tuple[object, object]:
        return in_row_blocks(layout, _BLOCK_CELLS).by_rows(function, rows, *others)

    posteriors, sums = layout.by_rows(in_blocks, (before, near), *items)
    return posteriors, sums


def gauss_hermite(n_nodes: int, dtype: DTypeLike) -> tuple[Array, Array]:
    """Return points x and log w + x²/2 of ∫ f dx = Σ w exp(x²/2) f(x), per √(2π)."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    log_weights = np.log(weights) + points**2 / 2 - np.log(2 * np.pi) / 2
    return jnp.asarray(points, dtype), jnp.asarray(log_weights, dtype)


def _integrate_rows(
    family: Family,
    n_nodes: int,
    dtype: DTypeLike,
    layout: Layout,
    rows: tuple[Abilities, Array],
    a: Array,
    d: Array,
) -> tuple[AbilityPosteriors, ExpectedItemSums]:
    before, mode = rows
    variance = jnp.where(before.variance > 0, before.variance, 1)  # rows that fill up a block
    slope, one = a.astype(dtype), jnp.ones(a.shape, dtype)

    def terms_at(theta: Array) -> tuple[Array, Array, Array]:
        eta = layout.predictor(*(x.astype(dtype) for x in (theta, a, d)))
        log_likelihood, score, information = family.terms(eta, layout.successes, layout.trials)
        return log_likelihood, score, information

    for _ in range(_MODE_STEPS):
        _, score, information = terms_at(mode)
        curvature = layout.over_items(information, slope**2) + 1 / variance
        pull = layout.over_items(score, slope) - (mode - before.mean) / variance
        mode = mode + jnp.clip(pull / curvature, -_FARTHEST, _FARTHEST)
    points, log_weights = gauss_hermite(n_nodes, a.dtype)
    scale = 1 / jnp.sqrt(curvature)
    nodes = mode + points[:, None] * scale
    log_likelihoods, scores, informations = jax.vmap(terms_at)(nodes)
    own = jax.vmap(lambda x: layout.over_items(x, one))(log_likelihoods).astype(a.dtype)
    log_density = own - (nodes - before.mean) ** 2 / (2 * variance) - jnp.log(variance) / 2
    total = jax.nn.logsumexp(log_density + log_weights[:, None], axis=0)
    weights = jnp.exp(log_density + log_weights[:, None] - total)
    mean = (weights * nodes).sum(0)
    posteriors = AbilityPosteriors(
        total + jnp.log(scale),
        mode,
        mean,
        (weights * (nodes - mean) ** 2).sum(0),
        scale,
        (log_density - total - jnp.log(scale)).T,
    )

    def expected(values: Array, power: int) -> Array:
        of_rows = (weights * nodes**power).astype(dtype)
        return jax.vmap(layout.over_subjects)(values, of_rows).sum(0).astype(a.dtype)

    sums = ExpectedItemSums(
        jnp.stack([expected(scores, 1), expected(scores, 0)]),
        jnp.stack([expected(informations, power) for power in (2, 1, 0)]),
    )
    return posteriors, sums

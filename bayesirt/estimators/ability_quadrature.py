"""Abilities integrated out by adaptive quadrature around each subject's mode."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.likelihood.cell_sums import ByRows, Layout, in_row_blocks
from bayesirt.likelihood.family import Family, PredictorTerms

_MODE_STEPS = 2
_FARTHEST = 2.0
_BLOCK_CELLS = 1 << 15
"""Cells per block of rows; each is evaluated at every node."""


class PriorMoments(NamedTuple):
    """Normal priors of the abilities."""

    mean: Float[Array, " subject"]
    variance: Float[Array, " subject"]


class AbilityPosteriors(NamedTuple):
    """Posteriors of the abilities given items."""

    log_likelihood: Float[Array, " subject"]  # log ∫ p(answers | θ) p(θ) dθ.
    mode: Float[Array, " subject"]
    mean: Float[Array, " subject"]
    variance: Float[Array, " subject"]
    scale: Float[Array, " subject"]  # 1/√curvature at the mode; nodes are at mode + scale x.
    # Log posterior density at the nodes, up to a common constant.
    log_density: Float[Array, "subject node"]


class ExpectedItemSums(NamedTuple):
    """Score and information of each item, expected over the abilities' posteriors."""

    # Score of a, d and the family's further parameters, which by Fisher's identity is that of the
    # marginal likelihood.
    score: Float[Array, "coefficient item"]
    # Information about each pair of them, with abilities treated as observed.
    information: Float[Array, "coefficient coefficient item"]


def integrate_abilities(
    layout: ByRows,
    family: Family,
    items: tuple[Float[Array, " item"], ...],
    before: PriorMoments,
    near: Float[Array, " subject"],
    *,
    n_nodes: int,
    dtype: DTypeLike,
) -> tuple[AbilityPosteriors, ExpectedItemSums]:
    """Integrate abilities out by adaptive Gauss-Hermite quadrature, one block of rows at a time.

    `items` are a, d and the family's further parameters. Liu & Pierce 1994.
    """
    block = _BLOCK_CELLS // (len(items) - 1) ** 2
    function = partial(_integrate_rows, family, n_nodes, dtype)

    def in_blocks(layout: Layout, rows: object, *others: Array) -> tuple[object, object]:
        return in_row_blocks(layout, block).by_rows(function, rows, *others)

    posteriors, sums = layout.by_rows(in_blocks, (before, near), *items)
    return posteriors, sums


def gauss_hermite(n_nodes: int, dtype: DTypeLike) -> tuple[Array, Array]:
    """Return points x and log w + x²/2 for ∫ f dx = Σ w exp(x²/2) f(x), divided by √(2π)."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    log_weights = np.log(weights) + points**2 / 2 - np.log(2 * np.pi) / 2
    return jnp.asarray(points, dtype), jnp.asarray(log_weights, dtype)


def _integrate_rows(
    family: Family,
    n_nodes: int,
    dtype: DTypeLike,
    layout: Layout,
    rows: tuple[PriorMoments, Array],
    a: Array,
    d: Array,
    *further: Array,
) -> tuple[AbilityPosteriors, ExpectedItemSums]:
    before, mode = rows
    variance = jnp.where(before.variance > 0, before.variance, 1)  # 0 in padding rows
    slope, one = a.astype(dtype), jnp.ones(a.shape, dtype)
    item_values = tuple(layout.of_items(x.astype(dtype)) for x in further)

    def terms_at(theta: Array) -> PredictorTerms:
        eta = layout.predictor(*(x.astype(dtype) for x in (theta, a, d)))
        return family.every(eta, layout.successes, layout.trials, *item_values)

    for _ in range(_MODE_STEPS):
        _, score, information = terms_at(mode)
        curvature = layout.over_items(information[0][0], slope**2) + 1 / variance
        pull = layout.over_items(score[0], slope) - (mode - before.mean) / variance
        mode = mode + jnp.clip(pull / curvature, -_FARTHEST, _FARTHEST)
    points, log_weights = gauss_hermite(n_nodes, a.dtype)
    scale = 1 / jnp.sqrt(curvature)
    nodes = mode + points[:, None] * scale
    log_likelihoods, scores, informations = jax.vmap(terms_at)(nodes)
    of_rows = jax.vmap(lambda x: layout.over_items(x, one))(log_likelihoods).astype(a.dtype)
    log_density = of_rows - (nodes - before.mean) ** 2 / (2 * variance) - jnp.log(variance) / 2
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
    return posteriors, _item_sums(layout, scores, informations, weights, nodes, dtype)


def _item_sums(
    layout: Layout,
    scores: tuple[Array, ...],
    informations: tuple[tuple[Array, ...], ...],
    weights: Float[Array, "node subject"],
    nodes: Float[Array, "node subject"],
    dtype: DTypeLike,
) -> ExpectedItemSums:
    """Return the sums for items, as weighted sums over nodes."""

    def expected(values: Array, power: int) -> Array:
        of_rows = (weights * nodes**power).astype(dtype)
        return jax.vmap(layout.over_subjects)(values, of_rows).sum(0).astype(nodes.dtype)

    # The predictor of each coefficient, and the power of θ by which it is multiplied.
    coefficients = [(0, 1), *((k, 0) for k in range(len(scores)))]
    pairs = {
        (i, j): expected(informations[k][m], power + other)
        for i, (k, power) in enumerate(coefficients)
        for j, (m, other) in enumerate(coefficients[: i + 1])
    }
    n = range(len(coefficients))
    return ExpectedItemSums(
        jnp.stack([expected(scores[k], power) for k, power in coefficients]),
        jnp.array([[pairs[max(i, j), min(i, j)] for j in n] for i in n]),
    )

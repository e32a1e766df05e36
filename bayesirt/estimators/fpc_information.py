"""Fixed-parameter calibration: covariances of new items, given uncertain known ones."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.estimators import lapack
from bayesirt.estimators.cell_expectations import Quadrature
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.estimators.normal_beliefs import Abilities, Items, Normal
from bayesirt.estimators.observed_information import (
    block_diagonal,
    complete_information,
    diagonal_blocks,
    flat,
    inverse_of_rest,
    over_score_roots,
)
from bayesirt.likelihood.cell_sums import DenseLayout

MOST_TOGETHER = 1800
"""Maximum number of parameters of new items whose errors are computed together."""


def new_item_covariance(
    layout: DenseLayout,
    items: Items,
    anchors: KnownItems,
    prior: Normal,
    population: Normal,
    abilities: Abilities,
    quadrature: Quadrature,
    *,
    estimated: bool,
) -> NDArray[np.float64]:
    """Return the covariance of each new item's (a, d), including the known items' uncertainty.

    The layout has new items first, then known ones; `items` are the new ones with their `prior`,
    which is treated as known; `population` is that of abilities. New items with more than
    `MOST_TOGETHER` parameters are split into groups; each is treated as if the others were known.
    """
    n_new, size = items.both.shape
    dtype = items.d.dtype
    given = Items(jnp.asarray(anchors.a, dtype), jnp.asarray(anchors.d, dtype))
    roots = _roots_of(jnp.asarray(anchors.covariance, dtype))
    of_population = _population_roots(population, abilities, estimated)
    blocks = []
    for group in np.array_split(np.arange(n_new), -(-n_new * size // MOST_TOGETHER)):
        columns = np.append(group, np.arange(n_new, layout.shape[1]))
        group_layout = DenseLayout(*(x[:, columns] for x in layout))
        new = Items(items.a[group], items.d[group])
        both = Items(*(jnp.concatenate(pair) for pair in zip(new, given, strict=True)))
        across = over_score_roots(
            group_layout, both, abilities, quadrature, _Across(len(group)), of_population
        )
        information = complete_information(group_layout, both, abilities, quadrature)[: len(group)]
        n_subjects = layout.shape[0] if estimated else 0
        covariance = _group(information + prior.precision, across, roots, n_subjects)
        blocks.append(np.asarray(covariance, np.float64))
    return np.concatenate(blocks)


class _Across(NamedTuple):
    """Sums over subjects of score covariances of new items and population with all parameters."""

    n_new: int

    def __call__(self, roots: Array, of_population: Array) -> Array:
        n = roots.shape[3]
        rows = flat(roots)
        population = jnp.moveaxis(of_population, 2, 1).reshape(len(rows), of_population.shape[1])
        left = jnp.concatenate([rows[:, : self.n_new * (n + 1)], population], 1)
        right = jnp.concatenate([left, rows[:, self.n_new * (n + 1) :]], 1)
        return left.T @ right


def _population_roots(
    population: Normal, abilities: Abilities, estimated: bool
) -> Float[Array, "subject parameter ability"]:
    """Return score roots of the population's mean and log covariance, in its own axes.

    With z = C⁻¹(θ - μ) for Ω = C Cᵀ, the scores are z and, for the logarithm of Ω, z_k z_l for
    k ≠ l and (z_k² - 1) / 2.
    """
    n_subjects, n = abilities.mean.shape
    if not estimated:
        return jnp.zeros((n_subjects, 0, n), abilities.mean.dtype)
    # the precision is C⁻ᵀC⁻¹
    whitening = jnp.linalg.cholesky(population.precision).T
    z = (abilities.mean - population.centre) @ whitening.T
    roots = whitening @ lapack.cholesky(abilities.covariance)
    k, m = np.tril_indices(n)
    half = jnp.where(k == m, 0.5, 1.0).astype(z.dtype)[:, None]
    of_products = half * (z[:, k, None] * roots[:, m] + z[:, m, None] * roots[:, k])
    return jnp.concatenate([roots, of_products], 1)


def _roots_of(covariance: Float[Array, "item p p"]) -> Float[Array, "item p p"]:
    """Return F with F Fᵀ the covariance, which may be singular."""
    values, vectors = lapack.eigh(covariance)
    return vectors * jnp.sqrt(jnp.maximum(values, 0))[:, None, :]


def _group(
    information: Float[Array, "item p p"],
    across: Float[Array, "part all"],
    known_roots: Float[Array, "known p p"],
    n_subjects: int,
) -> Float[Array, "item p p"]:
    n_new, size = information.shape[:2]
    n_parts = len(across)
    n = size - 1
    k, m = np.tril_indices(n)
    weights = np.append(np.ones(n), np.where(k == m, 0.5, 1.0))[: n_parts - n_new * size]
    curvature = jnp.zeros((n_parts, n_parts), across.dtype)
    curvature = curvature.at[: n_new * size, : n_new * size].set(block_diagonal(information))
    rows = np.arange(n_new * size, n_parts)
    curvature = curvature.at[rows, rows].set(n_subjects * jnp.asarray(weights, across.dtype))
    inverse = inverse_of_rest(curvature, across[:, :n_parts])
    moved = (inverse @ across[:, n_parts:])[: n_new * size]
    carried = jnp.einsum("phq,hqr->phr", moved.reshape(len(moved), -1, size), known_roots)
    carried = carried.reshape(n_new, size, -1)
    blocks = diagonal_blocks(inverse[: n_new * size, : n_new * size], size)
    return blocks + carried @ jnp.swapaxes(carried, 1, 2)

"""Expected log likelihood, score and information of cells, given normal beliefs.

The linear predictor of a cell is treated as normal, too, and expectations are sums over a few nodes
of a Gauss-Hermite quadrature.
"""

import operator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.estimators.normal_beliefs import Abilities, Items, Unknown
from bayesirt.estimators.symmetric_matrices import packed, pairs, twice_off_diagonal
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.family import CellTerms

_FEW_NODES, _NODES = 3, 5
_LARGE = 1 << 18
"""With more cells than this, they are computed in 32 bits."""
_MANY_ITEMS = 200
"""From this number of items on, abilities are so well determined that few nodes suffice."""


class Quadrature(NamedTuple):
    """Number of nodes for each cell's expectation, and the dtype in which cells are computed.

    Sums over cells have the dtype of the parameters.
    """

    n_nodes: int
    dtype: DTypeLike


def usual_quadrature(layout: DenseLayout, n_nodes: int | None) -> Quadrature:
    """Return 5 nodes, or 3 from 200 items on, and 32 bits beyond a quarter of a million cells."""
    large = layout.trials.size > _LARGE
    if n_nodes is None:
        n_nodes = _FEW_NODES if layout.shape[1] >= _MANY_ITEMS else _NODES
    return Quadrature(n_nodes, jnp.float32 if large else jnp.result_type(float).type)


def predictor(
    items: Items, abilities: Abilities, unknown: Unknown = None
) -> tuple[Float[Array, "subject item"], Float[Array, "subject item"]]:
    """Return mean and variance of each cell's linear predictor, over abilities and items."""
    squared = pairs(items.a, 2.0)
    if unknown is not None:
        squared += twice_off_diagonal(unknown[:, :-1, :-1])
    variance = packed(abilities.covariance) @ squared.T
    if unknown is not None:
        ones = jnp.ones_like(abilities.mean[:, :1])
        with_one = jnp.concatenate([abilities.mean, ones], 1)
        variance += pairs(with_one, 1.0) @ twice_off_diagonal(unknown).T
    return abilities.mean @ items.a.T + items.d, jnp.maximum(variance, 0)


def expected_terms(
    layout: DenseLayout,
    items: Items,
    abilities: Abilities,
    quadrature: Quadrature,
    unknown: Unknown = None,
) -> CellTerms:
    """Return each cell's expected log likelihood, score and information; 0 without trials."""
    mean, variance = predictor(items, abilities, unknown)
    eta, spread = (x.astype(quadrature.dtype) for x in (mean, jnp.sqrt(variance)))
    points, weights = np.polynomial.hermite_e.hermegauss(quadrature.n_nodes)
    shares = [float(weight) for weight in weights / weights.sum()]
    at_nodes = (LOGIT.terms(eta + float(point) * spread, *layout) for point in points)
    columns = zip(*at_nodes, strict=True)
    return CellTerms(*(sum(map(operator.mul, shares, terms)) for terms in columns))

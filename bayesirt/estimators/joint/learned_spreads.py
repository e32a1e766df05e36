"""Empirical-Bayes estimates of the items' spreads: the mode over log σ, given the items' posterior.

σ² = Σ E(u - μ)² / (J - 1), apart from the effect of σ's half-normal prior. For an intercept the
item's expected information is sufficient, as its inverse never exceeds σ². For a log slope it is
not: the likelihood is normal in a, not in log a, whose density is skewed to the left. So this
expectation is summed over nodes.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators import lapack
from bayesirt.estimators.joint.density import Coordinates, Expansion, JointPoint
from bayesirt.likelihood.passes import ItemSums

_MOST_SCALES = 2.0
_REACH, _NODES = 6.0, 61


def learned_spreads(
    coordinates: Coordinates,
    spread: Float[Array, " coordinate"],
    point: JointPoint,
    sums: ItemSums,
    here: Expansion,
) -> Float[Array, " coordinate"]:
    """Return estimates of the spreads from the sums and the expected information at a point."""
    scales = jnp.asarray(coordinates.scales)
    variance = jnp.einsum("jkk->jk", lapack.inv(here.item_curvature))
    centre, _ = coordinates.parted(point.means)
    squares = ((point.items - centre) ** 2 + variance).sum(0)
    if coordinates.logarithmic:
        squares = squares.at[0].set(
            _of_log_slopes(spread, point.items, centre, sums, here.jacobian, variance[:, 0])
        )
    free = len(point.items) - 1
    estimates = jnp.sqrt(2 * squares / (free + jnp.sqrt(free**2 + 4 * squares / scales**2)))
    estimates = jnp.minimum(estimates, _MOST_SCALES * scales)
    return jnp.where(jnp.array(coordinates.known), scales, estimates)


@jax.jit
def _of_log_slopes(
    spread: Float[Array, " coordinate"],
    items: Float[Array, "item coordinate"],
    means: Float[Array, " coordinate"],
    sums: ItemSums,
    jacobian: Float[Array, "item coefficient coordinate"],
    variance: Float[Array, " item"],
) -> Array:
    """Return Σ E(log a - μ)², with each item's other coordinates at their best given its slope."""
    u, precision = items[:, 0], spread**-2
    score = jnp.einsum("jpk,jp->jk", jacobian, sums.score)
    information = jnp.einsum("jpk,jpq,jql->jkl", jacobian, sums.information, jacobian)
    block = information[:, 1:, 1:] + jnp.diag(precision[1:])
    pull = score[:, 1:] + precision[1:] * (means[1:] - items[:, 1:])
    along = lapack.solve(block, information[:, 1:, :1])[..., 0]
    score = score[:, 0] - (along * pull).sum(1)
    information = information[:, 0, 0] - (along * information[:, 1:, 0]).sum(1)
    step = jnp.sqrt(variance)[:, None] * jnp.linspace(-_REACH, _REACH, _NODES)
    growth, deviation = jnp.expm1(step), u[:, None] + step - means[0]
    log_density = (
        score[:, None] * growth
        - 0.5 * information[:, None] * growth**2
        - 0.5 * precision[0] * deviation**2
    )
    return jnp.sum(jax.nn.softmax(log_density, axis=1) * deviation**2)

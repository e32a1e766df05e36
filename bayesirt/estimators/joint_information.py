"""Information about abilities and items together, the larger side eliminated.

The matrix is [[diag D_R, B], [Bᵀ, D_C]]: a number for each subject, a 2 x 2 block for each item,
and their cross terms. Only the Schur complement on the smaller side is ever held whole.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from bayesirt.estimators.cell_sums import CellSums
from bayesirt.likelihood.cell_sums import Layout, SparseLayout
from bayesirt.likelihood.family import Family

_PIECE_CELLS = 1 << 22
"""Cross terms are made dense for so many cells at a time."""


class JointPoint(NamedTuple):
    """Abilities and items, as paper 002 writes them: η = a (θ - b)."""

    theta: Float[Array, " subject"]
    log_a: Float[Array, " item"]
    b: Float[Array, " item"]

    def slopes(self) -> tuple[Array, Array, Array]:
        """Return (θ, a, d)."""
        a = jnp.exp(self.log_a)
        return self.theta, a, -a * self.b


class JointPrior(NamedTuple):
    """Precisions of independent normal priors with mean 0."""

    # 1/variance.
    theta: float
    log_a: float
    b: float


class JointInformation(NamedTuple):
    """Own blocks and cross terms of -∂² of the log joint density in (θ, log a, b)."""

    of_theta: Float[Array, " subject"]
    of_items: Float[Array, "3 item"]  # (log a, log a), (log a, b) and (b, b).
    # Of each cell of the layout; times `weights` it is the derivative in θ and log a, θ and b.
    cross: Float[Array, "2 ..."]
    weights: Float[Array, "2 item"]


class Factored(NamedTuple):
    """Factors that solve for both sides."""

    # Lower Cholesky factor of the Schur complement; NaN where it is not positive definite.
    kept: Float[Array, "kept kept"]
    of_items: Float[Array, "3 item"]  # l₁₁, l₂₁ and l₂₂ of each item's own block.


class Variances(NamedTuple):
    """The own blocks of the inverse."""

    of_theta: Float[Array, " subject"]
    of_items: Float[Array, "3 item"]  # Variance of log a, covariance of log a and b, variance of b.


def n_kept(n_subjects: int, n_items: int) -> int:
    """Return the size of the Schur complement: subjects, or items twice if these are fewer."""
    return min(n_subjects, 2 * n_items)


def joint_gradient(sums: CellSums, prior: JointPrior, point: JointPoint) -> JointPoint:
    """Return the gradient of the log joint density, from sums at the point."""
    a = jnp.exp(point.log_a)
    return JointPoint(
        sums.theta_score - prior.theta * point.theta,
        a * (sums.a_score - point.b * sums.d_score) - prior.log_a * point.log_a,
        -a * sums.d_score - prior.b * point.b,
    )


def own_information(
    sums: CellSums, prior: JointPrior, point: JointPoint, observed: float | Float[Array, ""]
) -> tuple[Float[Array, " subject"], Float[Array, "3 item"]]:
    """Return the own blocks, `of_theta` and `of_items` of `JointInformation`."""
    a, b = jnp.exp(point.log_a), point.b
    along_a, along_b = a * (sums.a_score - b * sums.d_score), -a * sums.d_score
    of_items = jnp.stack(
        [
            a**2 * (sums.aa - 2 * b * sums.ad + b**2 * sums.dd) - observed * along_a + prior.log_a,
            -(a**2) * (sums.ad - b * sums.dd) - observed * along_b,
            a**2 * sums.dd + prior.b,
        ]
    )
    return sums.theta_information + prior.theta, of_items


def joint_information(
    layout: Layout,
    family: Family,
    sums: CellSums,
    prior: JointPrior,
    point: JointPoint,
    observed: Float[Array, ""],
) -> JointInformation:
    """Return the information at a point.

    With η = a (θ - b): ∂η/∂log a = ∂²η/∂(log a)² = η, ∂η/∂b = ∂²η/∂b∂log a = -a, and ∂η/∂θ =
    ∂²η/∂θ∂log a = a.
    """
    eta = layout.predictor(*point.slopes())
    terms = family.terms(eta, layout.successes, layout.trials)
    cross = jnp.stack([terms.information * eta - observed * terms.score, terms.information])
    a = jnp.exp(point.log_a)
    own = own_information(sums, prior, point, observed)
    return JointInformation(*own, cross, jnp.stack([a, -(a**2)]))


def item_factors(of_items: Float[Array, "3 item"]) -> Float[Array, "3 item"]:
    """Return the Cholesky factor l₁₁, l₂₁, l₂₂ of each item's own block."""
    aa, ab, bb = of_items
    first = jnp.sqrt(aa)
    below = ab / first
    return jnp.stack([first, below, jnp.sqrt(bb - below**2)])


def solve_items(
    factors: Float[Array, "3 item"], items: Float[Array, "2 item"]
) -> Float[Array, "2 item"]:
    """Solve with each item's own block, given its factor."""
    first, below, last = factors
    z_a = items[0] / first
    z_b = (items[1] - below * z_a) / last
    x_b = z_b / last
    return jnp.stack([(z_a - below * x_b) / first, x_b])


def factored(layout: Layout, information: JointInformation) -> Factored:
    """Return the factors of the information."""
    of_theta, (aa, ab, bb) = information.of_theta, information.of_items
    of_items = item_factors(information.of_items)
    if _keeps_subjects(information):
        own = jnp.diag(of_theta)
    else:
        own = jnp.block([[jnp.diag(aa), jnp.diag(ab)], [jnp.diag(ab), jnp.diag(bb)]])

    def subtract(total: Array, start: Array) -> tuple[Array, None]:
        piece = _whitened(layout, information, of_items, start)
        return total - jnp.matmul(piece, piece.T, precision=jax.lax.Precision.HIGHEST), None

    schur, _ = jax.lax.scan(subtract, own, _starts(information))
    return Factored(jnp.linalg.cholesky(schur), of_items)


def solve(
    layout: Layout, information: JointInformation, factors: Factored, right: JointPoint
) -> JointPoint:
    """Solve for abilities and items."""
    items = jnp.stack([right.log_a, right.b])
    if _keeps_subjects(information):
        rest = right.theta - _to_subjects(layout, information, solve_items(factors.of_items, items))
        theta = cho_solve((factors.kept, True), rest)
        found = solve_items(factors.of_items, items - _to_items(layout, information, theta))
    else:
        rest = items - _to_items(layout, information, right.theta / information.of_theta)
        found = cho_solve((factors.kept, True), rest.ravel()).reshape(2, -1)
        theta = (right.theta - _to_subjects(layout, information, found)) / information.of_theta
    return JointPoint(theta, *found)


def variances(layout: Layout, information: JointInformation, factors: Factored) -> Variances:
    """Return the own blocks of the inverse of the information.

    Of an eliminated unit with own block L Lᵀ and cross terms C: L⁻ᵀ (I + FᵀF) L⁻¹ with F = L_S⁻¹ C
    L⁻ᵀ, a sum of squares, so that no digit is lost.
    """

    def squares(_: None, start: Array) -> tuple[None, Array]:
        piece = _whitened(layout, information, factors.of_items, start)
        far = solve_triangular(factors.kept, piece, lower=True)
        if not _keeps_subjects(information):
            return None, (far**2).sum(0)[None]
        first, second = jnp.split(far, 2, axis=1)
        return None, jnp.stack([(first**2).sum(0), (first * second).sum(0), (second**2).sum(0)])

    _, found = jax.lax.scan(squares, None, _starts(information))
    known = jnp.moveaxis(found, 1, 0).reshape(found.shape[1], -1)
    identity = jnp.eye(len(factors.kept), dtype=factors.kept.dtype)
    inverse = cho_solve((factors.kept, True), identity)
    if _keeps_subjects(information):
        own = known[:, : information.of_items.shape[1]] + jnp.array([[1], [0], [1]])
        return Variances(jnp.diag(inverse), _unwhitened(factors.of_items, own))
    of_theta = (1 + known[0, : len(information.of_theta)]) / information.of_theta
    n = information.of_items.shape[1]
    both = jnp.diag(inverse)
    return Variances(of_theta, jnp.stack([both[:n], jnp.diag(inverse[:n, n:]), both[n:]]))


def _keeps_subjects(information: JointInformation) -> bool:
    return len(information.of_theta) <= 2 * information.of_items.shape[1]


def _starts(information: JointInformation) -> Array:
    """Return where each piece of the eliminated side starts."""
    return jnp.arange(_n_eliminated(information), step=_piece_size(information))


def _n_eliminated(information: JointInformation) -> int:
    n_subjects, n_items = len(information.of_theta), information.of_items.shape[1]
    return n_items if _keeps_subjects(information) else n_subjects


def _piece_size(information: JointInformation) -> int:
    n_subjects, n_items = len(information.of_theta), information.of_items.shape[1]
    most = max(1, _PIECE_CELLS // n_kept(n_subjects, n_items))
    n_pieces = -(-_n_eliminated(information) // most)
    return -(-_n_eliminated(information) // n_pieces)


def _whitened(
    layout: Layout, information: JointInformation, of_items: Array, start: Array
) -> Float[Array, "kept own"]:
    """Return C L⁻ᵀ of the eliminated units from `start` on; units past the last are zero."""
    size = _piece_size(information)
    if _keeps_subjects(information):
        along_a, along_b = _piece(layout, information.cross, 1, start, size)
        weights, (first, below, last) = (
            _padded(x, start, size) for x in (information.weights, of_items)
        )
        along_a = along_a * weights[0] / first
        return jnp.concatenate([along_a, (along_b * weights[1] - below * along_a) / last], axis=1)
    own = jnp.sqrt(_padded(information.of_theta[None], start, size)[0])
    along = _piece(layout, information.cross, 0, start, size) / own[:, None]
    return (along * information.weights[:, None]).transpose(0, 2, 1).reshape(-1, size)


def _padded(values: Array, start: Array, size: int) -> Array:
    """Return `size` columns from `start` on, filled up with ones."""
    filled = jnp.pad(values, ((0, 0), (0, size)), constant_values=1)
    return jax.lax.dynamic_slice_in_dim(filled, start, size, 1)


def _piece(layout: Layout, cross: Array, axis: int, start: Array, size: int) -> Array:
    """Return a piece of the cells as dense matrices, cut along subjects (0) or items (1)."""
    if not isinstance(layout, SparseLayout):
        fill = [(0, 0)] * 3
        n = cross.shape[axis + 1]
        fill[axis + 1] = (0, -n % size)
        return jax.lax.dynamic_slice_in_dim(jnp.pad(cross, fill), start, size, axis + 1)
    shape, at = [len(layout.any_subject), len(layout.any_item)], [layout.subject, layout.item]
    inside = (at[axis] >= start) & (at[axis] < start + size)
    shape[axis], at[axis] = size, jnp.where(inside, at[axis] - start, size)
    return jnp.zeros((2, *shape), cross.dtype).at[:, at[0], at[1]].set(cross, mode="drop")


def _to_subjects(layout: Layout, information: JointInformation, items: Array) -> Array:
    """Return B times values of the items."""
    weighted = information.weights * items
    return sum(map(layout.over_items, information.cross, weighted), jnp.zeros(()))


def _to_items(layout: Layout, information: JointInformation, theta: Array) -> Array:
    """Return Bᵀ times values of the subjects."""
    return information.weights * jnp.stack(
        [layout.over_subjects(cross, theta) for cross in information.cross]
    )


def _unwhitened(of_items: Array, own: Array) -> Array:
    """Return L⁻ᵀ G L⁻¹ of each item's G, symmetric matrices as three numbers."""
    first, below, last = of_items
    p, q, r = 1 / first, -below / (first * last), 1 / last
    aa, ab, bb = own
    return jnp.stack([p**2 * aa + 2 * p * q * ab + q**2 * bb, r * (p * ab + q * bb), r**2 * bb])

"""Abilities integrated out on one grid that is fine enough for every subject.

The trapezoidal rule converges exponentially for posteriors, which are smooth and die out on both
sides (Trefethen & Weideman 2014), once its nodes are closer than the narrowest of them is wide
and than the steepest item is. On a common grid Σ_j n_ij log(1 + exp(a_j θ + d_j)) is one product
of matrices, and one vector where all subjects had the same trials: what is computed for each
node, cell and step is a multiplication at most.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num
from numpy.typing import ArrayLike, NDArray

from bayesirt.data.cells import Cells, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.likelihood.cell_sums import Layout, RowBlocks, SparseLayout, in_row_blocks, layout_of
from bayesirt.likelihood.families import LOGIT

_REACH = 8.0
"""Standard deviations on both sides of a posterior's mean that nodes cover."""

_PIECE = 1 << 14
"""Cells of a sparse matrix whose nodes are held at a time."""

_SHORTEST = 6.0
"""Every grid reaches as far on both sides of 0."""

_STEPS_OF = 64
"""Numbers of nodes are its multiples, so that few shapes are compiled."""


class Trials(NamedTuple):
    """Trials n_ij = rows_i columns_j, where all subjects had the same ones."""

    rows: Num[Array, " subject"]  # Ones.
    columns: Num[Array, " item"]


class Data(NamedTuple):
    """Responses on the device."""

    layout: Layout | RowBlocks
    common: Trials | None  # None where subjects had different trials.


class Expectation(NamedTuple):
    """What the subjects' posteriors, given items, say."""

    log_likelihood: Float[Array, " subject"]  # log ∫ p(responses | θ) N(θ; 0, 1) dθ.
    # Of θ.
    mean: Float[Array, " subject"]
    sd: Float[Array, " subject"]
    # Expected derivative of the log likelihood in (a, d): the marginal one's, by Fisher.
    score: Float[Array, "2 item"]
    # Expected information aa, ad and dd, as if abilities were seen.
    information: Float[Array, "3 item"]


def data_of(responses: Responses) -> Data:
    """Put responses on the device, large matrices in blocks of rows."""
    return Data(in_row_blocks(layout_of(responses)), _common_trials(responses.cells))


def grid_for(mean: ArrayLike, sd: ArrayLike, a: ArrayLike, n_nodes: int) -> NDArray[np.float64]:
    """Return abilities, evenly spaced, at which all posteriors are to be evaluated."""
    low, high = _ends(mean, sd, _REACH + 1)
    spacing = _spacing(sd, a, n_nodes)
    n = _STEPS_OF * int(np.ceil(((high - low) / spacing + 1) / _STEPS_OF))
    return (low + high) / 2 + spacing * np.arange((1 - n) / 2, n / 2)


def covers(grid: ArrayLike, mean: ArrayLike, sd: ArrayLike, a: ArrayLike, n_nodes: int) -> bool:
    """Return whether a grid does for posteriors that are not those it was made for."""
    grid = np.asarray(grid, np.float64)
    low, high = _ends(mean, sd, _REACH - 1)
    fine = grid[1] - grid[0] <= 1.25 * _spacing(sd, a, n_nodes)
    return bool(fine and grid[0] <= low and high <= grid[-1])


def expectation(
    data: Data, grid: Float[Array, " node"], items: Float[Array, "2 item"]
) -> Expectation:
    """Integrate abilities out.

    Bock & Aitkin 1981, on a grid that is as fine as the posteriors ask.
    """
    failure = LOGIT.terms(grid[:, None] * items[0] + items[1], jnp.zeros(()), jnp.ones(()))
    powers = jnp.stack([grid**2, grid, jnp.ones_like(grid)])
    softplus = -failure.log_likelihood
    if data.common is None:
        found, (y_mean, y_sum, n) = data.layout.by_rows(_posteriors, None, softplus, grid, items)
        expected = jnp.einsum("kg,gj->kj", powers[1:], n * -failure.score)
        information = jnp.einsum("kg,gj->kj", powers, n * failure.information)
    else:
        rows, columns = data.common
        found, (y_mean, y_sum, n) = data.layout.by_rows(
            _posteriors, rows, softplus @ columns, grid, items
        )
        expected = columns * ((n * powers[1:]) @ -failure.score)
        information = columns * ((n * powers) @ failure.information)
    return Expectation(
        found[0], found[1], found[2], jnp.stack([y_mean, y_sum]) - expected, information
    )


def weights_of(
    log_joint: Float[Array, "subject node"],
) -> tuple[Float[Array, "subject node"], Float[Array, " subject"]]:
    """Return posterior probabilities of nodes, and the log of what they were divided by."""
    total = jax.nn.logsumexp(log_joint, axis=1)
    return jnp.exp(log_joint - total[:, None]), total


def log_joint_of(
    layout: Layout, softplus: Array, grid: Array, items: Float[Array, "2 item"]
) -> Float[Array, "subject node"]:
    """Return log p(responses | θ) + log N(θ; 0, 1) + log of the spacing, at each node."""
    of_a, of_d = (layout.over_items(layout.successes, x) for x in items)
    prior = jnp.log((grid[1] - grid[0]) / jnp.sqrt(2 * jnp.pi)) - grid**2 / 2
    return of_a[:, None] * grid + of_d[:, None] - softplus + prior


def _posteriors(
    layout: Layout, rows: Array | None, softplus: Array, grid: Array, items: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return log likelihood, mean and sd of each subject, and what is summed over them.

    These sums are Σ_i y_ij E θ_i, Σ_i y_ij, and the trials that are expected at each node.
    """
    total = _trials_times(layout, softplus) if rows is None else rows[:, None] * softplus
    weights, log_likelihood = weights_of(log_joint_of(layout, total, grid, items))
    mean = weights @ grid
    sd = jnp.sqrt((weights * (grid - mean[:, None]) ** 2).sum(1))
    sums = (
        layout.over_subjects(layout.successes, mean),
        layout.over_subjects(layout.successes, jnp.ones_like(mean)),
        _trials_of_nodes(layout, weights) if rows is None else rows @ weights,
    )
    return (log_likelihood, mean, sd), sums


def _trials_times(layout: Layout, values: Float[Array, "node item"]) -> Array:
    """Return Σ_j n_ij values_gj, shape (subject, node)."""
    if not isinstance(layout, SparseLayout):
        return layout.trials @ values.T
    return _gathered(layout.trials, values.T, layout.item, layout.subject, len(layout.any_subject))


def _trials_of_nodes(layout: Layout, weights: Float[Array, "subject node"]) -> Array:
    """Return Σ_i n_ij weights_ig, shape (node, item)."""
    if not isinstance(layout, SparseLayout):
        return weights.T @ layout.trials
    return _gathered(layout.trials, weights, layout.subject, layout.item, len(layout.any_item)).T


def _gathered(trials: Array, values: Array, source: Array, target: Array, n: int) -> Array:
    """Return the sum over cells of trials times the values of one side, for the other side."""
    size = min(_PIECE, max(len(trials), 1))
    fill = -len(trials) % size

    def add(total: Array, piece: tuple[Array, ...]) -> tuple[Array, None]:
        n, own, to = piece
        return total.at[to].add(n[:, None] * values[own]), None

    pieces = (jnp.pad(x, (0, fill)).reshape(-1, size) for x in (trials, source, target))
    return jax.lax.scan(add, jnp.zeros((n, values.shape[1]), values.dtype), tuple(pieces))[0]


def _common_trials(cells: Cells) -> Trials | None:
    if isinstance(cells, SparseCells):
        return None
    trials = cells.matrices()[1]
    if not (trials == trials[0]).all():
        return None
    return Trials(jnp.ones(len(trials), jnp.int8), jnp.asarray(trials[0]))


def _ends(mean: ArrayLike, sd: ArrayLike, reach: float) -> tuple[float, float]:
    mean, sd = np.asarray(mean, np.float64), np.asarray(sd, np.float64)
    low, high = float((mean - reach * sd).min()), float((mean + reach * sd).max())
    return min(low, -_SHORTEST), max(high, _SHORTEST)


def _spacing(sd: ArrayLike, a: ArrayLike, n_nodes: int) -> float:
    narrowest = min(float(np.min(sd)), 1 / max(float(np.max(a)), 1.0))
    return 2 * _REACH / (n_nodes - 1) * narrowest

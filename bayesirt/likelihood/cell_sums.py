"""The likelihood over all cells: linear predictor, sums over rows and columns, gradient.

Dense matrices and lists of observed cells have the same operations, so that every estimator and
engine is written once for both.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesirt.data.cells import SparseCells
from bayesirt.data.responses import Responses
from bayesirt.likelihood.families import LOGIT
from bayesirt.likelihood.family import Family

_FEW_COLUMNS = 4
"""Number of columns up to which products with vectors are faster than one with a matrix."""
_LEAST_ROWS = 16
"""Minimum number of rows per block; with fewer, sums over rows are hardly vectorised."""
_OF_A_GPU = 256
"""Factor on the size of blocks on accelerators, where the number of calls is the main cost."""


class ByRows(Protocol):
    """Data whose subjects are independent given the parameters that they share."""

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Apply `function(layout, rows, *others)` → (rows, sums) wherever the rows are stored."""
        ...


class DenseLayout(NamedTuple):
    """Successes and trials as matrices."""

    successes: Int[Array, "subject item"]
    trials: Int[Array, "subject item"]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and items."""
        return self.trials.shape[0], self.trials.shape[1]

    def predictor(self, theta: Array, a: Array, d: Array) -> Array:
        """Return η = a · θ + d of every cell, for one ability or a last axis of several."""
        if theta.ndim == 1:
            return theta[:, None] * a + d
        return (theta * a[:, 0] if a.shape[1] == 1 else theta @ a.T) + d

    def to_cells(self, values: Array) -> Array:
        """Return values of subjects, broadcast to be combined with values of cells."""
        return values[:, None]

    def of_items(self, values: Array) -> Array:
        """Return values of items, broadcast to be combined with values of cells."""
        return values

    def over_items(self, values: Array, weights: Array) -> Array:
        """Return Σ_j values_ij weights_j, shape (subject, ...)."""
        return _by_columns(partial(jnp.matmul, values), weights)

    def over_subjects(self, values: Array, weights: Array) -> Array:
        """Return Σ_i weights_i values_ij, shape (item, ...)."""
        if weights.ndim > 1 and weights.shape[1] > _FEW_COLUMNS:
            return values.T @ weights
        return _by_columns(lambda w: w @ values, weights)

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Apply `function(layout, rows, *others)` to all rows at once."""
        return function(self, rows, *others)


class SparseLayout(NamedTuple):
    """A list of observed cells, ordered by subject."""

    successes: Int[Array, " cell"]
    trials: Int[Array, " cell"]
    subject: Int[Array, " cell"]
    item: Int[Array, " cell"]
    any_subject: Array  # shape (subject,)
    # shape (item,). Only the lengths of these two are used, the numbers of subjects and items.
    any_item: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of subjects and items."""
        return len(self.any_subject), len(self.any_item)

    def predictor(self, theta: Array, a: Array, d: Array) -> Array:
        """Return η = a · θ + d of every observed cell, for one ability or several."""
        products = theta[self.subject] * a[self.item]
        return (products if theta.ndim == 1 else products.sum(1)) + d[self.item]

    def to_cells(self, values: Array) -> Array:
        """Return values of subjects, one for each cell."""
        return values[self.subject]

    def of_items(self, values: Array) -> Array:
        """Return values of items, one for each cell."""
        return values[self.item]

    def over_items(self, values: Array, weights: Array) -> Array:
        """Return Σ_j values_ij weights_j, shape (subject, ...)."""
        products = _each_times(values, weights[self.item])
        n = len(self.any_subject)
        return jax.ops.segment_sum(products, self.subject, n, indices_are_sorted=True)

    def over_subjects(self, values: Array, weights: Array) -> Array:
        """Return Σ_i weights_i values_ij, shape (item, ...)."""
        products = _each_times(values, weights[self.subject])
        return jax.ops.segment_sum(products, self.item, len(self.any_item))

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Apply `function(layout, rows, *others)` to all rows at once."""
        return function(self, rows, *others)


Layout = DenseLayout | SparseLayout


def _by_columns(product: Callable[[Array], Array], weights: Array) -> Array:
    """Return the product with weights, column by column if there are few columns."""
    if weights.ndim == 1 or weights.shape[1] > _FEW_COLUMNS:
        return product(weights)
    return jnp.stack([product(w) for w in weights.T], -1)


def _each_times(values: Array, weights: Array) -> Array:
    return (values if weights.ndim == 1 else values[:, None]) * weights


class RowBlocks(NamedTuple):
    """A large matrix as blocks of rows, small enough for intermediate results to stay in cache."""

    # Shape (block, row, item); the last block is padded with rows without trials.
    blocks: DenseLayout
    any_subject: Array  # shape (subject,). Only its length is used, the number of subjects.

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Apply `function(layout, rows, *others)` block by block; sums are added up."""
        n_blocks, n_rows = self.blocks.trials.shape[:2]
        by_block = jax.tree.map(partial(in_blocks, n_blocks=n_blocks, n_rows=n_rows), rows)
        values, sums = over_blocks(lambda block: function(*block, *others), (self.blocks, by_block))
        n = len(self.any_subject)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:n], values), sums


def over_blocks(function: Callable[[Any], tuple[Any, Any]], blocks: Any) -> tuple[Any, Any]:
    """Return the results of each block, computed one after another, and the sums over all."""

    def one_block(sums: Any, block: Any) -> tuple[Any, Any]:
        values, block_sums = function(block)
        return jax.tree.map(jnp.add, sums, block_sums), values

    _, shapes = jax.eval_shape(function, jax.tree.map(lambda x: x[0], blocks))
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    sums, values = jax.lax.scan(one_block, nothing, blocks)
    return values, sums


def in_row_blocks(layout: Layout, block_cells: int = 1 << 18) -> Layout | RowBlocks:
    """Cut a large matrix into blocks of rows; small or sparse layouts are returned unchanged."""
    if jax.default_backend() != "cpu":
        block_cells *= _OF_A_GPU
    if isinstance(layout, SparseLayout) or layout.trials.size <= block_cells:
        return layout
    n_subjects, n_items = layout.trials.shape
    n_blocks = -(-n_subjects // max(_LEAST_ROWS, block_cells // n_items))
    if n_blocks == 1:
        return layout
    cut = partial(in_blocks, n_blocks=n_blocks, n_rows=-(-n_subjects // n_blocks))
    return RowBlocks(jax.tree.map(cut, layout), jnp.zeros(n_subjects, jnp.int8))


def in_blocks(values: Any, n_blocks: int, n_rows: int, *, xp: Any = jnp) -> Any:
    """Return rows as blocks of equal length, the last padded with zeros."""
    missing = n_blocks * n_rows - len(values)
    if missing:
        values = xp.pad(values, ((0, missing), *((0, 0),) * (values.ndim - 1)))
    return values.reshape(n_blocks, n_rows, *values.shape[1:])


def layout_of(responses: Responses) -> Layout:
    """Place responses on the device, dense or sparse as they are stored."""
    if isinstance(responses.cells, SparseCells):
        subject, item, successes, trials = map(jnp.asarray, responses.cells.listed())
        sizes = (jnp.zeros(n, jnp.int8) for n in (responses.n_subjects, responses.n_items))
        return SparseLayout(successes, trials, subject, item, *sizes)
    return DenseLayout(*map(jnp.asarray, responses.cells.matrices()))


def log_likelihood_of(layout: ByRows, family: Family = LOGIT) -> Callable[..., Float[Array, ""]]:
    """Return the log likelihood as a function of (θ, a, d) whose gradient needs no second pass."""
    return partial(_log_likelihood, family, layout)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _log_likelihood(
    family: Family, layout: ByRows, theta: Array, *of_items: Array
) -> Float[Array, ""]:
    return _value_and_gradient(family, layout, theta, *of_items)[0]


def _value_and_gradient(
    family: Family, layout: ByRows, theta: Array, *of_items: Array
) -> tuple[Array, tuple[Array, ...]]:
    by_theta, (value, *by_items) = layout.by_rows(partial(_row_terms, family), theta, *of_items)
    return value, (by_theta, *by_items)


def _row_terms(
    family: Family, layout: Layout, theta: Array, a: Array, d: Array, *further: Array
) -> tuple[Array, tuple[Array, ...]]:
    """Return the gradient in θ, and sums over rows: the value and the rest of the gradient."""
    eta = layout.predictor(theta, a, d)
    item_values = map(layout.of_items, further)
    terms = family.every(eta, layout.successes, layout.trials, *item_values)
    one = jnp.ones(len(theta), theta.dtype)
    sums = (
        terms.log_likelihood.sum(),
        layout.over_subjects(terms.score[0], theta),
        *(layout.over_subjects(score, one) for score in terms.score),
    )
    return layout.over_items(terms.score[0], a), sums


def _scaled(_family: Family, gradient: tuple[Array, ...], scale: Array) -> tuple[Array | None, ...]:
    return None, *(scale * g for g in gradient)


_log_likelihood.defvjp(_value_and_gradient, _scaled)

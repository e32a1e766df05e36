"""The likelihood over all cells: linear predictor, sums over rows and columns, gradient.

Dense matrices and lists of observed cells offer the same operations, so that every estimator and
every engine is written once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesirt.cells import SparseCells
from bayesirt.families import LOGIT, Family
from bayesirt.responses import Responses


class ByRows(Protocol):
    """Data whose subjects are independent of each other, given what concerns all of them."""

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Return `function` (layout, rows, *others) → (rows, sums), wherever the rows are."""
        ...


class DenseLayout(NamedTuple):
    """Successes and trials as matrices.

    Attributes
    ----------
    successes, trials : int array, shape (subject, item)
    """

    successes: Int[Array, "subject item"]
    trials: Int[Array, "subject item"]

    def predictor(self, theta: Array, a: Array, d: Array) -> Array:
        """Return η = a θ + d of every cell."""
        return theta[:, None] * a + d

    def over_items(self, values: Array, weights: Array) -> Array:
        """Return Σ_j values_ij weights_j, shape (subject,)."""
        return values @ weights

    def over_subjects(self, values: Array, weights: Array) -> Array:
        """Return Σ_i weights_i values_ij, shape (item,)."""
        return weights @ values

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Return `function` (layout, rows, *others): all rows are here."""
        return function(self, rows, *others)


class SparseLayout(NamedTuple):
    """Observed cells one after another, ordered by subject.

    Attributes
    ----------
    successes, trials, subject, item : int array, shape (cell,)
    any_subject : array, shape (subject,)
    any_item : array, shape (item,)
        Empty in content; their lengths are the numbers of subjects and items.
    """

    successes: Int[Array, " cell"]
    trials: Int[Array, " cell"]
    subject: Int[Array, " cell"]
    item: Int[Array, " cell"]
    any_subject: Array
    any_item: Array

    def predictor(self, theta: Array, a: Array, d: Array) -> Array:
        """Return η = a θ + d of every observed cell."""
        return theta[self.subject] * a[self.item] + d[self.item]

    def over_items(self, values: Array, weights: Array) -> Array:
        """Return Σ_j values_ij weights_j, shape (subject,)."""
        products = values * weights[self.item]
        n = len(self.any_subject)
        return jax.ops.segment_sum(products, self.subject, n, indices_are_sorted=True)

    def over_subjects(self, values: Array, weights: Array) -> Array:
        """Return Σ_i weights_i values_ij, shape (item,)."""
        products = values * weights[self.subject]
        return jax.ops.segment_sum(products, self.item, len(self.any_item))

    def by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        """Return `function` (layout, rows, *others): all rows are here."""
        return function(self, rows, *others)


Layout = DenseLayout | SparseLayout


def layout_of(responses: Responses) -> Layout:
    """Put responses on the device, in the layout that they are stored in."""
    if isinstance(responses.cells, SparseCells):
        subject, item, successes, trials = map(jnp.asarray, responses.cells.listed())
        sizes = (jnp.zeros(n, jnp.int8) for n in (responses.n_subjects, responses.n_items))
        return SparseLayout(successes, trials, subject, item, *sizes)
    return DenseLayout(*map(jnp.asarray, responses.cells.matrices()))


def log_likelihood_of(
    layout: ByRows, family: Family = LOGIT
) -> Callable[[Array, Array, Array], Float[Array, ""]]:
    """Return the log likelihood as a function of (θ, a, d) whose gradient costs no second pass.

    Parameters
    ----------
    layout : Layout, or rows shared out over devices
    family : Family

    Returns
    -------
    callable
        (θ, a, d) → Σ ℓ over the observed cells. Its reverse-mode gradient is the family's score,
        summed over rows and columns in the pass that computes the value.
    """
    return partial(_log_likelihood, family, layout)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _log_likelihood(
    family: Family, layout: ByRows, theta: Array, a: Array, d: Array
) -> Float[Array, ""]:
    return _value_and_gradient(family, layout, theta, a, d)[0]


def _value_and_gradient(
    family: Family, layout: ByRows, theta: Array, a: Array, d: Array
) -> tuple[Array, tuple[Array, ...]]:
    by_theta, (value, *by_items) = layout.by_rows(partial(_row_terms, family), theta, a, d)
    return value, (by_theta, *by_items)


def _row_terms(
    family: Family, layout: Layout, theta: Array, a: Array, d: Array
) -> tuple[Array, tuple[Array, ...]]:
    """Return the gradient in θ, and what is summed over rows: the value and the rest of it."""
    eta = layout.predictor(theta, a, d)
    terms = family.terms(eta, layout.successes, layout.trials)
    sums = (
        terms.log_likelihood.sum(),
        layout.over_subjects(terms.score, theta),
        layout.over_subjects(terms.score, jnp.ones_like(theta)),
    )
    return layout.over_items(terms.score, a), sums


def _scaled(_family: Family, gradient: tuple[Array, ...], scale: Array) -> tuple[Array | None, ...]:
    return None, *(scale * g for g in gradient)


_log_likelihood.defvjp(_value_and_gradient, _scaled)

"""Passes over the data, which sum log likelihoods, scores and information of cells in 32 bits.

Blocks of rows that fit into the cache are evaluated one after another, so that no floating-point
matrix is ever as large as the data.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.likelihood.cell_sums import ByRows, Layout, SparseLayout, in_row_blocks
from bayesirt.likelihood.family import Family, PredictorTerms
from bayesirt.likelihood.loadings import Loadings


class ItemSums(NamedTuple):
    """Sums of each item, for the coefficients of its predictors."""

    log_likelihood: Float[Array, " item"]
    score: Float[Array, "item dim"]
    # For slopes and intercept Σ_i w (θ, 1)(θ, 1)ᵀ; 0 in empty slots.
    information: Float[Array, "item dim dim"]
    # With one ability, the derivative of the information of (a, d) in each of them:
    # Σ_i w' (θ, 1)(θ, 1)ᵀ(θ, 1).
    information_slope: Float[Array, "item two two two"] | None = None


class SubjectSums(NamedTuple):
    """Sums of each subject, for its abilities."""

    log_likelihood: Float[Array, " subject"]
    score: Float[Array, "subject ability"]
    information: Float[Array, "subject ability ability"]


class Passes(NamedTuple):
    """Passes over responses, wherever their rows are stored."""

    layout: ByRows
    family: Family
    loadings: Loadings
    # Precision of the computations for each cell of a matrix. Lists of cells and all sums have the
    # precision of the parameters. 32 bits change the log ratio of a step by about 1e-6 and are
    # three times as fast as 64.
    dtype: DTypeLike = jnp.float32
    # Approximate number of cells of a matrix that are held as floating-point numbers at a time.
    block_cells: int = 1 << 16

    def item_sums(
        self, theta: Float[Array, "subject ability"], coefficients: Float[Array, "item dim"]
    ) -> ItemSums:
        """Return the sums over subjects, with one evaluation of every cell."""
        return self.by_rows(self._summed, theta, coefficients)[1]

    def subject_sums(
        self, theta: Float[Array, "subject ability"], coefficients: Float[Array, "item dim"]
    ) -> SubjectSums:
        """Return the sums over items, with one evaluation of every cell."""
        return self.by_rows(self._of_subjects, theta, coefficients)[0]

    def both_sums(
        self, theta: Float[Array, "subject ability"], coefficients: Float[Array, "item dim"]
    ) -> tuple[SubjectSums, ItemSums]:
        """Return the sums over items and over subjects, with one evaluation of every cell."""
        return self.by_rows(self._both, theta, coefficients)

    def thresholds(self, theta: Float[Array, " subject"]) -> Float[Array, " item"]:
        """Return roughly the ability at which each item distinguishes subjects best.

        It is a weighted mean of the mean abilities for right and wrong answers, in which the rarer
        kind of answer has more weight. One right answer one standard deviation above the mean
        ability and one wrong answer one below are added.
        """

        def sums(layout: Layout, theta: Array) -> tuple[tuple[()], tuple[Array, Array]]:
            dtype = self.dtype_of(layout, theta)
            weights = jnp.column_stack([theta, jnp.ones_like(theta)]).astype(dtype)
            cells = layout.successes, layout.trials
            right, trials = (layout.over_subjects(x.astype(dtype), weights) for x in cells)
            return (), (right, trials - right)

        answers = self.layout.by_rows(sums, theta)[1]
        ends = theta.mean() + theta.std() * jnp.array([1.0, -1.0])
        right, wrong = (
            x.astype(theta.dtype) + jnp.stack([end, jnp.ones_like(end)])
            for x, end in zip(answers, ends, strict=True)
        )
        total = right[:, 1] + wrong[:, 1]
        means = right[:, 0] / right[:, 1], wrong[:, 0] / wrong[:, 1]
        return (wrong[:, 1] * means[0] + right[:, 1] * means[1]) / total

    def by_rows(
        self,
        function: Callable[..., tuple[Any, Any]],
        rows: Any,
        coefficients: Float[Array, "item dim"],
    ) -> tuple[Any, Any]:
        """Apply `function(layout, rows, slopes, others)` → (rows, sums) block by block."""

        def in_blocks(layout: Layout, rows: Any, *others: Any) -> tuple[Any, Any]:
            return in_row_blocks(layout, self.block_cells).by_rows(function, rows, *others)

        split = self.loadings.width
        slopes, others = self.loadings.slopes(coefficients[:, :split]), coefficients[:, split:]
        return self.layout.by_rows(in_blocks, rows, slopes, tuple(others.T))

    def _of_subjects(
        self, layout: Layout, theta: Array, slopes: Array, others: tuple[Array, ...]
    ) -> tuple[SubjectSums, tuple[()]]:
        return self._both(layout, theta, slopes, others)[0], ()

    def _both(
        self, layout: Layout, theta: Array, slopes: Array, others: tuple[Array, ...]
    ) -> tuple[SubjectSums, ItemSums]:
        terms, _ = self.terms_of(layout, theta, slopes, others)
        value = layout.over_items(terms.log_likelihood, jnp.ones_like(others[0], self.dtype))
        score = self.score_over_items(layout, terms.score[0], slopes)
        learnt = self.learnt_over_items(layout, terms.information[0][0], slopes)
        sums = SubjectSums(value, score, learnt)
        sums = jax.tree.map(lambda x: x.astype(theta.dtype), sums)
        return sums, self.sums_over_subjects(layout, theta, terms)

    def _summed(
        self, layout: Layout, theta: Array, slopes: Array, others: tuple[Array, ...]
    ) -> tuple[tuple[()], ItemSums]:
        terms, growth = self.terms_of(layout, theta, slopes, others)
        return (), self.sums_over_subjects(layout, theta, terms, growth)

    def terms_of(
        self, layout: Layout, theta: Array, slopes: Array, others: tuple[Array, ...]
    ) -> tuple[PredictorTerms, Array]:
        """Return each cell's terms, and w' = ∂w/∂η, the growth of its information."""
        dtype = self.dtype_of(layout, theta)
        d, *further = (x.astype(dtype) for x in others)
        eta = layout.predictor(theta.astype(dtype), slopes.astype(dtype), d)
        item_values = [layout.of_items(x) for x in further]

        def information(eta: Array) -> tuple[Array, PredictorTerms]:
            terms = self.family.every(eta, layout.successes, layout.trials, *item_values)
            return terms.information[0][0], terms

        _, growth, terms = jax.jvp(information, (eta,), (jnp.ones_like(eta),), has_aux=True)
        return terms, growth

    def score_over_items(self, layout: Layout, score: Array, slopes: Array) -> Array:
        """Return each subject's score from the cells' scores in η."""
        return layout.over_items(score, slopes.astype(score.dtype))

    def learnt_over_items(self, layout: Layout, information: Array, slopes: Array) -> Array:
        """Return each subject's information from the cells' information about η."""
        products = self.loadings.products(slopes.astype(information.dtype))
        return self.loadings.as_matrices(layout.over_items(information, products))

    def sums_over_subjects(
        self, layout: Layout, theta: Array, terms: PredictorTerms, growth: Array | None = None
    ) -> ItemSums:
        """Return each item's sums; with one ability and given w', also the information's slope."""
        row = theta.astype(terms.log_likelihood.dtype)
        over, one = layout.over_subjects, jnp.ones_like(row[:, 0])
        with_one, n_pairs = jnp.column_stack([row, one]), self.loadings.pairs.shape[1]
        (of_eta, *mixed), *others = terms.information
        sums = over(of_eta, jnp.column_stack([self.loadings.products(row), with_one]))
        mixed_sums = [self._in_slots(over(w, with_one)) for w in mixed]
        score = self._in_slots(over(terms.score[0], with_one))
        own = self._in_slots(sums[:, n_pairs:])
        slopes = jnp.concatenate([self.loadings.own_pairs(sums[:, :n_pairs]), own[:, None, :-1]], 1)
        block = jnp.concatenate([slopes, own[:, :, None]], 2)
        information = jnp.concatenate([block, *(x[:, :, None] for x in mixed_sums)], 2)
        for k, w in enumerate(others):
            last = jnp.column_stack([mixed_sums[k], *(over(x, one) for x in w[1:])])
            information = jnp.concatenate([information, last[:, None]], 1)
        several = row.shape[1] > 1
        item_sums = ItemSums(
            over(terms.log_likelihood, one),
            jnp.column_stack([score, *(over(s, one) for s in terms.score[1:])]),
            information,
            None if several or growth is None else _of_powers(over(growth, row ** jnp.arange(4))),
        )
        return jax.tree.map(lambda x: x.astype(theta.dtype), item_sums)

    def _in_slots(self, values: Float[Array, "item ability_and_one"]) -> Array:
        return jnp.column_stack([self.loadings.own(values[:, :-1]), values[:, -1]])

    def dtype_of(self, layout: Layout, theta: Array) -> DTypeLike:
        """Return the dtype in which a layout's cells are computed."""
        return theta.dtype if isinstance(layout, SparseLayout) else self.dtype


def _of_powers(sums: Float[Array, "item power"]) -> Float[Array, "item two two two"]:
    """Return Σ_i w' zzᵀz for z = (θ, 1) from Σ_i w' θᵏ."""
    intercepts = jnp.indices((2, 2, 2)).sum(0)
    return sums[:, 3 - intercepts]

"""Passes over responses whose subjects have many abilities: two products of matrices each.

What subjects learn of pairs of abilities is one product of the cells' information with the items'
products of discriminations; what items learn, one with the subjects' products of abilities. Only
pairs that some item needs both of are kept.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.families import LOGIT, CellTerms, Family
from bayesirt.inference.block_steps import Chance, Conditional, newton_move, shortened
from bayesirt.inference.q_mirt_sites import Pattern, pairs_needed
from bayesirt.inference.two_pl_passes import ItemSums, SubjectStep
from bayesirt.likelihood import DenseLayout, Layout, in_row_blocks

_LEAST_SHARE = 0.1
"""Of the most that a cell can tell: where steep items tell nothing at all, a subject would propose
so far that it hardly ever came back, and stay for long once it was there."""


class SubjectSums(NamedTuple):
    """What the responses say about each subject.

    Attributes
    ----------
    log_likelihood : float array, shape (subject,)
    score : float array, shape (subject, ability)
    information : float array, shape (subject, ability, ability)
    """

    log_likelihood: Float[Array, " subject"]
    score: Float[Array, "subject ability"]
    information: Float[Array, "subject ability ability"]


class QMirtPasses(NamedTuple):
    """Passes over a matrix of responses.

    Attributes
    ----------
    layout : DenseLayout
    pattern : Pattern
    family : Family
    dtype : dtype
        Of what is computed for each cell; sums have that of the parameters.
    block_cells : int
        About how many cells are held as floating-point numbers at a time.
    least_share : float
        Least information of a cell in proposals of subjects, as a share of the most that it can
        have.
    """

    layout: DenseLayout
    pattern: Pattern
    family: Family = LOGIT
    dtype: DTypeLike = jnp.float32
    block_cells: int = 1 << 16
    least_share: float = _LEAST_SHARE

    def move_subjects(
        self,
        chance: Chance,
        theta: Float[Array, "subject ability"],
        a: Float[Array, " loading"],
        d: Float[Array, " item"],
        prior_precision: Float[Array, "ability ability"],
        shares: Float[Array, " subject"] | None = None,
    ) -> SubjectStep:
        """Make one Newton-Metropolis step of every subject: two evaluations of every cell.

        Parameters
        ----------
        chance : Chance
        theta : float array, shape (subject, ability)
        a : float array, shape (loading,)
        d : float array, shape (item,)
        prior_precision : float array, shape (ability, ability)
            Ω⁻¹.
        shares : float array, shape (subject,), optional
            Of Newton's step, as `shortened` takes them; by default 1.

        Returns
        -------
        SubjectStep
        """
        slopes = self.pattern.slopes(a)
        others = slopes, d, prior_precision
        rows = theta, chance, jnp.ones_like(theta[:, 0]) if shares is None else shares
        (theta, accepted), sums = self._by_rows(self._moved, rows, *others)
        return SubjectStep(theta, accepted, sums)

    def item_sums(
        self, theta: Float[Array, "subject ability"], coefficients: Float[Array, "item dim"]
    ) -> ItemSums:
        """Return the sums at θ and the coefficients: one evaluation of every cell.

        Parameters
        ----------
        theta : float array, shape (subject, ability)
        coefficients : float array, shape (item, dim)
            Discriminations in slots, and d.

        Returns
        -------
        ItemSums
        """
        a = coefficients[self.pattern.item, self.pattern.slot]
        return self._by_rows(self._summed, theta, self.pattern.slopes(a), coefficients[:, -1])[1]

    def subject_sums(
        self,
        theta: Float[Array, "subject ability"],
        a: Float[Array, " loading"],
        d: Float[Array, " item"],
    ) -> SubjectSums:
        """Return the sums over items: one evaluation of every cell.

        Parameters
        ----------
        theta : float array, shape (subject, ability)
        a : float array, shape (loading,)
        d : float array, shape (item,)

        Returns
        -------
        SubjectSums
        """
        return self._by_rows(self._summed_over_items, theta, self.pattern.slopes(a), d)[0]

    def _by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        return in_row_blocks(self.layout, self.block_cells).by_rows(function, rows, *others)

    def _moved(
        self,
        layout: Layout,
        rows: tuple[Array, Chance, Array],
        slopes: Array,
        d: Array,
        prior_precision: Array,
    ) -> tuple[tuple[Array, Array], ItemSums]:
        theta, chance, shares = rows

        def evaluate(position: Array) -> tuple[Conditional, CellTerms]:
            terms = self._terms(layout, position, slopes, d)
            least = self.least_share * self.family.bound(layout.trials)
            proposing = terms._replace(information=jnp.maximum(terms.information, least))
            _, score, learnt = self._over_items(proposing, slopes)
            pulled = position @ prior_precision
            value = -(pulled * position).sum(1) / 2
            whole = Conditional(value, score - pulled, learnt + prior_precision)
            return shortened(whole, shares), terms

        def gain(old: CellTerms, new: CellTerms) -> Array:
            change = (new.log_likelihood - old.log_likelihood).sum(1)
            return change.astype(theta.dtype)

        step = newton_move(chance, theta, evaluate, gain=gain)
        accepted = step.accepted[:, None]
        terms = jax.tree.map(partial(jnp.where, accepted), step.notes[1], step.notes[0])
        return (step.position, step.accepted), self._sums_of(step.position, terms)

    def _summed(
        self, layout: Layout, theta: Array, slopes: Array, d: Array
    ) -> tuple[tuple[()], ItemSums]:
        return (), self._sums_of(theta, self._terms(layout, theta, slopes, d))

    def _summed_over_items(
        self, layout: Layout, theta: Array, slopes: Array, d: Array
    ) -> tuple[SubjectSums, tuple[()]]:
        return self._over_items(self._terms(layout, theta, slopes, d), slopes), ()

    def _over_items(self, terms: CellTerms, slopes: Array) -> SubjectSums:
        pairs, place = self._pairs()
        products = slopes[:, pairs[0]] * slopes[:, pairs[1]]
        learnt = jnp.pad(terms.information @ products.astype(self.dtype), ((0, 0), (0, 1)))
        sums = SubjectSums(
            terms.log_likelihood.sum(1),
            terms.score @ slopes.astype(self.dtype),
            learnt[:, place],
        )
        return jax.tree.map(lambda x: x.astype(slopes.dtype), sums)

    def _terms(self, layout: Layout, theta: Array, slopes: Array, d: Array) -> CellTerms:
        theta, slopes, d = (x.astype(self.dtype) for x in (theta, slopes, d))
        return self.family.terms(theta @ slopes.T + d, layout.successes, layout.trials)

    def _sums_of(self, theta: Array, terms: CellTerms) -> ItemSums:
        row = theta.astype(self.dtype)
        pairs, place = self._pairs()
        own = self.pattern.ability_of_slot
        filled = jnp.asarray(self.pattern.filled, self.dtype)
        slot_score = self._own(terms.score.T @ row) * filled
        cross = self._own(terms.information.T @ row) * filled
        learnt = terms.information.T @ (row[:, pairs[0]] * row[:, pairs[1]])
        both = np.minimum(place[own[:, :, None], own[:, None, :]], pairs.shape[1] - 1)
        within = jnp.take_along_axis(learnt, both.reshape(len(own), -1), 1).reshape(both.shape)
        within = within * filled[:, :, None] * filled[:, None, :]
        alone = terms.information.sum(0)[:, None]
        information = jnp.concatenate(
            [
                jnp.concatenate([within, cross[:, :, None]], 2),
                jnp.concatenate([cross, alone], 1)[:, None, :],
            ],
            1,
        )
        score = jnp.concatenate([slot_score, terms.score.sum(0)[:, None]], 1)
        sums = ItemSums(terms.log_likelihood.sum(0), score, information)
        return jax.tree.map(lambda x: x.astype(theta.dtype), sums)

    def _own(self, values: Float[Array, "item ability"]) -> Float[Array, "item slot"]:
        return jnp.take_along_axis(values, jnp.asarray(self.pattern.ability_of_slot), 1)

    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the pairs that are kept, and the place of each; others have one after the last."""
        pairs = pairs_needed(self.pattern)
        place = np.full((self.pattern.n_abilities,) * 2, pairs.shape[1])
        place[pairs[0], pairs[1]] = place[pairs[1], pairs[0]] = np.arange(pairs.shape[1])
        return pairs, place

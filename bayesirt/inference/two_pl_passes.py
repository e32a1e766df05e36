"""Passes over the data for blocked moves of the 2PL: few evaluations, in cache, in 32 bits.

A subject's step depends on its own cells only. So one pass over blocks of rows evaluates the
present and the proposal, decides, and sums what the accepted state says about the items: no
matrix of floating-point numbers is ever as large as the data.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from bayesirt.families import LOGIT, Family, PredictorTerms
from bayesirt.inference.block_steps import Chance, Conditional, derivatives, newton_move
from bayesirt.likelihood import ByRows, Layout, SparseLayout, in_row_blocks

LogPrior = Callable[..., Float[Array, " subject"]]


class ItemSums(NamedTuple):
    """What the responses say about each item.

    Attributes
    ----------
    log_likelihood : float array, shape (item,)
        Σ_i ℓ.
    score : float array, shape (item, dim)
        The gradient for the coefficients of its predictor; for (a, d), Σ_i s θ and Σ_i s.
    information : float array, shape (item, dim, dim)
        Of the coefficients; of (a, d), Σ_i w (θ, 1)(θ, 1)ᵀ.
    """

    log_likelihood: Float[Array, " item"]
    score: Float[Array, "item dim"]
    information: Float[Array, "item dim dim"]


class SubjectSums(NamedTuple):
    """What the responses say about each subject's ability.

    Attributes
    ----------
    log_likelihood, score, information : float array, shape (subject,)
    """

    log_likelihood: Float[Array, " subject"]
    score: Float[Array, " subject"]
    information: Float[Array, " subject"]


class OfItems(Protocol):
    """Responses that can be summed over subjects."""

    def item_sums(self, theta: Array, coefficients: Array) -> ItemSums:
        """Return the sums at abilities and at the coefficients of each item's predictor."""
        ...


class SubjectStep(NamedTuple):
    """Where subjects have gone.

    Attributes
    ----------
    theta : float array, shape (subject,)
    accepted : bool array, shape (subject,)
    sums : ItemSums
        At the new abilities.
    """

    theta: Float[Array, " subject"]
    accepted: Array
    sums: ItemSums


class Passes(NamedTuple):
    """Passes over responses, wherever their rows are.

    Attributes
    ----------
    layout : Layout or RowShards
    family : Family
    dtype : dtype
        Of what is computed for each cell of a matrix; lists of cells are computed in that of the
        parameters, which sums have too. 32 bits change the log ratio of a step by about 1e-6 and
        are three times as fast as 64.
    block_cells : int
        About how many cells of a matrix are held as floating-point numbers at a time.
    """

    layout: ByRows
    family: Family = LOGIT
    dtype: DTypeLike = jnp.float32
    block_cells: int = 1 << 16

    def move_subjects(
        self,
        chance: Chance,
        theta: Array,
        a: Array,
        d: Array,
        log_prior: LogPrior,
        own: tuple[Array, ...] = (),
        further: tuple[Array, ...] = (),
    ) -> SubjectStep:
        """Make one Newton-Metropolis step of every subject: two evaluations of every cell.

        Parameters
        ----------
        chance : Chance
        theta : float array, shape (subject,)
        a, d : float array, shape (item,)
        log_prior : jax.tree_util.Partial
            (θ, *own) → log prior density of each. What it holds is sent to every device.
        own : tuple of float arrays, shape (subject,)
            What the priors of single subjects depend on.
        further : tuple of float arrays, shape (item,)
            The family's predictors beside η.

        Returns
        -------
        SubjectStep
        """
        rows = theta, chance, own
        (theta, accepted), sums = self._by_rows(self._moved, rows, (a, d, *further), log_prior)
        return SubjectStep(theta, accepted, sums)

    def item_sums(self, theta: Array, coefficients: Float[Array, "item dim"]) -> ItemSums:
        """Return the sums at (θ, a, d): one evaluation of every cell.

        Parameters
        ----------
        theta : float array, shape (subject,)
        coefficients : float array, shape (item, dim)
            Of each item's predictors: a, d, and the family's predictors beside η.

        Returns
        -------
        ItemSums
        """
        return self._by_rows(self._summed, theta, tuple(coefficients.T))[1]

    def subject_sums(self, theta: Array, *coefficients: Array) -> SubjectSums:
        """Return what each subject's responses say: one evaluation of every cell.

        Parameters
        ----------
        theta : float array, shape (subject,)
        *coefficients : float array, shape (item,)
            a, d, and the family's predictors beside η.

        Returns
        -------
        SubjectSums
        """
        return SubjectSums(*self._by_rows(self._of_subjects, theta, coefficients)[0])

    def _by_rows(
        self, function: Callable[..., tuple[Any, Any]], rows: Any, *others: Any
    ) -> tuple[Any, Any]:
        def in_blocks(layout: Layout, rows: Any, *others: Any) -> tuple[Any, Any]:
            return in_row_blocks(layout, self.block_cells).by_rows(function, rows, *others)

        return self.layout.by_rows(in_blocks, rows, *others)

    def _moved(
        self,
        layout: Layout,
        rows: tuple[Array, Chance, tuple[Array, ...]],
        coefficients: tuple[Array, ...],
        log_prior: LogPrior,
    ) -> tuple[tuple[Array, Array], ItemSums]:
        theta, chance, own = rows
        slope = coefficients[0].astype(self._dtype_of(layout, theta))

        def evaluate(position: Array) -> tuple[Conditional, PredictorTerms]:
            theta = position[:, 0]
            terms = self._terms(layout, theta, coefficients)
            score = layout.over_items(terms.score[0], slope)
            information = layout.over_items(terms.information[0][0], slope**2)
            return _with_prior(theta, own, log_prior, score, information), terms

        def gain(old: PredictorTerms, new: PredictorTerms) -> Array:
            change = new.log_likelihood - old.log_likelihood
            return layout.over_items(change, jnp.ones_like(slope))

        step = newton_move(chance, theta[:, None], evaluate, gain=gain)
        accepted = layout.to_cells(step.accepted)
        terms = jax.tree.map(partial(jnp.where, accepted), step.notes[1], step.notes[0])
        theta = step.position[:, 0]
        return (theta, step.accepted), self._sums_of(layout, theta, terms)

    def _of_subjects(
        self, layout: Layout, theta: Array, coefficients: tuple[Array, ...]
    ) -> tuple[tuple[Array, ...], tuple[()]]:
        terms = self._terms(layout, theta, coefficients)
        slope = coefficients[0].astype(self._dtype_of(layout, theta))
        weighted = (
            (terms.log_likelihood, jnp.ones_like(slope)),
            (terms.score[0], slope),
            (terms.information[0][0], slope**2),
        )
        return tuple(layout.over_items(*own).astype(theta.dtype) for own in weighted), ()

    def _summed(
        self, layout: Layout, theta: Array, coefficients: tuple[Array, ...]
    ) -> tuple[tuple[()], ItemSums]:
        return (), self._sums_of(layout, theta, self._terms(layout, theta, coefficients))

    def _terms(
        self, layout: Layout, theta: Array, coefficients: tuple[Array, ...]
    ) -> PredictorTerms:
        dtype = self._dtype_of(layout, theta)
        a, d, *further = (x.astype(dtype) for x in coefficients)
        eta = layout.predictor(theta.astype(dtype), a, d)
        return self.family.every(
            eta, layout.successes, layout.trials, *map(layout.of_items, further)
        )

    def _sums_of(self, layout: Layout, theta: Array, terms: PredictorTerms) -> ItemSums:
        row = theta.astype(self._dtype_of(layout, theta))
        one, over = jnp.ones_like(row), layout.over_subjects
        eta, *further = terms.score
        (of_eta, *mixed), *others = terms.information
        aa, ad, dd = (over(of_eta, x) for x in (row**2, row, one))
        beside = [[over(w, x) for w in mixed] for x in (row, one)]
        rows = [[aa, ad, *beside[0]], [ad, dd, *beside[1]]]
        for k, own in enumerate(others):
            rows.append([beside[0][k], beside[1][k], *(over(w, one) for w in own[1:])])
        score = [over(eta, row), over(eta, one), *(over(s, one) for s in further)]
        sums = ItemSums(
            over(terms.log_likelihood, one),
            jnp.stack(score, -1),
            jnp.stack([jnp.stack(x, -1) for x in rows], -2),
        )
        return jax.tree.map(lambda x: x.astype(theta.dtype), sums)

    def _dtype_of(self, layout: Layout, theta: Array) -> DTypeLike:
        return theta.dtype if isinstance(layout, SparseLayout) else self.dtype


def _with_prior(
    theta: Array,
    own: tuple[Array, ...],
    log_prior: LogPrior,
    score: Array,
    information: Array,
) -> Conditional:
    def prior(theta: Array) -> Array:
        return log_prior(theta, *own)

    slope, curvature = derivatives(prior, theta)
    precision = information + jnp.maximum(-curvature, jnp.finfo(theta.dtype).tiny)
    return Conditional(prior(theta), (score + slope)[:, None], precision[:, None, None])

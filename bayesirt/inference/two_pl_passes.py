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
from jaxtyping import Array, Float, Int

from bayesirt.families import LOGIT, CellTerms, Family
from bayesirt.inference.block_steps import Chance, Conditional, choose, derivatives, newton_move
from bayesirt.inference.row_shards import RowShards, in_blocks
from bayesirt.likelihood import DenseLayout, Layout, SparseLayout

_BLOCK_CELLS = 1 << 16
_LEAST_ROWS = 16

LogPrior = Callable[[Float[Array, " subject"]], Float[Array, " subject"]]


class ItemSums(NamedTuple):
    """What the responses say about each item.

    Attributes
    ----------
    log_likelihood : float array, shape (part, item)
        Σ_i ℓ in several parts: differences of parts lose fewer digits than those of sums.
    score : float array, shape (item, 2)
        Σ_i s θ and Σ_i s: the gradient for (a, d).
    information : float array, shape (item, 2, 2)
        Of (a, d): Σ_i w (θ, 1)(θ, 1)ᵀ.
    """

    log_likelihood: Float[Array, "part item"]
    score: Float[Array, "item 2"]
    information: Float[Array, "item 2 2"]


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


class Passes(Protocol):
    """What both layouts offer."""

    def move_subjects(
        self, chance: Chance, theta: Array, a: Array, d: Array, log_prior: LogPrior
    ) -> SubjectStep:
        """Make one Newton-Metropolis step of every subject."""
        ...

    def item_sums(self, theta: Array, a: Array, d: Array) -> ItemSums:
        """Return the sums at (θ, a, d)."""
        ...


class DensePasses(NamedTuple):
    """Passes over matrices, block of rows by block of rows.

    Attributes
    ----------
    successes, trials : int array, shape (block, row, item)
        The last block is filled up with rows without trials.
    family : Family
    dtype : dtype
        Of what is computed for each cell. Sums over blocks have the parameters' dtype.
    """

    successes: Int[Array, "block row item"]
    trials: Int[Array, "block row item"]
    family: Family
    dtype: DTypeLike

    def move_subjects(
        self, chance: Chance, theta: Array, a: Array, d: Array, log_prior: LogPrior
    ) -> SubjectStep:
        """Make one Newton-Metropolis step of every subject: two evaluations of every cell.

        Parameters
        ----------
        chance : Chance
        theta : float array, shape (subject,)
        a, d : float array, shape (item,)
        log_prior : callable
            θ → log prior density of each.

        Returns
        -------
        SubjectStep
        """
        slope, level = a.astype(self.dtype), d.astype(self.dtype)
        each_item = jnp.ones_like(slope)

        def evaluate(
            successes: Array, trials: Array, position: Array
        ) -> tuple[Conditional, CellTerms]:
            theta = position[:, 0]
            eta = theta[:, None].astype(self.dtype) * slope + level
            terms = self.family.terms(eta, successes, trials)
            score, information = terms.score @ slope, terms.information @ slope**2
            return _with_prior(theta, log_prior, score, information), terms

        def gain(old: CellTerms, new: CellTerms) -> Array:
            return (new.log_likelihood - old.log_likelihood) @ each_item

        def one_block(
            sums: ItemSums, block: tuple[Array, Array, Array, Chance]
        ) -> tuple[ItemSums, tuple[Array, Array, Array]]:
            successes, trials, theta, chance = block
            step = newton_move(
                chance, theta[:, None], partial(evaluate, successes, trials), gain=gain
            )
            terms = jax.tree.map(partial(choose, step.accepted), step.notes[1], step.notes[0])
            theta = step.position[:, 0]
            own = self._sums_of(theta, terms)
            return _added(sums, own), (theta, step.accepted, own.log_likelihood[0])

        blocks = (self.successes, self.trials, self._in_blocks(theta), self._in_blocks(chance))
        sums, found = jax.lax.scan(one_block, self._no_sums(a), blocks)
        new_theta, accepted, parts = found
        n = len(theta)
        return SubjectStep(
            new_theta.reshape(-1)[:n],
            accepted.reshape(-1)[:n],
            sums._replace(log_likelihood=parts),
        )

    def item_sums(self, theta: Array, a: Array, d: Array) -> ItemSums:
        """Return the sums at (θ, a, d): one evaluation of every cell.

        Parameters
        ----------
        theta : float array, shape (subject,)
        a, d : float array, shape (item,)

        Returns
        -------
        ItemSums
        """
        slope, level = a.astype(self.dtype), d.astype(self.dtype)

        def one_block(sums: ItemSums, block: tuple[Array, Array, Array]) -> tuple[ItemSums, Array]:
            successes, trials, theta = block
            eta = theta[:, None].astype(self.dtype) * slope + level
            own = self._sums_of(theta, self.family.terms(eta, successes, trials))
            return _added(sums, own), own.log_likelihood[0]

        blocks = (self.successes, self.trials, self._in_blocks(theta))
        sums, parts = jax.lax.scan(one_block, self._no_sums(a), blocks)
        return sums._replace(log_likelihood=parts)

    def _sums_of(self, theta: Array, terms: CellTerms) -> ItemSums:
        theta = theta.astype(self.dtype)
        one = jnp.ones_like(theta)
        aa, ad, dd = jnp.stack([theta**2, theta, one]) @ terms.information
        return ItemSums(
            one[None] @ terms.log_likelihood,
            (jnp.stack([theta, one]) @ terms.score).T,
            jnp.stack([aa, ad, ad, dd], -1).reshape(-1, 2, 2),
        )

    def _no_sums(self, a: Array) -> ItemSums:
        n = len(a)
        zeros = partial(jnp.zeros, dtype=a.dtype)
        return ItemSums(zeros((0, n)), zeros((n, 2)), zeros((n, 2, 2)))

    def _in_blocks(self, values: Any) -> Any:
        n_blocks, n_rows = self.trials.shape[:2]
        return jax.tree.map(partial(in_blocks, n_blocks=n_blocks, n_rows=n_rows), values)


class SparsePasses(NamedTuple):
    """Passes over lists of observed cells: plain evaluations, in the parameters' dtype.

    Attributes
    ----------
    layout : SparseLayout
    family : Family
    """

    layout: SparseLayout
    family: Family

    def move_subjects(
        self, chance: Chance, theta: Array, a: Array, d: Array, log_prior: LogPrior
    ) -> SubjectStep:
        """Make one Newton-Metropolis step of every subject: two evaluations of every cell.

        Parameters
        ----------
        chance : Chance
        theta : float array, shape (subject,)
        a, d : float array, shape (item,)
        log_prior : callable
            θ → log prior density of each.

        Returns
        -------
        SubjectStep
        """
        each_item = jnp.ones_like(a)

        def evaluate(position: Array) -> tuple[Conditional, CellTerms]:
            theta = position[:, 0]
            terms = self._terms(theta, a, d)
            score = self.layout.over_items(terms.score, a)
            information = self.layout.over_items(terms.information, a**2)
            return _with_prior(theta, log_prior, score, information), terms

        def gain(old: CellTerms, new: CellTerms) -> Array:
            return self.layout.over_items(new.log_likelihood - old.log_likelihood, each_item)

        step = newton_move(chance, theta[:, None], evaluate, gain=gain)
        accepted = step.accepted[self.layout.subject]
        terms = jax.tree.map(partial(choose, accepted), step.notes[1], step.notes[0])
        new_theta = step.position[:, 0]
        return SubjectStep(new_theta, step.accepted, self._sums_of(new_theta, terms))

    def item_sums(self, theta: Array, a: Array, d: Array) -> ItemSums:
        """Return the sums at (θ, a, d): one evaluation of every cell."""
        return self._sums_of(theta, self._terms(theta, a, d))

    def _terms(self, theta: Array, a: Array, d: Array) -> CellTerms:
        eta = self.layout.predictor(theta, a, d)
        return self.family.terms(eta, self.layout.successes, self.layout.trials)

    def _sums_of(self, theta: Array, terms: CellTerms) -> ItemSums:
        one, over = jnp.ones_like(theta), self.layout.over_subjects
        aa, ad, dd = (over(terms.information, x) for x in (theta**2, theta, one))
        return ItemSums(
            over(terms.log_likelihood, one)[None],
            jnp.stack([over(terms.score, theta), over(terms.score, one)], -1),
            jnp.stack([aa, ad, ad, dd], -1).reshape(-1, 2, 2),
        )


class SharedPasses(NamedTuple):
    """Passes of every device over its own rows; sums are added up over devices.

    Attributes
    ----------
    shards : RowShards
    own : callable
        A device's layout → its passes.
    """

    shards: RowShards
    own: Callable[[Layout], Passes]

    def move_subjects(
        self, chance: Chance, theta: Array, a: Array, d: Array, log_prior: LogPrior
    ) -> SubjectStep:
        """Make one Newton-Metropolis step of every subject, as on one device.

        Devices must be given what `log_prior` holds: it is a `jax.tree_util.Partial`.
        """

        def on_device(
            layout: Layout, rows: tuple[Chance, Array], a: Array, d: Array, log_prior: LogPrior
        ) -> tuple[tuple[Array, Array], ItemSums]:
            step = self.own(layout).move_subjects(*rows, a, d, log_prior)
            return (step.theta, step.accepted), step.sums

        (theta, accepted), sums = self.shards.by_rows(on_device, (chance, theta), a, d, log_prior)
        return SubjectStep(theta, accepted, sums)

    def item_sums(self, theta: Array, a: Array, d: Array) -> ItemSums:
        """Return the sums at (θ, a, d): one evaluation of every cell."""

        def on_device(
            layout: Layout, theta: Array, a: Array, d: Array
        ) -> tuple[tuple[()], ItemSums]:
            return (), self.own(layout).item_sums(theta, a, d)

        return self.shards.by_rows(on_device, theta, a, d)[1]


def passes_over(
    layout: Layout | RowShards,
    *,
    family: Family = LOGIT,
    dtype: DTypeLike = jnp.float32,
    block_cells: int = _BLOCK_CELLS,
) -> Passes:
    """Return the passes over a layout.

    Parameters
    ----------
    layout : Layout or RowShards
    family : Family
    dtype : dtype
        Of what is computed for each cell of a matrix. 32 bits change the log ratio of a step by
        about 1e-6 and are three times as fast as 64.
    block_cells : int
        About how many cells of a matrix are held as floating-point numbers at a time.

    Returns
    -------
    DensePasses, SparsePasses or SharedPasses
    """
    if isinstance(layout, RowShards):
        own = partial(passes_over, family=family, dtype=dtype, block_cells=block_cells)
        return SharedPasses(layout, own)
    if isinstance(layout, SparseLayout):
        return SparsePasses(layout, family)
    return DensePasses(*_row_blocks(layout, block_cells), family, dtype)


def _row_blocks(layout: DenseLayout, block_cells: int) -> tuple[Array, Array]:
    n_subjects, n_items = layout.trials.shape
    most_rows = max(block_cells // n_items, min(_LEAST_ROWS, n_subjects))
    n_blocks = -(-n_subjects // most_rows)
    blocks = partial(in_blocks, n_blocks=n_blocks, n_rows=-(-n_subjects // n_blocks))
    return blocks(layout.successes), blocks(layout.trials)


def _with_prior(theta: Array, log_prior: LogPrior, score: Array, information: Array) -> Conditional:
    slope, curvature = derivatives(log_prior, theta)
    precision = information + jnp.maximum(-curvature, jnp.finfo(theta.dtype).tiny)
    return Conditional(log_prior(theta), (score + slope)[:, None], precision[:, None, None])


def _added(sums: ItemSums, own: ItemSums) -> ItemSums:
    return ItemSums(sums.log_likelihood, sums.score + own.score, sums.information + own.information)

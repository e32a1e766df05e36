"""Pairs of items whose answers are correlated beyond what ability explains (Q3)."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesirt.checks.fit.cell_residuals import (
    Counts,
    Draw,
    Draws,
    refuse_other_models,
    residuals,
    with_room,
)
from bayesirt.checks.fit.tail_probabilities import LEAST_SHARE, StandardisedSums, to_normal
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.host_arrays import host
from bayesirt.names import one_line
from bayesirt.posterior import Posterior

MOST_PAIRS = 1000
_LEAST_ITEMS = 4
_MOST_SKEWNESS = 1.0
"""A sum over subjects that is more skewed than this depends on few answers and is not tested."""
_LEAST_INFORMATION = 2.0
_BLOCK = 1024
_MOST_DRAWS, _WORK, _OVERHEAD = 100, 2e11, 300
"""Most draws, most multiplications over all draws (at least one draw is used), and the fixed cost
of a pair as a number of subjects."""
_FINE, _FARTHEST = 100, 40
"""Bins per unit of |z|, and where the last one begins."""


_FEW_PAIRS, _MOSTLY, _TIMES = 5, 0.5, 5.0
"""Dependent pairs share a column if they are at least this many, at least this share of them has
equal values in it, and that is at least this many times the share among all pairs of items."""


@dataclass(frozen=True, eq=False, repr=False)
class LocalDependence:
    """Which pairs of items depend on each other."""

    # The most dependent pairs, at most 1,000, surest first: `item_1`, `item_2`, `q3` (the
    # correlation of their residuals), `n_subjects` (that answered both), `z`, `p` and
    # `dependent`.
    pairs: pd.DataFrame
    n_tested: int  # Pairs that could be tested, and those that depend on each other.
    n_dependent: int
    q: float  # Bound on the expected share of false pairs among those that depend on each other.
    shared: str = ""  # What most dependent pairs have in common, if anything.

    def __repr__(self) -> str:
        return f"<LocalDependence: {self.n_dependent:,} of {self.n_tested:,} pairs>"

    def to_text(self) -> str:
        """Return the conclusion in one or two sentences."""
        if not self.n_tested:
            return "There are too few subjects to say whether pairs of items depend on each other."
        pairs = f"{self.n_tested:,} testable pairs of items"
        if not self.n_dependent:
            return f"None of {pairs} is clearly dependent beyond one ability."
        first = self.pairs.iloc[0]
        names = " with ".join(one_line(first[x], 30) for x in ("item_1", "item_2"))
        sentence = (
            f"{self.n_dependent:,} of {pairs} are dependent beyond one ability, most clearly "
            f"{names} (residual correlation {first['q3']:+.2f})."
        )
        if not self.shared:
            return sentence
        column = one_line(self.shared)
        return (
            f"{sentence} They mostly share their {column}: rank with --group {column}, "
            f"which accounts for that."
        )

    @property
    def summary(self) -> pd.DataFrame:
        """The pairs."""
        return self.pairs


def local_dependence(posterior: Posterior, *, q: float = 0.1) -> LocalDependence:
    """Find pairs of items whose residuals are correlated.

    Parameters
    ----------
    posterior : Posterior
        Of a model with one ability.
    q : float
        Bound on the expected share of false pairs among those that are called dependent.

    Returns
    -------
    LocalDependence

    Raises
    ------
    ResponseError
        If the model has more than one ability.

    Notes
    -----
    At each draw the residuals s_i of a subject are made orthogonal to the score of its ability,
    ẽ_i = s_i - w_i a (aᵀs_i) / I_i with I_i = Σ_j a_j² w_ij. Under the model Σ_i ẽ_ij ẽ_ik has the
    mean -Σ_i w_ij w_ik a_j a_k / I_i, which makes Q3 negative even if nothing is wrong (about
    -1 / (J - 1)), and approximately the variance Σ_i (v_ij v_ik + (w_ij w_ik a_j a_k / I_i)²) with
    v_ij = w_ij - w_ij² a_j² / I_i. The standardised sum, corrected for skewness, is averaged over
    draws: at each draw it is about N(0, 1), so the mean has the variance 1 - v, where v is its
    variance over the posterior, averaged over all pairs. Pairs with a skewness beyond 1 or with
    Σ_i w_ij w_ik below 2 are not tested: hardly anybody gets their items wrong (or right), or they
    have few subjects. Pairs are processed in blocks of at most 1,024 x 1,024, to save memory.

    References
    ----------
    Yen 1984 (Q3); Christensen, Makransky & Horton 2017 (its mean); Benjamini & Hochberg 1995.

    Examples
    --------
    >>> from bayesirt import Responses
    >>> draws = {"theta": np.zeros((1, 4, 40)), "a": np.ones((1, 4, 5)), "d": np.zeros((1, 4, 5))}
    >>> answers = Responses.from_arrays(np.indices((40, 5)).sum(0) % 2)
    >>> posterior = Posterior.from_samples(draws, {}, answers, {})
    >>> local_dependence(posterior).pairs["dependent"].all()
    np.True_
    """
    refuse_other_models(posterior)
    n, n_items = posterior.trials.shape
    most = min(_MOST_DRAWS, _WORK / ((3 * n + _OVERHEAD) * n_items**2))
    counts, draws = with_room(posterior, most)
    pairs = _Search(posterior.link, counts, draws, posterior.item_groups).run()
    n_tested, n_draws = int(pairs.bins.sum()), int(draws.n)
    share = 1 - pairs.variance / max(n_tested, 1) * (1 - 1 / n_draws)
    scale = 1 / np.sqrt(max(share, LEAST_SHARE))
    first, n_dependent = _first_bin(pairs.bins, scale, q)
    table = _table(posterior, pairs, scale, counts, draws)
    table["dependent"] = _bin(pairs.z[table.index]) >= first
    shared = _shared(posterior.item_facts, table[table["dependent"]])
    return LocalDependence(table.reset_index(drop=True), n_tested, n_dependent, q, shared)


def _shared(facts: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Return the column that most dependent pairs share but few pairs of items do, or "".

    Of several such columns, return the one that fewest pairs share.
    """
    shares = {}
    for column in facts.columns if len(pairs) >= _FEW_PAIRS else ():
        codes = pd.Series(pd.factorize(facts[column])[0], facts.index)
        sizes = np.bincount(codes)
        usual = (sizes * (sizes - 1)).sum() / (len(facts) * (len(facts) - 1))
        both = (codes[pairs[name]].to_numpy() for name in ("item_1", "item_2"))
        if np.equal(*both).mean() >= max(_MOSTLY, _TIMES * usual):
            shares[str(column)] = usual
    return min(shares, key=lambda name: shares[name], default="")


def _first_bin(bins: NDArray[np.int64], scale: float, q: float) -> tuple[int, int]:
    """Return the first bin of dependent pairs (Benjamini & Hochberg), and how many there are."""
    p = 2 * ndtr(-scale * np.arange(len(bins)) / _FINE)
    above = np.cumsum(bins[::-1])[::-1]
    passes = (above > 0) & (p * bins.sum() <= q * above)
    if not passes.any():
        return len(bins), 0
    first = int(np.argmax(passes))
    return first, int(above[first])


def _bin(z: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.minimum(np.abs(z) * _FINE, _FINE * _FARTHEST).astype(np.intp)


def _table(
    posterior: Posterior, pairs: "_Pairs", scale: float, counts: Counts, draws: Draws
) -> pd.DataFrame:
    """Return the pairs, largest |z| first, indexed by their places in `pairs`."""
    order = np.argsort(-np.abs(pairs.z), kind="stable")
    one, other, z = pairs.first[order], pairs.second[order], scale * pairs.z[order]
    both = (posterior.trials[:, one] > 0) & (posterior.trials[:, other] > 0)
    common = np.count_nonzero(both, 0)
    names = np.asarray(posterior.items, object)
    columns = {
        "item_1": names[one],
        "item_2": names[other],
        "q3": _correlations(posterior.link, counts, draws, one, other, both),
        "n_subjects": common,
        "z": z,
        "p": 2 * ndtr(-np.abs(z)),
    }
    return pd.DataFrame(columns, index=order)


def _correlations(
    link: str,
    counts: Counts,
    draws: Draws,
    one: NDArray[np.intp],
    other: NDArray[np.intp],
    both: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the correlations of two items' mean residuals, over subjects that answered both."""
    items, positions = np.unique([one, other], return_inverse=True)
    if not len(items):
        return np.zeros(0)
    counts = Counts(*(x[:, items] for x in counts))
    item_draws = draws.of_items(lambda values: values[:, items])
    excess = np.asarray(_mean_excess(link, counts, item_draws), np.float64)[: len(both)]
    sides = (np.where(both, excess[:, k], 0) for k in positions.reshape(2, -1))
    x, y = (np.where(both, e - e.sum(0) / both.sum(0), 0) for e in sides)
    return (x * y).sum(0) / np.sqrt((x**2).sum(0) * (y**2).sum(0))


@partial(jax.jit, static_argnums=0)
def _mean_excess(link: str, counts: Counts, draws: Draws) -> Float[Array, "subject item"]:
    """Return right answers minus their expected number, averaged over draws."""

    def add(total: Array, draw: Draw) -> Array:
        return total + residuals(link, counts, draw).excess

    nothing = jnp.zeros(counts.trials.shape, draws.each.theta.dtype)
    return draws.added(add, nothing) / draws.n


class _Pairs(NamedTuple):
    """The pairs with the largest |z|, a histogram of |z|, and the sum of variances over draws."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    z: NDArray[np.float64]
    bins: NDArray[np.int64]
    variance: float


class _Search(NamedTuple):
    """A search over all pairs of blocks of items."""

    link: str
    counts: Counts
    draws: Draws
    # Group of each item. Pairs within a group are not tested, as they are known to be dependent.
    groups: NDArray[np.intp] | None

    def run(self) -> _Pairs:
        n_items = self.counts.trials.shape[1]
        size = -(-n_items // -(-n_items // _BLOCK))  # equal blocks need little padding
        starts = range(0, n_items, size)
        pairs = _Pairs(
            np.zeros(0, np.intp),
            np.zeros(0, np.intp),
            np.zeros(0),
            np.zeros(_FINE * _FARTHEST + 1, np.int64),
            0.0,
        )
        bound = family_named(self.link).bound(self.counts.trials.max(1).astype(float))
        if n_items < _LEAST_ITEMS or (bound**2).sum() < _LEAST_INFORMATION:
            return pairs
        fill = -n_items % size
        wide = [(0, 0), (0, fill)]
        counts = Counts(*(host(np.pad(x, wide)) for x in self.counts))
        draws = self.draws.of_items(lambda values: host(np.pad(values, wide)))
        of_subjects = _abilities(self.link, counts, draws.each)
        for k in starts:
            for m in starts[k // size :]:
                block = _copied(_block(self.link, size, counts, draws, of_subjects, k, m))
                if self.groups is not None:
                    one, other = (self.groups[x : x + size] for x in (k, m))
                    block[0][: len(one), : len(other)][one[:, None] == other] = np.nan
                pairs = _joined(pairs, *block, k, m)
        return pairs


def _copied(block: tuple[Array, Array]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array(block[0], np.float64), np.array(block[1], np.float64)


def _joined(
    pairs: _Pairs, z: NDArray[np.float64], variance: NDArray[np.float64], k: int, m: int
) -> _Pairs:
    """Return the pairs with the largest |z| among those found before and a block's."""
    if k == m:
        z[np.tril_indices(len(z))] = np.nan
    row, column = np.nonzero(np.isfinite(z))
    values = z[row, column]
    bins = pairs.bins + np.bincount(_bin(values), minlength=len(pairs.bins))
    if len(values) > MOST_PAIRS:
        largest = np.argpartition(-np.abs(values), MOST_PAIRS)[:MOST_PAIRS]
        row, column, values = row[largest], column[largest], values[largest]
    first = np.append(pairs.first, row + k)
    second = np.append(pairs.second, column + m)
    values = np.append(pairs.z, values)
    if len(values) > MOST_PAIRS:
        largest = np.argpartition(-np.abs(values), MOST_PAIRS)[:MOST_PAIRS]
        first, second, values = first[largest], second[largest], values[largest]
    return _Pairs(first, second, values, bins, pairs.variance + variance[np.isfinite(z)].sum())


@partial(jax.jit, static_argnums=0)
def _abilities(
    link: str, counts: Counts, draws: Draw
) -> tuple[Float[Array, "draw subject"], Float[Array, "draw subject"]]:
    """Return (aᵀs_i) / I_i and 1 / √I_i of each subject at each draw."""

    def at(draw: Draw) -> tuple[Array, Array]:
        cells = residuals(link, counts, draw)
        information = jnp.maximum(cells.weight @ draw.a**2, jnp.finfo(draw.a.dtype).tiny)
        return (cells.score @ draw.a) / information, 1 / jnp.sqrt(information)

    return jax.lax.map(at, draws)


@partial(jax.jit, static_argnums=(0, 1))
def _block(
    link: str,
    size: int,
    counts: Counts,
    draws: Draws,
    of_subjects: tuple[Array, Array],
    first: Array,
    second: Array,
) -> tuple[Float[Array, "item item"], Float[Array, "item item"]]:
    """Return the mean and variance over draws of the standardised sum of each pair of two blocks.

    NaN where a pair is not tested.
    """
    blocks = [
        Counts(*(jax.lax.dynamic_slice_in_dim(x, start, size, 1) for x in counts))
        for start in (first, second)
    ]

    def side(
        own: Counts, start: Array, draw: Draw, along: Array, width: Array
    ) -> tuple[Array, ...]:
        block = draw.of_items(lambda x: jax.lax.dynamic_slice_in_dim(x, start, size))
        cells = residuals(link, own, block)
        moves = cells.weight * block.a * width[:, None]
        e = cells.score - cells.weight * block.a * along[:, None]
        return e, moves, cells.weight - moves**2, cells.third

    def add(total: StandardisedSums, draw: Draw, *ability: Array) -> StandardisedSums:
        one, other = (
            side(own, start, draw, *ability)
            for own, start in zip(blocks, (first, second), strict=True)
        )
        product, mean, variance, third = (x.T @ y for x, y in zip(one, other, strict=True))
        variance += (one[1] ** 2).T @ other[1] ** 2
        variance = jnp.maximum(variance, jnp.finfo(variance.dtype).tiny)
        skewness = third / variance**1.5
        z = to_normal((product + mean) / jnp.sqrt(variance), skewness)
        tested = (jnp.abs(skewness) <= _MOST_SKEWNESS) & (variance >= _LEAST_INFORMATION)
        return total.add(jnp.where(tested, z, jnp.nan))

    nothing = StandardisedSums.none((size, size), draws.each.a.dtype)
    total = draws.added(add, nothing, of_subjects)
    return total.z / draws.n, total.variance(draws.n)

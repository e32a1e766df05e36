"""Which items to keep: the few that tell subjects apart nearly as well as all of them."""

from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heapreplace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.errors import ResponseError
from bayesirt.estimators.ability_quadrature import PriorMoments, integrate_abilities
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.families import family_named
from bayesirt.names import notebook_html
from bayesirt.posterior import Posterior
from bayesirt.random_keys import Key, as_key
from bayesirt.ranking.item_information import item_information

SHARE = 0.95
"""Share of the pairs told apart by all items that the kept items must tell apart."""
_SURE = 0.95
_DRAWS, _MOST_SUBJECTS = 40, 300
_REPLICATIONS, _MOST_CELLS, _NODES = 20, 20_000_000, 11


@dataclass(frozen=True, eq=False, repr=False)
class KeptItems:
    """The items to keep, and what is lost."""

    # All items, those most worth keeping first: `item`; for it and those before, `sd`, the root
    # mean square of the standard errors of abilities, and `pairs`, the share of the pairs of
    # subjects told apart by all items that these tell apart; NaN if all tell none apart.
    summary: pd.DataFrame
    n: int  # How many to keep.
    # Expected Spearman correlation with the true abilities of abilities estimated from new
    # answers to these items, and to all.
    agreement: float
    agreement_of_all: float

    @property
    def items(self) -> tuple[str, ...]:
        """Names of the items to keep, the most useful first."""
        return tuple(self.summary["item"].head(self.n))

    def __repr__(self) -> str:
        return f"<KeptItems: {self.to_text()}>"

    def _repr_html_(self) -> str:
        return notebook_html(self.to_text(), self.summary.head(self.n))

    def to_text(self) -> str:
        """Return in two sentences how well the kept items do."""
        share = self.summary["pairs"].iloc[self.n - 1]
        do = (
            "are the most informative, but all together tell no pair of subjects apart"
            if np.isnan(share)
            else f"tell apart {share:.0%} of the pairs of subjects that all items tell apart"
        )
        return (
            f"{self.n} of {len(self.summary)} items {do}. Ranks from new answers to them would "
            f"correlate {self.agreement:.3f} with the truth, {self.agreement_of_all:.3f} with all "
            f"items."
        )


def keep_items(posterior: Posterior, n: int | None = None, *, key: Key = 0) -> KeptItems:
    """Choose the items that tell these subjects apart best, one after another.

    Parameters
    ----------
    posterior : Posterior
        Of a model with one ability.
    n : int, optional
        How many to keep; by default the fewest that tell apart `SHARE` of the pairs that all do.
    key : jax.random.key or int
        For the replications that ranks are judged by.

    Returns
    -------
    KeptItems

    Raises
    ------
    ResponseError
        If there are not that many items, or `n` is left out and no pair of subjects can be told
        apart.

    Notes
    -----
    The next item is the one that lowers Σ_i 1 / J_i most, where J_i is the information on a
    subject's ability, including that of the population, averaged over draws of all parameters. The
    gain of an item shrinks as others are added, so the greedy set is near the best one (Nemhauser,
    Wolsey and Fisher 1978), and most items need not be evaluated again at each step (Minoux 1978).
    A pair is told apart if its difference is above 1.64 standard errors. Of more than 300 subjects,
    300 spread evenly by ability represent all.
    """
    n_items = len(posterior.items)
    if n is not None and not 1 <= n <= n_items:
        raise ResponseError(f"-n must lie between 1 and {n_items}, the number of items; got {n}")
    theta = posterior.theta.mean(0)
    rows = np.argsort(theta, kind="stable")
    if len(rows) > _MOST_SUBJECTS:
        rows = rows[np.linspace(0, len(rows) - 1, _MOST_SUBJECTS).astype(int)]
    information = _information(posterior, rows)
    order = _greedy(information)
    precision = 1 + np.cumsum(information[order], axis=0)
    pairs = _shares_apart(theta[rows], precision)
    if n is None:
        if np.isnan(pairs[-1]):
            raise ResponseError(
                f"all {n_items} items together tell no pair of subjects apart, so there is nothing "
                f"to choose by; say how many to keep with -n"
            )
        n = int(np.argmax(pairs >= SHARE)) + 1
    summary = pd.DataFrame(
        {
            "item": [posterior.items[j] for j in order],
            "sd": np.sqrt((1 / precision).mean(1)),
            "pairs": pairs,
        }
    )
    kept = np.isin(np.arange(n_items), order[:n])
    return KeptItems(summary, n, *_agreements(posterior, rows, kept, as_key(key)))


def _trials(posterior: Posterior) -> NDArray[np.integer]:
    """Return the most trials that any subject has on each item, at least 1."""
    return np.maximum(posterior.trials.max(0), 1)


def _information(posterior: Posterior, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the information of each item on each subject, shape (item, subject)."""
    draws = [posterior.draws(name, _DRAWS) for name in posterior.parameters]
    draws[0] = draws[0][:, rows]
    trials = _trials(posterior)[:, None]

    def of_draw(draw: tuple[Array, ...]) -> Array:
        theta, *items = draw
        parameters = (x[:, None] for x in items)
        return item_information(theta, *parameters, link=posterior.link, trials=trials)

    @jax.jit
    def of_draws(draws: tuple[Array, ...]) -> Array:
        return jax.lax.map(of_draw, draws).mean(0)

    return np.asarray(of_draws(tuple(draws)), np.float64)


def _greedy(information: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return items in greedy order: each lowers the mean variance most, given those before it."""
    precision = np.ones(information.shape[1])

    def gain(j: int) -> float:
        return float((1 / precision - 1 / (precision + information[j])).sum())

    heap = [(-gain(j), j, 0) for j in range(len(information))]
    heapify(heap)
    order: list[int] = []
    while heap:
        _, j, known_at = heap[0]
        if known_at < len(order):
            heapreplace(heap, (-gain(j), j, len(order)))
            continue
        heappop(heap)
        order.append(j)
        precision += information[j]
    return np.array(order)


def _shares_apart(
    theta: NDArray[np.float64], precision: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each number of items the share of pairs that they tell apart, of those all do.

    NaN if all tell no pair apart.
    """
    one, other = np.triu_indices(len(theta), 1)
    difference, variance = np.abs(theta[one] - theta[other]), 1 / precision
    needed = (difference / ndtri(_SURE)) ** 2
    pairs = needed > variance[-1, one] + variance[-1, other]
    one, other, needed = one[pairs], other[pairs], needed[pairs]
    if not len(needed):
        return np.full(len(precision), np.nan)
    return np.array([np.mean(needed > row[one] + row[other]) for row in variance])


def _agreements(
    posterior: Posterior, rows: NDArray[np.intp], kept: NDArray[np.bool_], key: Array
) -> tuple[float, float]:
    """Return rank correlations with the truth, from new answers to kept items and to all."""
    n = max(2, min(_REPLICATIONS, _MOST_CELLS // (len(rows) * len(kept) * _NODES)))
    draws = [posterior.draws(name, n) for name in posterior.parameters]
    draws[0] = draws[0][:, rows]
    items = tuple(jnp.asarray(x.mean(0)) for x in draws[1:])
    trials = jnp.broadcast_to(_trials(posterior), (len(rows), len(kept)))
    estimate = jax.jit(partial(_estimated, posterior.link, items, trials))
    correlations = []
    for draw, own_key in zip(zip(*draws, strict=True), jax.random.split(key, n), strict=False):
        of_kept, of_all = (
            np.asarray(estimate(draw, mask, own_key)) for mask in (kept, kept | True)
        )
        ranks = pd.DataFrame({"kept": of_kept, "all": of_all, "truth": draw[0]}).rank()
        correlations.append(ranks.corr()["truth"][["kept", "all"]])
    of_kept, of_all = np.nanmean(correlations, 0)
    return float(of_kept), float(of_all)


def _estimated(
    link: str,
    items: tuple[Array, ...],
    trials: ArrayLike,
    draw: tuple[Array, ...],
    mask: Array,
    key: Array,
) -> Float[Array, " subject"]:
    """Return posterior means of abilities, given new answers of a draw to some items."""
    family = family_named(link)
    (theta, a, d, *further), trials = draw, jnp.asarray(trials)
    answers = family.given(further).draw(key, theta[:, None] * a + d, trials)
    layout = DenseLayout(jnp.where(mask, answers, 0), jnp.where(mask, trials, 0))
    before = PriorMoments(jnp.zeros_like(theta), jnp.ones_like(theta))
    posteriors, _ = integrate_abilities(
        layout, family, items, before, theta, n_nodes=_NODES, dtype=theta.dtype
    )
    return posteriors.mean

"""Distributions of subjects' and items' proportions correct, observed and under the model."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.checks.fit.cell_residuals import Draw, Draws, with_room
from bayesirt.posterior import LEVEL, TAILS, Posterior
from bayesirt.random_keys import host_random

_MOST_BINS = 20
_LEAST_DRAWS, _MOST_DRAWS, _CELL_DRAWS = 40, 400, 200_000_000


@dataclass(frozen=True, eq=False, repr=False)
class ProportionsCorrect:
    """Observed and predicted histograms of proportions correct."""

    # One row per bin of the proportions correct of subjects and of items: `of` ("subjects" or
    # "items"), `from` and `to` (proportion correct), `observed` (how many), `expected`, and `low`
    # and `high`, between which 90% of predicted counts lie.
    summary: pd.DataFrame
    # Posterior predictive probability of a histogram at least as far from the expected one.
    p_subjects: float
    p_items: float

    def __repr__(self) -> str:
        return f"<Totals: p = {self.p_subjects:.2g} of subjects, {self.p_items:.2g} of items>"

    def to_text(self) -> str:
        """Return the conclusion in a sentence."""
        spread = "look" if self.p_subjects > 1 - LEVEL else "do not look"
        return (
            f"Subjects' scores {spread} like those of one normal population of abilities "
            f"(p = {self.p_subjects:.2g})."
        )


def check_totals(posterior: Posterior, *, key: Array) -> ProportionsCorrect:
    """Compare the histograms of subjects' and items' proportions correct with replications.

    Each replication uses a draw of the items. Subjects' proportions are those of as many *new*
    subjects from the population N(0, 1), with the same cells observed: they show whether abilities
    are distributed as the model assumes, which separate groups of subjects are not. Items'
    proportions come from the same subjects answering the same items again. These items were fitted,
    so `p_items` is conservative: it is hardly ever below .1 if the model holds. The distance is
    Σ_b (O_b - E_b)² / (E_b + ½) over bins.

    Gelman et al. 2013, chapter 6; Sinharay, Johnson & Stern 2006.
    """
    trials = posterior.trials
    most = np.clip(_CELL_DRAWS / (2 * trials.size), _LEAST_DRAWS, _MOST_DRAWS)
    counts, draws = with_room(posterior, most)
    if int(trials.max()) == 1:
        replicated = _of_right_and_wrong(posterior.link, counts.trials, draws, host_random(key))
    else:
        keys = jax.random.split(key, int(draws.n))
        some = jax.tree.map(lambda x: x[: len(keys)], draws.each)
        replicated = _replications(posterior.link, counts.trials, some, keys)
    tables, ps = [], []
    for axis, side, right in zip((1, 0), ("subjects", "items"), replicated, strict=True):
        total = trials.sum(axis, dtype=np.int64)
        observed = posterior.successes.sum(axis, dtype=np.int64)
        table, p = _compare(observed, np.asarray(right, np.int64)[:, : len(total)], total)
        table.insert(0, "of", side)
        tables.append(table)
        ps.append(p)
    return ProportionsCorrect(pd.concat(tables, ignore_index=True), *ps)


def _compare(
    observed: NDArray[np.int64], replicated: NDArray[np.int64], total: NDArray[np.int64]
) -> tuple[pd.DataFrame, float]:
    """Return the histograms, and how often a replication is as far from their mean."""
    seen = total > 0
    observed, replicated, total = observed[seen], replicated[:, seen], total[seen]
    n_bins = min(_MOST_BINS, 1 + int(total.max()))
    histogram, *others = (_histogram(x, total, n_bins) for x in (observed, *replicated))
    counts = np.stack(others)
    expected = counts.mean(0)
    low, high = np.quantile(counts, TAILS, axis=0)
    edges = np.linspace(0, 1, n_bins + 1)
    columns = {"from": edges[:-1], "to": edges[1:], "observed": histogram, "expected": expected}
    table = pd.DataFrame({**columns, "low": low, "high": high})
    far, further = (((x - expected) ** 2 / (expected + 0.5)).sum(-1) for x in (histogram, counts))
    return table, float((1 + np.count_nonzero(further >= far)) / (1 + len(counts)))


def _histogram(
    right: NDArray[np.int64], total: NDArray[np.int64], n_bins: int
) -> NDArray[np.int64]:
    return np.bincount(np.clip(right * n_bins // total, 0, n_bins - 1), minlength=n_bins)


def _of_right_and_wrong(
    link: str, trials: Array, draws: Draws, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the right answers of new subjects, and those to the items by the same subjects.

    NumPy draws them: an answer takes one random number, and nothing else has to be compiled.
    """
    n, seen = int(draws.n), np.asarray(trials) > 0
    of_subjects, of_items = (np.zeros((n, size), np.int64) for size in seen.shape)
    for k in range(n):
        draw = jax.tree.map(lambda x, k=k: x[k], draws.each)
        theta = random.standard_normal(len(draw.theta)).astype(draw.theta.dtype)
        new = draw._replace(theta=theta)
        for answering, sums, axis in ((new, of_subjects, 1), (draw, of_items, 0)):
            p = np.asarray(_probabilities(link, answering))
            right = (random.random(p.shape, np.float32) < p) & seen
            sums[k] = np.count_nonzero(right, axis)
    return of_subjects, of_items


@partial(jax.jit, static_argnums=0)
def _probabilities(link: str, draw: Draw) -> Float[Array, "subject item"]:
    eta = draw.theta[:, None] * draw.a + draw.d
    return draw.answers(link).probability(eta).astype(jnp.float32)


@partial(jax.jit, static_argnums=0)
def _replications(
    link: str, trials: Array, draws: Draw, keys: Array
) -> tuple[Float[Array, "draw subject"], Float[Array, "draw item"]]:
    """Return the same of answers of any kind."""

    def answers(theta: Array, draw: Draw, key: Array) -> Array:
        return draw.answers(link).draw(key, theta[:, None] * draw.a + draw.d, trials)

    def at(both: tuple[Draw, Array]) -> tuple[Array, Array]:
        draw, key = both
        of_new, of_theta, of_same = jax.random.split(key, 3)
        new = jax.random.normal(of_theta, draw.theta.shape, draw.theta.dtype)
        return (
            answers(new, draw, of_new).sum(1),
            answers(draw.theta, draw, of_same).sum(0),
        )

    return jax.lax.map(at, (draws, keys))

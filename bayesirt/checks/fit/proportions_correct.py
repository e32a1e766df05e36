"""Distributions of subjects' and items' proportions correct, observed and under the model."""

from dataclasses import dataclass
from functools import partial
from typing import Any

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
    replicated = _replications(posterior.link, counts.trials, draws, host_random(key))
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


def _replications(
    link: str, trials: Array, draws: Draws, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the right answers of new subjects, and those to the items by the same subjects.

    NumPy draws right and wrong answers, which need one random number each and hardly any compiling.
    """
    n, seen, binary = int(draws.n), np.asarray(trials) > 0, int(np.max(trials)) == 1
    of_subjects, of_items = (np.zeros((n, size), np.int64) for size in seen.shape)

    def replicated(draw: Draw) -> NDArray[Any]:
        if binary:
            p = np.asarray(_probabilities(link, draw))
            return (random.random(p.shape, np.float32) < p) & seen
        return np.asarray(_drawn(link, draw, trials, jax.random.key(int(random.integers(1 << 31)))))

    for k in range(n):
        draw = jax.tree.map(lambda x, k=k: x[k], draws.each)
        theta = random.standard_normal(len(draw.theta)).astype(draw.theta.dtype)
        of_subjects[k] = replicated(draw._replace(theta=theta)).sum(1)
        of_items[k] = replicated(draw).sum(0)
    return of_subjects, of_items


@partial(jax.jit, static_argnums=0)
def _probabilities(link: str, draw: Draw) -> Float[Array, "subject item"]:
    eta = draw.theta[:, None] * draw.a + draw.d
    return draw.answers(link).probability(eta).astype(jnp.float32)


@partial(jax.jit, static_argnums=0)
def _drawn(link: str, draw: Draw, trials: Array, key: Array) -> Float[Array, "subject item"]:
    return draw.answers(link).draw(key, draw.theta[:, None] * draw.a + draw.d, trials)

"""Abilities of subjects by items whose parameters are known, on a fixed grid.

Any part of a subject's answers and lengths may be looked at, without compiling anything anew.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import norm

from bayesirt.data.responses import Responses
from bayesirt.likelihood.latencies import SpeedEvidence
from bayesirt.point_estimate import PointEstimate
from bayesirt.studies.measures import Floats, Index, Mask

GRID = np.linspace(-6, 6, 601)
"""Abilities; a posterior after 500 items is still ten times wider than a step."""


class Items(NamedTuple):
    """Items of LaRT, or of plain IRT, that are taken as known."""

    a: Floats  # shape (item,), as are the others.
    d: Floats
    phi: Floats  # Without lengths 0, which leaves lengths without a word.
    omega: Floats
    lam: Floats
    rho: float

    @classmethod
    def of(cls, point: PointEstimate) -> "Items":
        """Take an estimate's items; without lengths φ = ρ = 0."""
        a, d = point["a"], point["d"]
        if "rho" not in point.parameters:
            return cls(a, d, 0 * a, 0 * a, 0 * a + 1, 0.0)
        return cls(a, d, point["phi"], point["omega"], point["lam"], float(point["rho"]))

    def log_probabilities(self) -> tuple[Floats, Floats]:
        """Return log Φ(η) and log Φ(-η), shape (grid, item)."""
        eta = GRID[:, None] * self.a + self.d
        return log_ndtr(eta), log_ndtr(-eta)


class Cells(NamedTuple):
    """Answers and log lengths as matrices."""

    successes: Floats  # shape (subject, item), as are the others.
    trials: Floats
    x: Floats  # NaN where no length was seen.

    @classmethod
    def of(cls, responses: Responses) -> "Cells":
        """Take all of the responses."""
        successes, trials = (np.asarray(m, float) for m in responses.cells.matrices())
        x = np.full(trials.shape, np.nan)
        if responses.latency is not None:
            listed = responses.cells.listed()
            x[listed.subject, listed.item] = np.log(responses.latency)
        return cls(successes, trials, x)

    def rows(self, subjects: Index) -> "Cells":
        """Return some subjects'."""
        return Cells(*(matrix[subjects] for matrix in self))

    def columns(self, items: Index) -> "Cells":
        """Return some items'."""
        return Cells(*(matrix[:, items] for matrix in self))

    def accuracy(self, items: Index) -> Floats:
        """Return each subject's proportion correct among some items, NaN where it answered none."""
        successes, trials = self.successes[:, items].sum(1), self.trials[:, items].sum(1)
        return np.divide(successes, trials, out=np.full(len(trials), np.nan), where=trials > 0)


class Scores(NamedTuple):
    """What is known of each ability."""

    mean: Floats  # shape (subject,)
    mode: Floats  # shape (subject,)
    probability: Floats  # shape (subject, grid), Of the posterior, at `GRID`.

    def predictive(self, items: Items) -> Floats:
        """Return P(right) with the ability integrated out, shape (subject, item)."""
        return self.probability @ ndtr(GRID[:, None] * items.a + items.d)

    def plugged_in(self, items: Items) -> Floats:
        """Return P(right) at the mode, shape (subject, item)."""
        return np.asarray(ndtr(self.mode[:, None] * items.a + items.d))


def score_abilities(
    items: Items, cells: Cells, answered: Mask | None = None, timed: Mask | None = None
) -> Scores:
    """Return what answers and lengths say of abilities (Xu et al., 2026, Lemma 1, corrected)."""
    one = np.ones(cells.trials.shape[1])
    right = cells.successes * (one if answered is None else answered)
    wrong = (cells.trials - cells.successes) * (one if answered is None else answered)
    of_right, of_wrong = items.log_probabilities()
    log_likelihood = right @ of_right.T + wrong @ of_wrong.T
    return posterior_on_grid(log_likelihood, speed_evidence(items, cells, timed), items.rho)


def posterior_on_grid(log_likelihood: Floats, evidence: SpeedEvidence, rho: float) -> Scores:
    """Return the posterior from the answers' log likelihood at `GRID` and the lengths' evidence."""
    mean, variance = (np.asarray(x)[:, None] for x in evidence.ability(jnp.asarray(rho)))
    log_density = log_likelihood - (GRID - mean) ** 2 / (2 * variance)
    probability = np.exp(log_density - logsumexp(log_density, axis=1, keepdims=True))
    return Scores(probability @ GRID, _modes(log_density), probability)


def speed_evidence(items: Items, cells: Cells, timed: Mask | None = None) -> SpeedEvidence:
    """Return what lengths say of speeds."""
    seen = np.isfinite(cells.x) if timed is None else np.isfinite(cells.x) & timed
    above = np.where(seen, cells.x - items.omega, 0.0)
    pull, precision = -above @ (items.phi / items.lam), seen @ (items.phi**2 / items.lam)
    return SpeedEvidence(precision, pull)  # type: ignore[arg-type]


def item_information(items: Items, theta: Floats) -> Floats:
    """Return a² φ(η)²/(Φ(η) (1 - Φ(η))) of each item at each ability."""
    eta = theta[:, None] * items.a + items.d
    p = np.clip(ndtr(eta), 1e-300, 1 - 1e-16)
    return items.a**2 * norm.pdf(eta) ** 2 / (p * (1 - p))


def _modes(log_density: Floats) -> Floats:
    """Return the summits, between grid points by a parabola."""
    rows, step = np.arange(len(log_density)), GRID[1] - GRID[0]
    at = np.clip(log_density.argmax(1), 1, len(GRID) - 2)
    before, here, after = (log_density[rows, at + k] for k in (-1, 0, 1))
    return GRID[at] + step * (after - before) / (2 * (2 * here - before - after))

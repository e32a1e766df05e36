"""What the sparse study simulates: four domains and a grid of sparsities and difficulty gaps.

Items of the domains are those of Kang (2026), Appendix A. The paper leaves unpublished the
abilities of all but two subjects of a domain and the masks of all but these two, so they are
drawn, by the rules that it states.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from bayesirt.data.responses import Responses
from bayesirt.studies.measures import Floats, Index, Mask, read_printed

DOMAINS = {
    "nlp": "language tasks (GLUE)",
    "clinical": "clinical trials",
    "driving": "driving safety",
    "security": "security products",
}
MASKS = {"biased": "abler subjects meet harder items", "random": "cells are missing at random"}
GRID_SIZE, GRID_TRIALS = 10, 100
GRID_ABILITY_SD = float(np.linspace(-2, 2, GRID_SIZE).std())
"""Standard deviation of the grid's abilities: the unit of a fitted gap, on the paper's scale."""

FEWEST_ITEMS, FEWEST_SUBJECTS = 2, 3
"""Least items of a subject and least subjects of an item, in every mask of Kang (2026)."""

_LEAST_WEIGHT = 1e-9
"""The pairs that the paper's weights rule out are the last to be observed, not never."""

_LOWEST, _HIGHEST = -1.5, 2.0
"""Abilities of the clinical domain, the only range that Kang (2026) states (4.2)."""

_EASY, _HARD = slice(0, 3), slice(2, 6)
"""Items, by difficulty, that the Fake and the True subject of a domain met (Appendix B)."""


@dataclass(frozen=True)
class Condition:
    """One cell of the grid, or one domain."""

    name: str  # One of `DOMAINS` or of `MASKS`.
    sparsity: float  # S, the share of cells that is not observed.
    gap: float  # D = max b - min b, in units of the abilities.

    @property
    def is_domain(self) -> bool:
        """Whether this is a domain, no cell of the grid."""
        return self.name in DOMAINS


class Suite(NamedTuple):
    """Responses whose parameters are known."""

    theta: Floats  # shape (subject,)
    b: Floats  # shape (item,)
    responses: Responses
    # Whether the first subject met only easy items and the second, the best, only hard ones.
    has_fake: bool = False


def domain_conditions() -> list[Condition]:
    """Return the four domains."""
    items, domains = (
        read_printed("sparse_items"),
        read_printed("sparse_domains").set_index("domain"),
    )
    gaps = items.groupby("domain")["b"].agg(np.ptp)
    return [
        Condition(name, 1 - float(domains.loc[name, "coverage"]), float(gaps[name]))
        for name in DOMAINS
    ]


def grid_conditions(sparsities: Sequence[float], gaps: Sequence[float]) -> list[Condition]:
    """Return the cells of the grid under both masks."""
    return [Condition(mask, s, d) for mask in MASKS for s in sparsities for d in gaps]


def draw_suite(condition: Condition, rng: np.random.Generator) -> Suite:
    """Draw what a condition leaves open, and responses."""
    if condition.is_domain:
        return _draw_domain(condition.name, rng)
    theta = np.linspace(-2, 2, GRID_SIZE)
    a, b = np.linspace(1, 3, GRID_SIZE), condition.gap * np.linspace(-0.5, 0.5, GRID_SIZE)
    biased = condition.name == "biased"
    weights = matched_weights(theta, b) if biased else even_weights(GRID_SIZE, GRID_SIZE)
    n_observed = max(round(weights.size * (1 - condition.sparsity)), FEWEST_ITEMS * GRID_SIZE)
    mask = draw_mask(weights, n_observed, rng)
    return Suite(theta, b, _draw_responses(theta, a, b, mask, GRID_TRIALS, rng))


def _draw_domain(name: str, rng: np.random.Generator) -> Suite:
    facts, a, b = _domain(name)
    n = int(facts["subjects"])
    fake = float(facts["fake_ability"])
    has_fake = not np.isnan(fake)
    if not has_fake:
        theta, given = _spread(_LOWEST, _HIGHEST, n, rng), None
    else:
        theta = np.r_[fake, _HIGHEST, _other_abilities(fake, float(facts["fake_rank"]), n, rng)]
        given = np.zeros((2, len(b)), bool)
        given[0, _EASY] = given[1, _HARD] = True
    n_observed = round(float(facts["coverage"]) * n * len(b))
    mask = draw_mask(even_weights(n, len(b)), n_observed, rng, given)
    responses = _draw_responses(theta, a, b, mask, int(facts["trials"]), rng)
    return Suite(theta, b, responses, has_fake)


@cache
def _domain(name: str) -> tuple[pd.Series, Floats, Floats]:
    items = read_printed("sparse_items").query("domain == @name")
    facts = read_printed("sparse_domains").set_index("domain").loc[name]
    return facts, items["a"].to_numpy(), items["b"].to_numpy()


def _other_abilities(fake: float, fake_rank: float, n: int, rng: np.random.Generator) -> Floats:
    """Draw abilities of all but the Fake and the True; the Fake's rank is kept where stated."""
    if np.isnan(fake_rank):
        return _spread(_LOWEST, _HIGHEST, n - 2, rng)
    above = int(fake_rank) - 2
    below = _spread(_LOWEST, fake, n - 2 - above, rng)
    return np.r_[below, _spread(fake, _HIGHEST, above, rng)]


def _spread(low: float, high: float, n: int, rng: np.random.Generator) -> Floats:
    """Draw one value in each of n equal parts of a range."""
    return low + (high - low) * (np.arange(n) + rng.uniform(size=n)) / n


def _draw_responses(
    theta: Floats, a: Floats, b: Floats, mask: Mask, trials: int, rng: np.random.Generator
) -> Responses:
    """Draw responses from the 2PL of Kang (2026), equation (4)."""
    counts = np.where(mask, trials, 0)
    return Responses.from_arrays(rng.binomial(counts, expit(a * (theta[:, None] - b))), counts)


def even_weights(n_subjects: int, n_items: int) -> Floats:
    """Return weights under which cells are missing completely at random."""
    return np.ones((n_subjects, n_items))


def matched_weights(theta: Floats, b: Floats) -> Floats:
    """Return weights by which able subjects meet hard items (Kang, 2026, 5.3; their code)."""
    u, v = ((x - x.min()) / np.ptp(x) for x in (theta, b))
    return np.maximum((1 - np.abs(u[:, None] - v)) ** 2, _LEAST_WEIGHT)


def draw_mask(
    weights: Floats, n_observed: int, rng: np.random.Generator, given: Mask | None = None
) -> Mask:
    """Draw which cells are observed: two items a subject, three subjects an item, then the rest."""
    n_given = 0 if given is None else len(given)
    mask = np.zeros(weights.shape, bool)
    if given is not None:
        mask[:n_given] = given
    n_items = weights.shape[1]
    free = np.arange(n_given, len(mask))
    for i in free:
        mask[i, _pick(weights[i], FEWEST_ITEMS, rng)] = True
    for j in range(n_items):
        lacking = FEWEST_SUBJECTS - mask[:, j].sum()
        if lacking > 0:
            mask[free[_pick(weights[free, j] * ~mask[free, j], lacking, rng)], j] = True
    left = n_observed - mask.sum()
    if left > 0:
        open_weights = (weights[free] * ~mask[free]).ravel()
        rows, columns = np.divmod(_pick(open_weights, left, rng), n_items)
        mask[free[rows], columns] = True
    return mask


def _pick(weights: Floats, n: int, rng: np.random.Generator) -> Index:
    return rng.choice(len(weights), n, replace=False, p=weights / weights.sum())

"""What the sparse study simulates: four domains and a grid of sparsities and difficulty gaps.

Items of the domains are those of Kang (2026), Appendix A. The paper publishes the abilities and the
masks of only two subjects of a domain, so those of the others are drawn by the rules that it
states.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

from bayesirt.data.responses import Responses
from bayesirt.estimators.joint_map import fit_joint_map as fit_irt
from bayesirt.inference.blocked import BlockedState, Position, start_chains
from bayesirt.inference.chains import Length, run_chains
from bayesirt.inference.one_ability import OneAbility
from bayesirt.inference.sweeps import Sweeps
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import Priors, TwoPL
from bayesirt.point_estimate import PointEstimate
from bayesirt.posterior import TAILS
from bayesirt.ranking.simple_averages import difficulty_gap
from bayesirt.ranking.subject_ranking import ranks_of_draws
from bayesirt.studies.engine import Part
from bayesirt.studies.measures import Floats, Index, Mask, n_covered, read_printed, spearman
from bayesirt.studies.tasks import PortableKey, Row

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

# Least items of a subject and least subjects of an item, in every mask of Kang (2026).
FEWEST_ITEMS, FEWEST_SUBJECTS = 2, 3
# Pairs with zero weight in the paper are observed last, but not never.
_LEAST_WEIGHT = 1e-9
# Abilities of the clinical domain, the only range that Kang (2026) states (4.2).
_LOWEST, _HIGHEST = -1.5, 2.0
# Items, by difficulty, of the Fake and the True subject of a domain (Appendix B).
_EASY, _HARD = slice(0, 3), slice(2, 6)


@dataclass(frozen=True)
class Condition:
    """One cell of the grid, or one domain."""

    name: str  # One of `DOMAINS` or of `MASKS`.
    sparsity: float  # S, the share of cells that are not observed.
    gap: float  # D = max b - min b, in units of the abilities.

    @property
    def is_domain(self) -> bool:
        """Whether this is a domain rather than a cell of the grid."""
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
    return [
        Condition(name, 1 - float(facts["coverage"]), float(np.ptp(b)))
        for name, (facts, _, b) in zip(DOMAINS, map(_domain, DOMAINS), strict=True)
    ]


def draw_suite(condition: Condition, rng: np.random.Generator) -> Suite:
    """Draw the random parts of a condition, and responses."""
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
    n, fake, given = int(facts["subjects"]), float(facts["fake_ability"]), None
    has_fake = not np.isnan(fake)
    if not has_fake:
        theta = _spread(_LOWEST, _HIGHEST, n, rng)
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
    """Draw abilities of all but the Fake and the True; the Fake keeps its rank if stated."""
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
    """Draw observed cells: two items per subject, three subjects per item, then the rest."""
    mask, n_given, n_items = np.zeros(weights.shape, bool), 0, weights.shape[1]
    if given is not None:
        n_given = len(given)
        mask[:n_given] = given
    free = np.arange(n_given, len(mask))
    for i in free:
        mask[i, _pick(weights[i], FEWEST_ITEMS, rng)] = True
    for j in range(n_items):
        lacking = FEWEST_SUBJECTS - mask[:, j].sum()
        if lacking > 0:
            mask[free[_pick(weights[free, j] * ~mask[free, j], lacking, rng)], j] = True
    n_remaining = n_observed - mask.sum()
    if n_remaining > 0:
        open_weights = (weights[free] * ~mask[free]).ravel()
        rows, columns = np.divmod(_pick(open_weights, n_remaining, rng), n_items)
        mask[free[rows], columns] = True
    return mask


def _pick(weights: Floats, n: int, rng: np.random.Generator) -> Index:
    return rng.choice(len(weights), n, replace=False, p=weights / weights.sum())


MOST_SUBJECTS, MOST_ITEMS = 12, 10
BATCH = 50  # Suites per call.
_CHAINS, _WARMUP, _DRAWS = 2, 300, 1000
POINT_COLUMNS = (
    "coverage", "rho_average", "rho_irt", "rho_difficulty", "gap_irt", "fake_rank",
    "fake_rank_average", "fake_rank_irt", "best_rank_average", "best_rank_irt",
)  # fmt: skip
DRAWS_COLUMNS = (
    "rho_posterior", "rho_posterior_low", "rho_posterior_high", "average_low", "average_high",
    "subjects", "ranks_covered", "rank_width", "abilities_covered", "misplaced", "exposed",
    "false_alarms", "ess",
)  # fmt: skip
SUITES = Part(("condition", "seed"), (*POINT_COLUMNS, *DRAWS_COLUMNS))


@dataclass(frozen=True)
class ManySuites:
    """Sweeps over one of many suites as a `bayesirt.inference.chains.Kernel`."""

    sweeps: Sweeps

    def init(
        self, key: Array, start: tuple[Array, Position], data: DenseLayout
    ) -> tuple[Array, BlockedState]:
        """Return the state at a start, with the number of its suite."""
        suite, position = start
        return suite, self.sweeps.init(key, position, _of_suite(data, suite))

    def advance(self, state: tuple[Array, BlockedState], data: DenseLayout) -> Any:
        """Return the state after one sweep."""
        suite, chain = state
        return suite, self.sweeps.advance(chain, _of_suite(data, suite))

    def collect(self, state: tuple[Array, BlockedState]) -> dict[str, Array]:
        """Return the abilities."""
        return {"theta": state[1].position["theta"]}


def draw_abilities(
    suites: Sequence[Responses],
    points: Sequence[PointEstimate],
    *,
    key: Array,
    priors: Priors | None = None,
) -> list[Floats]:
    """Draw from the posterior of each of many suites by blocked Newton-Metropolis."""
    model = OneAbility(TwoPL(priors or Priors()))
    start_key, run_key = jax.random.split(key)
    filled = [*range(len(suites)), *(0,) * (BATCH - len(suites))]
    cells = [suites[k].cells.matrices() for k in filled]
    data = DenseLayout(*(jnp.stack([_filled_cells(pair[x]) for pair in cells]) for x in (0, 1)))
    around = [model.start(point, None) for point in points]
    # Padding starts within one unit of 0.
    centre, width = (
        {name: np.stack([_filled(name, around[k][x][name], x) for k in filled]) for name in names}
        for x, names in enumerate(around[0])
    )
    starts = start_chains(start_key, centre, width, _CHAINS)
    by_chain = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), starts)
    chains = run_chains(
        ManySuites(Sweeps(model)),
        data,
        (jnp.tile(jnp.arange(BATCH), _CHAINS), by_chain),
        key=run_key,
        length=Length(_WARMUP, _DRAWS),
    )
    theta = chains.samples["theta"].reshape(_CHAINS, BATCH, _DRAWS, MOST_SUBJECTS)
    return [theta[:, k, :, : suite.n_subjects] for k, suite in enumerate(suites)]


def _of_suite(data: DenseLayout, suite: Array) -> DenseLayout:
    return DenseLayout(data.successes[suite], data.trials[suite])


def _filled_cells(counts: NDArray[np.integer]) -> NDArray[np.int32]:
    missing = (0, MOST_SUBJECTS - counts.shape[0]), (0, MOST_ITEMS - counts.shape[1])
    return np.pad(counts.astype(np.int32), missing)


def _filled(name: str, values: Floats, fill: float) -> Floats:
    if not values.ndim:
        return values
    size = MOST_SUBJECTS if name == "theta" else MOST_ITEMS
    return np.pad(values, (0, size - len(values)), constant_values=fill)


def suite_rows(
    conditions: Sequence[Condition],
    places: Sequence[tuple[int, int]],
    key: PortableKey,
    priors: Priors,
    batch: int | None,
) -> list[Row]:
    """Return a row per suite, with results from posterior draws if the batch has a number."""
    suites = [draw_suite(conditions[place[0]], key.rng(*place)) for place in places]
    points = [fit_irt(suite.responses) for suite in suites]
    rows = [measure_point(*both) for both in zip(suites, points, strict=True)]
    if batch is not None:
        responses = [suite.responses for suite in suites]
        draws = draw_abilities(responses, points, key=key.folded(batch), priors=priors)
        for row, suite, theta in zip(rows, suites, draws, strict=True):
            row |= measure_draws(suite, theta)
    return rows


def simple_average(responses: Responses) -> Floats:
    """Return each subject's mean success rate over the items that it met (Kang, 2026, eq. 3)."""
    successes, trials = responses.cells.matrices()
    rates = successes / np.maximum(trials, 1)
    return rates.sum(1) / np.count_nonzero(trials, 1)


def measure_point(suite: Suite, point: PointEstimate) -> Row:
    """Compare the simple average and the point estimate with the truth, by `POINT_COLUMNS`."""
    average, theta = simple_average(suite.responses), point["theta"]
    row: Row = {
        "coverage": suite.responses.coverage,
        "rho_average": float(spearman(suite.theta, average)),
        "rho_irt": float(spearman(suite.theta, theta)),
        "rho_difficulty": float(spearman(suite.b, np.nan_to_num(point["b"]))),
        "gap_irt": difficulty_gap(point["b"], point["a"]) / float(theta.std()),
    }
    if suite.has_fake:
        row["fake_rank"] = _ranks(suite.theta)[0]
        ranks = {"average": _ranks(average), "irt": _ranks(theta)}
        for k, who in enumerate(("fake", "best")):
            row |= {f"{who}_rank_{name}": ranking[k] for name, ranking in ranks.items()}
    return row


def measure_draws(suite: Suite, chains: NDArray[np.floating]) -> Row:
    """Compare draws of the abilities with the truth and with the simple average.

    The columns are `DRAWS_COLUMNS`. Abilities are standardised in each draw, as ranks do not depend
    on their level and spread. An interval exposes a subject if it excludes all ranks that the
    average gives it.
    """
    theta = chains.reshape(-1, chains.shape[-1])
    average, mean = simple_average(suite.responses), theta.mean(0)
    true, abilities = _ranks(suite.theta), _standardised(chains)
    low, high = np.quantile(ranks_of_draws(theta), TAILS, axis=0, method="inverted_cdf")
    of_mean, of_average = (np.quantile(spearman(x, theta), TAILS) for x in (mean, average))
    ability_ends = np.quantile(abilities, TAILS, axis=(0, 1))
    first, last = _ranks(average), rankdata(-average, method="max")
    misplaced = (true < first) | (true > last)
    excluded = (last < low) | (first > high)
    return {
        "rho_posterior": float(spearman(suite.theta, mean)),
        "rho_posterior_low": float(of_mean[0]),
        "rho_posterior_high": float(of_mean[1]),
        "average_low": float(of_average[0]),
        "average_high": float(of_average[1]),
        "subjects": len(true),
        "ranks_covered": n_covered(true, low, high),
        "rank_width": float((high - low).mean()),
        "abilities_covered": n_covered(_standardised(suite.theta), *ability_ends),
        "misplaced": float(misplaced.sum()),
        "exposed": float((misplaced & excluded).sum()),
        "false_alarms": float((excluded & ~misplaced).sum()),
        "ess": min(
            float(array_stats.ess(abilities[..., k], method="bulk")) for k in range(len(true))
        ),
    }


def _ranks(values: NDArray[np.floating]) -> Floats:
    """Return ranks, best first; tied subjects share the best of their ranks."""
    return rankdata(-values, method="min")


def _standardised(theta: NDArray[np.floating]) -> NDArray[np.floating]:
    return (theta - theta.mean(-1, keepdims=True)) / theta.std(-1, keepdims=True)

"""What one simulated suite says of the simple average, of IRT and of the posterior's warning.

The posteriors of many small suites are drawn at once: each chain has responses of its own, and all
of them step together in one compiled call. Smaller suites are filled up with subjects and items
without trials, which say nothing of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats
from jaxtyping import Array
from numpy.typing import NDArray
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
from bayesirt.ranking.simple_averages import difficulty_gap
from bayesirt.ranking.subject_ranking import ranks_of_draws
from bayesirt.studies.measures import TAILS, Floats, n_covered, spearman
from bayesirt.studies.sparse_conditions import Suite
from bayesirt.studies.tasks import Row

MOST_SUBJECTS, MOST_ITEMS = 12, 10
BATCH = 50  # Suites of one call.
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
    way = OneAbility(TwoPL(priors or Priors()))
    start_key, run_key = jax.random.split(key)
    filled = [*range(len(suites)), *(0,) * (BATCH - len(suites))]
    cells = [suites[k].cells.matrices() for k in filled]
    data = DenseLayout(*(jnp.stack([_filled_cells(pair[x]) for pair in cells]) for x in (0, 1)))
    around = [way.start(point, None) for point in points]
    # What fills up starts within one unit of 0.
    centre, width = (
        {name: np.stack([_filled(name, around[k][x][name], x) for k in filled]) for name in own}
        for x, own in enumerate(around[0])
    )
    starts = start_chains(start_key, centre, width, _CHAINS)
    by_chain = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), starts)
    chains = run_chains(
        ManySuites(Sweeps(way)),
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


def fit(responses: Responses) -> PointEstimate:
    """Return the study's point estimate of a suite."""
    return fit_irt(responses)


def simple_average(responses: Responses) -> Floats:
    """Return each subject's mean success rate over the items that it met (Kang, 2026, eq. 3)."""
    successes, trials = responses.cells.matrices()
    rates = successes / np.maximum(trials, 1)
    return rates.sum(1) / np.count_nonzero(trials, 1)


def measure_point(suite: Suite, point: PointEstimate) -> Row:
    """Compare the simple average and the point estimate with the truth, by `POINT_COLUMNS`."""
    average, theta = simple_average(suite.responses), point["theta"]
    row = {
        "coverage": suite.responses.coverage,
        "rho_average": float(spearman(suite.theta, average)),
        "rho_irt": float(spearman(suite.theta, theta)),
        "rho_difficulty": float(spearman(suite.b, np.nan_to_num(point["b"]))),
        "gap_irt": difficulty_gap(point["b"], point["a"]) / float(theta.std()),
    }
    if suite.has_fake:
        true, by_average, by_irt = (_ranks(x) for x in (suite.theta, average, theta))
        row |= {"fake_rank": true[0], "fake_rank_average": by_average[0]}
        row |= {"fake_rank_irt": by_irt[0], "best_rank_average": by_average[1]}
        row["best_rank_irt"] = by_irt[1]
    return row


def measure_draws(suite: Suite, chains: NDArray[np.floating]) -> Row:
    """Compare draws of the abilities with the truth and with the simple average.

    By `DRAWS_COLUMNS`. Abilities are standardised in each draw, as no rank depends on their level
    and spread. An interval exposes a subject if it excludes all ranks that the average gives it.
    """
    theta = chains.reshape(-1, chains.shape[-1])
    average, mean = simple_average(suite.responses), theta.mean(0)
    ranks = ranks_of_draws(theta)
    low, high = np.quantile(ranks, TAILS, axis=0, method="inverted_cdf")
    own = np.quantile(spearman(mean, theta), TAILS)
    of_average = np.quantile(spearman(average, theta), TAILS)
    true = _ranks(suite.theta)
    abilities = _standardised(chains)
    ability_low, ability_high = np.quantile(abilities, TAILS, axis=(0, 1))
    ability = _standardised(suite.theta)
    first, last = _ranks(average), rankdata(-average, method="max")
    misplaced = (true < first) | (true > last)
    excluded = (last < low) | (first > high)
    return {
        "rho_posterior": float(spearman(suite.theta, mean)),
        "rho_posterior_low": float(own[0]),
        "rho_posterior_high": float(own[1]),
        "average_low": float(of_average[0]),
        "average_high": float(of_average[1]),
        "subjects": len(true),
        "ranks_covered": n_covered(true, low, high),
        "rank_width": float((high - low).mean()),
        "abilities_covered": n_covered(ability, ability_low, ability_high),
        "misplaced": float(misplaced.sum()),
        "exposed": float((misplaced & excluded).sum()),
        "false_alarms": float((excluded & ~misplaced).sum()),
        "ess": min(
            float(array_stats.ess(abilities[..., k], method="bulk")) for k in range(len(true))
        ),
    }


def _ranks(values: NDArray[np.floating]) -> Floats:
    """Return ranks, best first; tied subjects share the first of their ranks."""
    return rankdata(-values, method="min")


def _standardised(theta: NDArray[np.floating]) -> NDArray[np.floating]:
    return (theta - theta.mean(-1, keepdims=True)) / theta.std(-1, keepdims=True)

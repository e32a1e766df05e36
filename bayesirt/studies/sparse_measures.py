"""What one simulated suite says of the simple average, of IRT and of the posterior's warning."""

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.stats import rankdata

from bayesirt.data.responses import Responses
from bayesirt.estimators.joint_map import fit_joint_map as fit_irt
from bayesirt.point_estimate import PointEstimate
from bayesirt.ranking.simple_averages import difficulty_gap
from bayesirt.ranking.subject_ranking import ranks_of_draws
from bayesirt.studies.measures import TAILS, n_covered, spearman
from bayesirt.studies.sparse_conditions import Suite

Row = dict[str, float]

POINT_COLUMNS = (
    "coverage", "rho_average", "rho_irt", "rho_difficulty", "gap_irt", "fake_rank",
    "fake_rank_average", "fake_rank_irt", "best_rank_average", "best_rank_irt",
)  # fmt: skip
DRAWS_COLUMNS = (
    "rho_posterior", "rho_posterior_low", "rho_posterior_high", "average_low", "average_high",
    "subjects", "ranks_covered", "rank_width", "abilities_covered", "misplaced", "exposed",
    "false_alarms", "ess",
)  # fmt: skip


def fit(responses: Responses) -> PointEstimate:
    """Return the study's point estimate of a suite."""
    return fit_irt(responses)


def simple_average(responses: Responses) -> NDArray[np.float64]:
    """Return each subject's mean success rate over the items that it met.

    Kang (2026), equation (3).
    """
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


def _ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return ranks, best first; tied subjects share the first of their ranks."""
    return rankdata(-values, method="min")


def _standardised(theta: NDArray[np.floating]) -> NDArray[np.floating]:
    return (theta - theta.mean(-1, keepdims=True)) / theta.std(-1, keepdims=True)

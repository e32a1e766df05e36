"""The difference of two scores over the questions that both subjects answered, with uncertainty.

Uncertainty is over questions: each answered question gets a random weight (the Bayesian bootstrap,
Rubin 1981), the same for all questions of a group. A claim such as "the candidate is worse" is
judged with one additional question that contradicts it. With one run of each question, the
probability of the claim is then 1 minus the p-value of the exact one-sided McNemar test, so a claim
at 95% is wrong at most once in twenty times; repeats, margins and groups follow the same rule.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.names import rounded

N_DRAWS = 20_000
_MOST = 1e5
"""Most additional questions, or runs, that are worth reporting."""

_FEW, _FEW_DRAWS = 50, 5_000
"""Number of groups from which their mean is about normal, and draws to find out with fewer."""
_OF_INTERVALS = 0.5
"""Weight of the additional question at each end of an interval. With 0, intervals of fewer than a
hundred questions are too narrow; with 1, too wide."""

_FAR = 0.25
"""Share of a scale from which a question counts as moved far."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Questions that two subjects answered."""

    items: list[str]
    baseline: Floats  # shape (item,). Proportion correct.
    candidate: Floats
    trials: NDArray[np.int64]  # shape (2, item). Runs of each.
    group: NDArray[np.intp]  # shape (item,). Dependent questions share a number.
    of_runs: bool = True  # If False, trials are steps of a scale and proportions shares of it.

    @property
    def difference(self) -> Floats:
        """Candidate minus baseline, shape (item,)."""
        return self.candidate - self.baseline

    @property
    def n_groups(self) -> int:
        """Number of independent groups."""
        return len(np.unique(self.group))

    def totals(self) -> tuple[Floats, Floats]:
        """Return the sum of differences of each group, and its number of questions."""
        _, group = np.unique(self.group, return_inverse=True)
        size = np.bincount(group)
        return np.bincount(group, self.difference).astype(float), size.astype(float)

    def select(self, rows: NDArray[np.bool_]) -> "Pairs":
        """Return some of the questions."""
        return Pairs(
            [name for name, chosen in zip(self.items, rows, strict=True) if chosen],
            self.baseline[rows],
            self.candidate[rows],
            self.trials[:, rows],
            self.group[rows],
            self.of_runs,
        )


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline, as a share of the questions, with its 90% interval."""

    mean: float
    low: float
    high: float
    # Probabilities that the difference is below, or above, a value; each includes the
    # additional question that contradicts it.
    below: Callable[[float], float]
    above: Callable[[float], float]


def paired_difference(
    pairs: Pairs, *, seed: int = 0, n_draws: int = N_DRAWS, outside: float = 0.1
) -> Difference:
    """Return the difference of two subjects over questions that both answered.

    `outside` is the probability that the interval leaves out.
    """
    total, size = pairs.totals()
    draw = partial(_with_one_more, total, size, seed=seed, n_draws=n_draws)
    above, below = draw(1.0), draw(-1.0)
    return Difference(
        float(total.sum() / size.sum()),
        float(np.quantile(draw(-_OF_INTERVALS), outside / 2)),
        float(np.quantile(draw(_OF_INTERVALS), 1 - outside / 2)),
        lambda value: float((above < value).mean()),
        lambda value: float((below > value).mean()),
    )


def _with_one_more(
    total: Floats,
    size: Floats,
    share: float,
    *,
    times: float = 1.0,
    seed: int = 0,
    n_draws: int = N_DRAWS,
) -> Floats:
    """Draw the difference over groups, each seen so many times, and one more that contradicts it.

    The additional group counts by the size of `share`, and raises the difference if `share` is
    positive.
    """
    kinds, counts = np.unique(np.stack([total, size]), axis=1, return_counts=True)
    sums, sizes = np.hstack([kinds, [[np.sign(share) * _contradiction(total)], [size.mean()]]])
    shape = np.append(times * counts, abs(share))
    weights = np.random.default_rng(seed).standard_gamma(shape, (n_draws, len(shape)))
    return (weights @ sums) / (weights @ sizes)


def _contradiction(total: Floats) -> float:
    """Return the size of the contradicting question: the root mean square of the others'."""
    return float(np.sqrt(np.mean(total[total != 0] ** 2))) if total.any() else 1.0


@dataclass(frozen=True)
class Needed:
    """What would decide, if the estimated difference is right."""

    questions: float  # More questions like these; infinite beyond a hundred thousand.
    # More runs of both on these questions: infinite if none would do, nan without repeats, as
    # the variance of answers is then unknown.
    runs: float
    grouped: bool = False  # Whether the questions must come in new groups.

    def to_text(self) -> str:
        """Return it as a clause; empty if nothing would help."""
        ways = []
        if self.questions < inf:
            n = rounded(self.questions)
            where = " in new groups" if self.grouped else ""
            ways.append(f"about {n:,} more question{'' if n == 1 else 's'}{where}")
        if self.runs < inf:
            ways.append(f"{self.runs:,.0f} more run{'' if self.runs == 1 else 's'} of each")
        return " or ".join(ways)


def needed(pairs: Pairs, margin: float, sure: float) -> Needed:
    """Return what would decide on which side of the margin the difference is.

    n questions suffice if n times the gap, minus the contradicting question, is z √(n variance). Of
    few groups, the rule itself is evaluated with more groups like them.
    """
    total, size = pairs.totals()
    n, against = float(size.sum()), _contradiction(total)
    mean = total.sum() / n
    gap, z = abs(mean + margin), float(ndtri(sure))
    variance = float(((total - mean * size) ** 2).sum()) / n  # per question, summed within groups
    spread = z * np.sqrt(variance)
    enough = ((spread + np.sqrt(spread**2 + 4 * gap * against)) / (2 * gap)) ** 2 if gap else inf
    runs = _more_runs(pairs, variance, (max(n * gap - against, 0.0) / z) ** 2 / n)
    questions = max(1.0, enough - n)
    if len(total) < _FEW and questions < _MOST:
        questions = size.mean() * _more_groups(total, size, margin, sure)
    grouped = len(total) < len(pairs.items)
    return Needed(float(questions) if questions < _MOST else inf, runs, grouped)


def _more_groups(total: Floats, size: Floats, margin: float, sure: float) -> float:
    """Return how many more groups like these would decide; infinite if too many."""
    n, side = len(total), 1.0 if total.sum() < -margin * size.sum() else -1.0

    def decide(more: int) -> bool:
        draws = _with_one_more(total, size, side, times=1 + more / n, n_draws=_FEW_DRAWS)
        return float((side * (draws + margin) < 0).mean()) >= sure

    enough = 1
    while not decide(enough):
        enough *= 2
        if enough * size.mean() > _MOST:
            return inf
    return 1 + bisect_left(range(1, enough + 1), True, key=decide)


def _more_runs(pairs: Pairs, variance: float, allowed: float) -> float:
    """Return how many more runs of each lower a question's variance enough, if any do."""
    if not _repeated(pairs):
        return nan
    noise = 0.0
    for share, trials in zip((pairs.baseline, pairs.candidate), pairs.trials, strict=True):
        again = trials > 1
        noise += float(np.mean((share * (1 - share) * trials / (trials - 1))[again]))
    runs = float(pairs.trials.mean())
    slack = allowed - max(variance - noise / runs, 0.0)
    if slack <= noise / _MOST:
        return inf
    return max(1.0, float(ceil(noise / slack - runs)))


def _repeated(pairs: Pairs) -> bool:
    return pairs.of_runs and bool((pairs.trials > 1).any(1).all())


def flipped(pairs: Pairs) -> pd.DataFrame:
    """Return the questions that most runs of one got right and most of the other wrong.

    On a scale, those that moved by a quarter of it or more. Columns item, baseline, candidate and
    difference; lost questions first.
    """
    was, now = pairs.baseline - 0.5, pairs.candidate - 0.5
    turned = was * now < 0 if pairs.of_runs else np.abs(pairs.difference) >= _FAR
    table = pd.DataFrame(
        {
            "item": pairs.items,
            "baseline": pairs.baseline,
            "candidate": pairs.candidate,
            "difference": pairs.difference,
        }
    )[turned]
    return table.sort_values("difference", kind="stable").reset_index(drop=True)

"""What it takes to tell subjects apart: the detectable difference, and how many more items."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from math import ceil, inf, isinf, isnan, nan
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesirt.data.scales import Scale, score_name, shown_score
from bayesirt.errors import ResponseError
from bayesirt.likelihood.families import family_named
from bayesirt.names import in_percent, one_line, rounded
from bayesirt.posterior import TAILS, Posterior
from bayesirt.ranking.chain_bounds import supported
from bayesirt.ranking.item_information import item_information
from bayesirt.ranking.score_order import by_ability
from bayesirt.ranking.subject_ranking import Ranking
from bayesirt.verdict import chains_of

SURE = 0.95
"""Probability from which one subject is called certainly above another."""
_POWER = 0.8
_LEAST_RELIABILITY = 0.01
_MOST = 1e6
_DRAWS = 200
_MOST_CELLS = 200_000_000
"""Most cells, over all draws that the information is averaged over."""


class Differences(NamedTuple):
    """Draws of a difference."""

    draws: NDArray[np.floating]  # shape (chain, draw)
    sound: bool  # False if the draws of the posterior are not.


def differences(posterior: Posterior, name: str, one: int, other: int) -> Differences:
    """Return draws of the difference of two abilities, on the reported scale."""
    draws = posterior.reported[name]
    return Differences(draws[..., one] - draws[..., other], posterior.verdict.sound)


def difference_columns(apart: Differences) -> tuple[float, float, float, float]:
    """Return P(above 0) of a difference, its mean and its 90% interval."""
    chains = apart.draws.reshape(1, -1) if apart.sound else chains_of(apart.draws)
    above = (chains > 0).mean(1)
    p_above = above if apart.sound else supported(above[:, None], of_pairs=True)
    low, high = np.quantile(chains, TAILS, axis=1)
    return float(p_above[0]), float(apart.draws.mean()), float(low.min()), float(high.max())


@dataclass(frozen=True)
class Separation:
    """Two subjects, and what it would take to tell them apart.

    >>> Separation("gpt-x", "llama-y", 0.83, 0.31, -0.2, 0.82, 140).to_text()
    'gpt-x is above llama-y with probability 83%; if they differ by as much as it seems (0.31), \
about 140 more questions like these, put to both, would make it 95%.'
    """

    first: str  # The one with the higher mean.
    second: str
    p_above: float  # P(first above second).
    difference: float  # Of their abilities, with its 90% interval.
    low: float
    high: float
    # How many more items like these, answered by both, would raise the probability to `SURE`,
    # if the estimated difference is right; 0 if it is reached now, infinite beyond a million;
    # nan if the draws are not sound. Probability and interval are then what every chain
    # supports.
    more_items: float

    def to_text(self) -> str:
        """Return who is above, with what probability, and what would make it certain."""
        if isnan(self.more_items):
            return self.unsettled
        if self.more_items == 0:
            return f"{self.now}: that is certain."
        if isinf(self.more_items):
            return (
                f"{self.now}; not even a million more questions like these would tell them apart."
            )
        return (
            f"{self.now}; {self.seems} {rounded(self.more_items):,} more questions like these, put "
            f"to both, would make it {SURE:.0%}."
        )

    @property
    def unsettled(self) -> str:
        """A sentence that chains do not agree."""
        names = one_line(self.first, 60), one_line(self.second, 60)
        return (
            f"Whether {names[0]} is above {names[1]} is not known yet: the draws are not sound "
            f"(the probability that all chains support is {in_percent(self.p_above)})."
        )

    @property
    def now(self) -> str:
        """Who is above, and with what probability."""
        names = one_line(self.first, 60), one_line(self.second, 60)
        return f"{names[0]} is above {names[1]} with probability {in_percent(self.p_above)}"

    @property
    def seems(self) -> str:
        """The assumption of the forecast."""
        return f"if they differ by as much as it seems ({self.difference:.2f}), about"


@dataclass(frozen=True)
class Detectable:
    """The smallest difference that such results detect."""

    # Two subjects that differ by this much are told apart (P above 95%) 4 times out of 5.
    ability: float
    score: float  # The same as a share of all items, in the middle of the ranking.
    answers: Scale | None = None  # What answers are, if not right and wrong.

    def to_text(self) -> str:
        """Return the difference in one sentence."""
        size = f"{100 * self.score:.1f} points of expected score"
        if not shown_score(self.answers, 0).endswith("%"):
            assert self.answers is not None
            amount = self.answers.value(self.score) - self.answers.value(0)
            size = f"{amount:.2g} of the expected {score_name(self.answers)}"
        return (
            f"Mid-table differences of {self.ability:.2f} in ability, or {size}, are detected "
            f"with {_POWER:.0%} power."
        )


def separate(posterior: Posterior, one: str, other: str) -> Separation:
    """Compare two subjects, and estimate how many more items would make the result certain.

    Parameters
    ----------
    posterior : Posterior
    one, other : str
        Names of two subjects.

    Returns
    -------
    Separation

    Raises
    ------
    ResponseError
        If a subject is unknown, or both are the same.

    Notes
    -----
    With J_s = 1 + Σ n_sj I_j(θ_s) the information on a subject, including that of the population,
    and Ī_s the mean of I_j(θ_s) over the items, k more items leave the variance of the difference
    V (1/(J_1 + k Ī_1) + 1/(J_2 + k Ī_2)) / (1/J_1 + 1/J_2), where V is its posterior variance now.
    So the part of V that is due to uncertain items is assumed to shrink with the rest, as it does
    if the new items are calibrated with the old ones.
    """
    subjects = posterior.subjects
    for name in (one, other):
        if name not in subjects:
            also = posterior.clusters is not None and name in posterior.clusters.names
            hint = "pass --clusters to compare clusters" if also else _nearest(name, subjects)
            raise ResponseError(f"{one_line(name)!r} is not a subject of this run; {hint}")
    if one == other:
        raise ResponseError(f"{one_line(one)!r} is named twice; name two subjects")
    rows = np.array([subjects.index(one), subjects.index(other)])
    pair = posterior.reported.theta[:, rows]
    if pair[:, 0].mean() < pair[:, 1].mean():
        rows, pair = rows[::-1], pair[:, ::-1]
    information, added = (x[rows] for x in subject_information(posterior))
    names = subjects[rows[0]], subjects[rows[1]]
    return _separation(names, differences(posterior, "theta", *rows), information, added)


def _nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint with a name that was perhaps meant."""
    close = get_close_matches(name, names, 1, 0.5)
    return f"did you mean {one_line(close[0])!r}?" if close else "name one of its ranking"


def separate_neighbours(posterior: Posterior, ranking: Ranking) -> pd.DataFrame:
    """Return what would tell each subject from the next one of a ranking.

    One row per pair of neighbours, best first, with the attributes of `Separation`.
    """
    subjects = posterior.subjects
    positions = {name: k for k, name in enumerate(subjects)}
    order = np.array([positions[name] for name in by_ability(ranking.summary)["subject"]])
    (information, added), sound = subject_information(posterior), posterior.verdict.sound
    theta = np.ascontiguousarray(np.moveaxis(posterior.reported["theta"], -1, 0))
    rows = (
        _separation(
            (subjects[pair[0]], subjects[pair[1]]),
            Differences(theta[pair[0]] - theta[pair[1]], sound),
            information[pair],
            added[pair],
        )
        for pair in np.stack([order[:-1], order[1:]], 1)
    )
    return pd.DataFrame(rows, columns=list(Separation.__dataclass_fields__))


def least_detectable(posterior: Posterior) -> Detectable:
    """Return the smallest difference that results like these detect 4 times out of 5.

    In ability it is (z.95 + z.80 √r) s / r for the standard deviation s of the difference of two
    subjects' abilities, the median over pairs of neighbours in the middle half, and the reliability
    r of abilities: posterior means are r times as far apart as the truth, with standard error √r s.
    In score it is the change in the mean expected proportion correct over that difference, around
    the median ability.
    """
    posterior = posterior.reported
    theta = posterior.theta
    order = np.argsort(-theta.mean(0), kind="stable")
    n = len(order)
    middle = order[n // 4 : max(n // 4 + 2, n - n // 4)]
    spread = float(np.median(np.diff(theta[:, middle], axis=1).std(0)))
    within, between = theta.var(0).mean(), theta.mean(0).var()
    reliability = max(float(between / (between + within)), _LEAST_RELIABILITY)
    ability = float(ndtri(SURE) + ndtri(_POWER) * reliability**0.5) * spread / reliability
    centre = float(np.median(theta.mean(0)))
    share = _expected_share(posterior, np.array([centre - ability / 2, centre + ability / 2]))
    return Detectable(ability, float(share[1] - share[0]), posterior.answers)


def _separation(
    names: tuple[str, str],
    apart: Differences,
    information: NDArray[np.float64],
    added: NDArray[np.float64],
) -> Separation:
    def remaining(more: float) -> float:
        return float((1 / (1 + information + more * added)).sum() / (1 / (1 + information)).sum())

    more = amount_needed(apart, remaining)
    return Separation(*names, *difference_columns(apart), more)


def amount_needed(
    apart: Differences, remaining: Callable[[float], float], most: float = _MOST
) -> float:
    """Return how many more items, or other units, raise mean / sd to the quantile of `SURE`."""
    if not apart.sound:
        return nan
    draws = apart.draws
    target = (float(draws.mean()) / float(ndtri(SURE))) ** 2 / float(draws.var())
    if target >= 1:
        return 0.0
    if remaining(most) > target:
        return inf
    from scipy.optimize import brentq

    return float(ceil(brentq(lambda more: remaining(more) - target, 0, most, xtol=0.5)))


def subject_information(
    posterior: Posterior,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the information on each subject, and what one more answer like these would add."""
    most = max(4, min(_DRAWS, _MOST_CELLS // posterior.trials.size))
    draws = tuple(posterior.draws(name, most) for name in posterior.parameters)
    information, added = _information_of(posterior.link, posterior.trials, draws)
    return np.asarray(information, np.float64), np.asarray(added, np.float64)


@partial(jax.jit, static_argnums=0)
def _information_of(
    link: str, trials: Float[Array, "subject item"], draws: tuple[Array, ...]
) -> tuple[Float[Array, " subject"], Float[Array, " subject"]]:
    def of_draw(draw: tuple[Array, ...]) -> tuple[Array, Array]:
        theta, *parameters = draw
        information = partial(item_information, theta[:, None], *parameters, link=link)
        return information(trials=trials).sum(1), information().mean(1)

    information, added = jax.lax.map(of_draw, draws)
    return information.mean(0), added.mean(0)


def _expected_share(posterior: Posterior, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean expected proportion correct over all items, at abilities."""
    a, d, *further = (posterior.draws(name, _DRAWS) for name in posterior.parameters[1:])
    probability = family_named(posterior.link).given(further).probability
    return np.array([np.asarray(probability(jnp.asarray(x * a + d))).mean() for x in at])

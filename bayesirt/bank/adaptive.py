"""Adaptive testing: estimate the ability so far, and choose the items to ask next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from bayesirt.data.scales import Scale, shown_score
from bayesirt.errors import ResponseError
from bayesirt.inference.ability_belief import N_DRAWS, Answers, Belief, ItemDraws, believe
from bayesirt.likelihood.latencies import SpeedEvidence
from bayesirt.names import counted, first_few, one_line
from bayesirt.posterior import LEVEL, TAILS, Posterior
from bayesirt.ranking.item_information import expected_information, expected_variance

Criterion = Literal["information", "variance"]

CRITERIA: tuple[Criterion, ...] = ("information", "variance")
NEW_SUBJECT = "a new subject"
_FINE = 2001
"""Grid points for inverting a distribution function."""


class Estimate(NamedTuple):
    """Estimate of one quantity, with its 90% interval."""

    mean: float
    sd: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Length of the 90% interval."""
        return self.high - self.low

    def to_text(self) -> str:
        """Return the estimate in a few words."""
        mean = round(self.mean, 2) + 0.0  # Avoids a negative zero.
        return f"{mean:+.2f} ({LEVEL:.0%} interval {self.low:+.2f} to {self.high:+.2f})"


@dataclass(frozen=True)
class AbilitySoFar:
    """Estimate of ability from the answers so far, including uncertainty of items."""

    ability: Estimate  # In standard deviations of the calibrating population.
    speed: Estimate | None  # For LaRT.
    # Numbers of answered items, and of those with a length that the model can use.
    n_answers: int
    n_lengths: int
    effective_draws: float  # Effective number of item draws, given the answers.

    def stops(self, width: float) -> bool:
        """Return whether the interval of ability is shorter than `width`."""
        check_stop_width(width)
        return self.ability.width < width

    def to_text(self, stop_width: float | None = None) -> str:
        """Return the estimate in words, and whether it is precise enough."""
        sentences = [f"Ability {self.ability.to_text()} {after_answers(self.n_answers)}."]
        if self.speed is not None and self.n_lengths:
            lengths = counted(self.n_lengths, "length")
            sentences.append(f"Speed {self.speed.to_text()} from {lengths}.")
        if stop_width is not None:
            verdict = stop_or_go_on(stop_width, stop=self.stops(stop_width))
            sentences.append(f"The interval of ability is {self.ability.width:.2f} wide, {verdict}")
        return " ".join(sentences)


@dataclass(frozen=True, eq=False, repr=False)
class NextItems:
    """Unanswered items, best first, and the ability estimate that they are chosen for."""

    so_far: AbilitySoFar
    # One row per item: item; p_right, the probability of a right answer, or expected, the
    # expected grade or score as a share of the highest; information expected from answer and
    # length; of_length, the length's part of it; variance and sd of the ability expected after
    # the item (sd is the square root of variance).
    summary: pd.DataFrame
    criterion: Criterion  # Criterion of the order.
    scale: Scale | None = None  # Kind of answers, if not right and wrong.

    def __repr__(self) -> str:
        return f"<NextItems: {self.to_text()}>"

    def best(self, n: int) -> pd.DataFrame:
        """Return the best items, with expected answers as grades or scores."""
        table = self.summary.head(n)
        return (
            table
            if self.scale is None
            else table.assign(expected=self.scale.value(table["expected"]))
        )

    def to_text(self, stop_width: float | None = None) -> str:
        """Return the best item and its expected gain, or an empty string if it is time to stop."""
        if stop_width is not None and self.so_far.stops(stop_width):
            return ""
        best = self.summary.iloc[0]
        chance = (
            f"a {best['p_right']:.0%} chance of a right answer"
            if self.scale is None
            else f"an expected {self.scale.called} of {shown_score(self.scale, best['expected'])}"
        )
        sentence = (
            f"Next: {one_line(best['item'])}, with {chance} "
            f"and an expected information of {best['information']:.2f}"
        )
        if best["of_length"] > 0:
            sentence += f" ({best['of_length']:.2f} of it from the length)"
        return (
            f"{sentence}; the standard deviation of ability is expected to go from "
            f"{self.so_far.ability.sd:.3f} to {best['sd']:.3f}."
        )


def ability_so_far(
    posterior: Posterior, answers: Answers | None = None, *, n_draws: int = N_DRAWS
) -> AbilitySoFar:
    """Estimate a new subject's ability from its answers to calibrated items.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the items, from a model of one ability or LaRT.
    answers : Answers, optional
        By default none yet.
    n_draws : int
        Number of item draws to average over.

    Returns
    -------
    AbilitySoFar

    Notes
    -----
    The subject is assumed to come from the population that the items were calibrated on: its prior
    is N(0, 1), which for LaRT is updated by its lengths. See
    `bayesirt.inference.ability_belief.believe`.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from bayesirt import Responses, RunOptions, sample_posterior
    >>> responses = Responses.from_arrays(np.tri(6, 5))
    >>> key = jax.random.key(0)
    >>> options = RunOptions(num_warmup=50, num_samples=20)
    >>> posterior = sample_posterior(responses, key=key, options=options)
    >>> print(ability_so_far(posterior).to_text())
    Ability +0.00 (90% interval -1.64 to +1.64) before any answer.
    """
    items, answers = ItemDraws.of(posterior, n_draws), answers or Answers.none()
    return _summarise(believe(items, answers.padded(), link=posterior.link), items, answers)


def check_stop_width(width: float | None) -> None:
    """Refuse a width that is not positive."""
    if width is not None and not width > 0:
        raise ResponseError(f"the width to stop at must be above 0, got {width:g}")


def after_answers(n: int) -> str:
    """Return a phrase such as "after 3 answers"."""
    return f"after {counted(n, 'answer')}" if n else "before any answer"


def stop_or_go_on(width: float, *, stop: bool) -> str:
    """Return in words whether an interval is shorter than the width to stop at."""
    if stop:
        return f"shorter than {width:g}: precise enough, so stop."
    return f"not yet shorter than {width:g}: continue."


def suggest_items(
    posterior: Posterior,
    answers: Mapping[str, Answers] | None = None,
    *,
    subject: str | None = None,
    criterion: Criterion = "information",
) -> dict[str, NextItems]:
    """Suggest the next items of each of several subjects, by subject."""
    if answers is None:
        return {subject or NEW_SUBJECT: rank_next_items(posterior, criterion=criterion)}
    if subject is not None:
        check_subject(answers, subject)
    chosen = answers if subject is None else {subject: answers[subject]}
    suggestions = {}
    for name, cells in chosen.items():
        try:
            suggestions[name] = rank_next_items(posterior, cells, criterion=criterion)
        except ResponseError as error:
            raise ResponseError(f"subject {one_line(name)!r}: {error}") from None
    return suggestions


def check_subject(answers: Mapping[str, Answers], subject: str) -> None:
    """Refuse a subject that gave no answers."""
    if subject not in answers:
        subjects = first_few([repr(one_line(name, 30)) for name in answers], 5)
        raise ResponseError(
            f"no answers from subject {one_line(subject)!r}; the subjects are {subjects}"
        )


def rank_next_items(
    posterior: Posterior,
    answers: Answers | None = None,
    *,
    criterion: Criterion = "information",
    n_draws: int = N_DRAWS,
) -> NextItems:
    """Rank the items that were not answered yet by their expected gain.

    Parameters
    ----------
    posterior : Posterior
        Posterior of the items, from a model of one ability or LaRT.
    answers : Answers, optional
        By default none yet.
    criterion : {"information", "variance"}
        The largest expected information, or the smallest expected variance after the item.
    n_draws : int
        Number of item draws to average over.

    Returns
    -------
    NextItems
        For LaRT, the next answer is expected to have a length, unless there are answers and none
        of them has one.

    Raises
    ------
    ValueError
        If the criterion is unknown.
    ResponseError
        If all items were answered.
    """
    if criterion not in CRITERIA:
        raise ValueError(f"`criterion` must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    items, answers = ItemDraws.of(posterior, n_draws), answers or Answers.none()
    belief = believe(items, answers.padded(), link=posterior.link)
    so_far = _summarise(belief, items, answers)
    if so_far.n_answers and not so_far.n_lengths:
        items = items._replace(lengths=None)
    table = _prospects(posterior, items, belief)
    answered = np.isin(np.arange(len(table)), answers.item[np.asarray(answers.trials) > 0])
    if answered.all():
        raise ResponseError(f"all {len(table)} items were answered, so there is no next item")
    ascending = criterion == "variance"
    ordered = table[~answered].sort_values(criterion, ascending=ascending, kind="stable")
    return NextItems(so_far, ordered.reset_index(drop=True), criterion, posterior.answers)


def _prospects(posterior: Posterior, items: ItemDraws, belief: Belief) -> pd.DataFrame:
    link, scale = posterior.link, posterior.answers
    of_answer, of_length = expected_information(items, belief, link=link)
    mean, variance = expected_variance(items, belief, link=link, steps=scale.steps if scale else 1)
    columns = {
        "p_right" if scale is None else "expected": mean,
        "information": of_answer + of_length,
        "of_length": of_length,
        "variance": variance,
        "sd": np.sqrt(variance),
    }
    return pd.DataFrame({"item": posterior.items} | {k: np.asarray(v) for k, v in columns.items()})


def _summarise(belief: Belief, items: ItemDraws, answers: Answers) -> AbilitySoFar:
    density = np.asarray(belief.weight.sum(0))
    seen = np.asarray(answers.trials) > 0
    speed, n_lengths = None, 0
    if items.lengths is not None and belief.evidence is not None:
        speed = _estimate(*_speed_density(belief, belief.evidence, items.lengths.rho))
        n_lengths = int((np.isfinite(answers.log_latency) & seen).sum())
    return AbilitySoFar(
        _estimate(np.asarray(belief.nodes), density),
        speed,
        int(seen.sum()),
        n_lengths,
        float(belief.effective_draws),
    )


def _speed_density(
    belief: Belief, evidence: SpeedEvidence, rho: Float[Array, " draw"]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a grid of speeds, and their unnormalised density, which is a mixture of normals."""
    weight = np.asarray(belief.weight)
    means, variances = evidence.speed(rho, belief.nodes[:, None])
    mean, sd = np.asarray(means).T, np.sqrt(np.asarray(variances))[:, None]
    centre = (weight * mean).sum()
    spread = np.sqrt((weight * ((mean - centre) ** 2 + sd**2)).sum())
    tau = centre + spread * np.linspace(-6, 6, weight.shape[1])
    weight = weight / sd
    return tau, np.array([(weight * np.exp(-(((t - mean) / sd) ** 2) / 2)).sum() for t in tau])


def _estimate(nodes: NDArray[np.float64], density: NDArray[np.float64]) -> Estimate:
    share = density / density.sum()
    mean = float(share @ nodes)
    sd = float(np.sqrt(share @ (nodes - mean) ** 2))
    low, high = intervals(nodes[None], density[None])[0]
    return Estimate(mean, sd, float(low), float(high))


def intervals(nodes: ArrayLike, density: ArrayLike) -> NDArray[np.float64]:
    """Return 90% equal-tailed intervals of densities given on grids."""
    nodes, density = np.asarray(nodes), np.asarray(density)
    along = np.linspace(0, 1, nodes.shape[1])
    fine = np.linspace(0, 1, _FINE)
    below = CubicSpline(along, density, axis=1).antiderivative()(fine)
    places = np.array([np.interp(np.array(TAILS) * cdf[-1], cdf, fine) for cdf in below])
    return nodes[:, :1] + places * (nodes[:, -1:] - nodes[:, :1])

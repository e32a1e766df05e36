"""The difference of two scores, through items that were calibrated on other subjects.

Each subject's ability is estimated from its answers, given draws of the items; its score is the
expected score at that ability on all questions that either subject answered. So discriminating
questions count for more than those that everybody gets right, and those that one of the two did
not answer count too.
"""

from collections.abc import Container
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.data.responses import Responses
from bayesirt.data.scales import refuse_other_answers
from bayesirt.errors import ResponseError
from bayesirt.inference.ability_belief import Answers, ItemDraws, believe
from bayesirt.likelihood.families import family_named
from bayesirt.names import counted
from bayesirt.posterior import Posterior

_LEAST_KNOWN = 0.5
"""Least share of the questions that must have been calibrated to represent all."""


@dataclass(frozen=True, eq=False)
class CalibratedDifference:
    """Candidate minus baseline, as expected from their abilities."""

    values: NDArray[np.float64]  # shape (value,). The difference's distribution, sorted.
    weights: NDArray[np.float64]
    n_questions: int  # Calibrated questions that the scores cover.
    source: str  # What they were calibrated on, in words.

    @property
    def mean(self) -> float:
        """The expected difference."""
        return float(self.values @ self.weights)

    def quantile(self, level: float) -> float:
        """Return a quantile of the difference."""
        at = np.searchsorted(np.cumsum(self.weights), level)
        return float(self.values[min(int(at), len(self.values) - 1)])

    def below(self, value: float) -> float:
        """Return the probability that the difference is below a value."""
        return float(self.weights[self.values < value].sum())

    def above(self, value: float) -> float:
        """Return the probability that the difference is above a value."""
        return float(self.weights[self.values > value].sum())

    def as_dict(self, margin: float) -> dict[str, Any]:
        """Return the numbers, JSON-ready."""
        return {
            "history_difference": self.mean,
            "history_low": self.quantile(0.05),
            "history_high": self.quantile(0.95),
            "history_p_regression": self.below(-margin),
            "history_p_no_regression": self.above(-margin),
            "history_n_questions": self.n_questions,
            "history_source": self.source,
        }


def known_questions(
    responses: Responses, calibrated: Container[str], baseline: str, candidate: str
) -> Responses:
    """Return both subjects' answers to calibrated questions that either of them answered."""
    rows = np.array([responses.subjects.index(name) for name in (baseline, candidate)])
    trials = responses.cells.matrices()[1][rows]
    answered = np.flatnonzero(trials.any(0))
    questions = np.array([k for k in answered if responses.items[k] in calibrated], np.intp)
    if len(questions) < _LEAST_KNOWN * len(answered) or not trials[:, questions].any(1).all():
        raise ResponseError(
            f"the history calibrated only {len(questions)} of the {len(answered)} questions; it "
            f"must be of this suite"
        )
    return responses.select(rows, questions)


def calibrated_difference(
    posterior: Posterior, responses: Responses, baseline: str, candidate: str
) -> CalibratedDifference:
    """Return the difference from all answers of both subjects, through a posterior of the items.

    Scores cover every question that either of the two answered: a candidate that was run on some
    of the baseline's questions is compared on all of them.
    """
    if posterior.has_speeds:
        raise ResponseError("--history takes a run of the 2pl or the 3pl, but this one is of lart")
    refuse_other_answers(posterior.answers, "a history", "binary")
    positions = {name: k for k, name in enumerate(posterior.items)}
    part = known_questions(responses, positions, baseline, candidate)
    at = np.array([positions[name] for name in part.items], np.int32)
    items, beliefs = ItemDraws.of(posterior), []
    for right, runs in zip(*part.cells.matrices(), strict=True):
        answered = runs > 0
        nothing = np.full(answered.sum(), np.nan)
        answers = Answers(at[answered], right[answered], runs[answered], nothing)
        beliefs.append(believe(items, answers.padded(), link=posterior.link))
    scores = [_scores(items, jnp.asarray(at), b.nodes, link=posterior.link) for b in beliefs]
    one, two = (np.asarray(b.weight, np.float64) for b in beliefs)
    of_draw = one.sum(1) * two.sum(1)
    given = one / one.sum(1, keepdims=True), two / two.sum(1, keepdims=True)
    weight = given[0][:, :, None] * given[1][:, None] * (of_draw / of_draw.sum())[:, None, None]
    low, high = (np.asarray(x, np.float64) for x in scores)
    value = (high[:, None, :] - low[:, :, None]).ravel()
    order = np.argsort(value)
    source = counted(len(posterior.subjects), "subject")
    return CalibratedDifference(value[order], weight.ravel()[order], len(at), source)


@partial(jax.jit, static_argnames="link")
def _scores(
    items: ItemDraws, at: Array, nodes: Float[Array, " node"], *, link: str
) -> Float[Array, "draw node"]:
    """Return the expected score on the questions, for each item draw and ability."""

    def of_draw(draw: tuple[Array, ...]) -> Array:
        a, d, *further = draw
        family = family_named(link).given(further)
        return family.probability(a * nodes[:, None] + d).mean(1)

    return jax.lax.map(of_draw, tuple(x[:, at] for x in items.parameters))

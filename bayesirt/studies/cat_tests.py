"""Adaptive and other tests of many simulated subjects at once."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from bayesirt.bank.adaptive import CRITERIA, intervals
from bayesirt.inference.ability_belief import Answers, Belief, ItemDraws, believe
from bayesirt.ranking.item_information import expected_information, expected_variance
from bayesirt.studies.cat_banks import Subjects

METHOD_NAMES = {
    "information": "most information",
    "variance": "least variance",
    "fixed": "the same items for all",
    "random": "random items",
}
ADAPTIVE = tuple(CRITERIA)
METHODS = (*ADAPTIVE, "fixed", "random")
"""Two adaptive ways; the items that are best before any answer, for everyone; items at random."""
_NODES = 25


class Track(NamedTuple):
    """What is said of each ability after each number of answers, from none on."""

    mean: NDArray[np.float64]  # shape (answers, subject)
    low: NDArray[np.float64]  # shape (answers, subject)
    high: NDArray[np.float64]  # shape (answers, subject)


def take_tests(
    method: str,
    items: ItemDraws,
    link: str,
    subjects: Subjects,
    n_answers: int,
    rng: np.random.Generator,
) -> Track:
    """Let every subject take a test."""
    shape = subjects.right.shape
    priority = jnp.asarray(_priority(method, items, link, shape, rng))
    criterion = method if method in CRITERIA else ""
    rows = np.arange(shape[0])
    asked = np.zeros((shape[0], n_answers), np.int32)
    used = np.zeros(shape, bool)
    track = []
    for n in range(n_answers + 1):
        trials = np.broadcast_to(np.arange(n_answers) < n, asked.shape).astype(np.int32)
        answers = Answers(
            asked,
            np.take_along_axis(subjects.right, asked, 1) * trials,
            trials,
            np.where(trials, np.take_along_axis(subjects.log_latency, asked, 1), np.nan),
        )
        nodes, density, best = _step(items, answers, used, priority, link, criterion)
        nodes, density = np.asarray(nodes), np.asarray(density)
        ends = intervals(nodes, density)
        track.append(((nodes * density).sum(1), ends[:, 0], ends[:, 1]))
        if n < n_answers:
            asked[:, n] = best
            used[rows, asked[:, n]] = True
    return Track(*map(np.array, zip(*track, strict=True)))


def _priority(
    method: str, items: ItemDraws, link: str, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return what decides where answers do not: the higher, the earlier."""
    if method == "random":
        return rng.uniform(size=shape)
    before = believe(items, Answers.none().padded(), link=link)
    _, variance = expected_variance(items, before, link=link)
    return np.broadcast_to(-np.asarray(variance), shape)


@partial(jax.jit, static_argnames=("link", "criterion"))
def _step(
    items: ItemDraws, answers: Answers, used: Array, priority: Array, link: str, criterion: str
) -> tuple[Array, Array, Array]:
    """Return each ability's grid and density, and the item that each subject is asked next."""

    def of_subject(own: Answers) -> tuple[Belief, Array]:
        belief = believe(items, own, link=link, n_nodes=_NODES)
        if criterion == "information":
            return belief, sum(expected_information(items, belief, link=link))
        if criterion == "variance":
            return belief, -expected_variance(items, belief, link=link)[1]
        return belief, jnp.zeros(items.a.shape[1])

    beliefs, scores = jax.vmap(of_subject)(answers)
    scores = scores if criterion else priority
    best = jnp.argmax(jnp.where(used, -jnp.inf, scores), axis=1)
    return beliefs.nodes, beliefs.weight.sum(1), best

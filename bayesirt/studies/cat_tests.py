"""Item banks that are drawn, answered and calibrated, and tests of many subjects at once."""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from bayesirt.bank.adaptive import CRITERIA, intervals
from bayesirt.data.cells import CellList, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.inference.ability_belief import Answers, Belief, ItemDraws, believe
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import model_named
from bayesirt.posterior import Posterior
from bayesirt.ranking.item_information import expected_information, expected_variance
from bayesirt.studies.measures import Floats

BankModel = Literal["2pl", "lart"]
BANKS: dict[BankModel, str] = {"2pl": "2PL", "lart": "LaRT"}
_DRAWS = 500  # Of each of two chains.
RHO = -0.6  # Correlation of ability and speed: the abler take longer.
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


class Items(NamedTuple):
    """True items, as their model has them; the 2PL's lengths are noise that nobody looks at."""

    a: Floats  # shape (item,)
    d: Floats  # shape (item,)
    phi: Floats  # shape (item,)
    omega: Floats  # shape (item,)
    lam: Floats  # shape (item,)


class Subjects(NamedTuple):
    """Subjects whose ability is known, and what each would answer to each item."""

    theta: Floats  # shape (subject,)
    right: NDArray[np.int64]  # shape (subject, item)
    log_latency: Floats  # shape (subject, item)


def draw_items(model: BankModel, n_items: int, rng: np.random.Generator) -> Items:
    """Draw true items.

    log a ~ N(.1, .4) for the 2PL and N(-.4, .4) for LaRT, whose probit is 1.7 times as steep;
    difficulties as wide as N(0, 1.2); lengths as Xu et al. (2026) draw theirs (section 5).
    """
    a = np.exp((0.1 if model == "2pl" else -0.4) + 0.4 * rng.normal(size=n_items))
    return Items(
        a,
        -a * 1.2 * rng.normal(size=n_items),
        rng.uniform(0.5, 1.5, n_items),
        5 + rng.normal(size=n_items),
        rng.uniform(0.5, 2, n_items),
    )


def draw_subjects(
    model: BankModel, items: Items, n_subjects: int, rng: np.random.Generator
) -> Subjects:
    """Draw subjects from the population, and their answers to every item."""
    theta, other = rng.normal(size=(2, n_subjects))
    tau = RHO * theta + np.sqrt(1 - RHO**2) * other
    p = (expit if model == "2pl" else ndtr)(theta[:, None] * items.a + items.d)
    noise = rng.normal(size=p.shape) * np.sqrt(items.lam)
    lengths = items.omega - tau[:, None] * items.phi + noise
    return Subjects(theta, (rng.uniform(size=p.shape) < p).astype(np.int64), lengths)


def calibrate(model: BankModel, subjects: Subjects, *, key: Array) -> Posterior:
    """Draw from the posterior of the items, given all answers of some subjects."""
    n_subjects, n_items = subjects.right.shape
    names = [[f"{kind}{k}" for k in range(n)] for kind, n in (("s", n_subjects), ("q", n_items))]
    subject, item = (index.ravel() for index in np.indices(subjects.right.shape))
    right = subjects.right.ravel()
    cells = SparseCells(n_subjects, n_items, CellList(subject, item, right, np.ones_like(right)))
    latency = np.exp(subjects.log_latency.ravel()) if model == "lart" else None
    responses = Responses(tuple(names[0]), tuple(names[1]), cells, latency)
    options = RunOptions(num_chains=2, num_warmup=300, num_samples=_DRAWS, thinning=1)
    return sample_blocked(responses, key=key, model=model_named(model), options=options)


class Track(NamedTuple):
    """What is said of each ability after each number of answers, from none on."""

    mean: Floats  # shape (answers, subject)
    low: Floats  # shape (answers, subject)
    high: Floats  # shape (answers, subject)


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
) -> Floats:
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

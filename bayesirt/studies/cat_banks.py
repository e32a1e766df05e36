"""Item banks of the adaptive-testing study: drawn, answered by a population, and calibrated."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from bayesirt.data.cells import CellList, SparseCells
from bayesirt.data.responses import Responses
from bayesirt.inference.options import RunOptions
from bayesirt.inference.sweeps import sample_blocked
from bayesirt.models import model_named
from bayesirt.posterior import Posterior

BankModel = Literal["2pl", "lart"]

BANKS: dict[BankModel, str] = {"2pl": "2PL", "lart": "LaRT"}
_DRAWS = 500
"""Of each of two chains."""
RHO = -0.6
"""Correlation of ability and speed: the abler take longer."""


class Items(NamedTuple):
    """True items, as their model has them; the 2PL's lengths are noise that nobody looks at."""

    a: NDArray[np.float64]  # shape (item,)
    d: NDArray[np.float64]  # shape (item,)
    phi: NDArray[np.float64]  # shape (item,)
    omega: NDArray[np.float64]  # shape (item,)
    lam: NDArray[np.float64]  # shape (item,)


class Subjects(NamedTuple):
    """Subjects whose ability is known, and what each would answer to each item."""

    theta: NDArray[np.float64]  # shape (subject,)
    right: NDArray[np.int64]  # shape (subject, item)
    log_latency: NDArray[np.float64]  # shape (subject, item)


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

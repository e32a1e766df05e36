"""Excess variance of a subject's missing answers, beyond what one ability explains."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.checks.fit.cell_residuals import Counts, Draw, residuals
from bayesirt.likelihood.host_arrays import host
from bayesirt.posterior import Posterior

_MOST_DONORS = 1000
_MOST_PATTERNS = 64
_ENOUGH = 0.5
"""Share of a pattern that a donor must have answered."""
_PRIOR_DONORS = 20
"""Number of donors that the evidence from other patterns counts for."""


class _Sums(NamedTuple):
    """Sums over the items of each pattern that each donor answered, and over all its items."""

    excess: Float[Array, "donor pattern"]
    score: Float[Array, "donor pattern"]
    information: Float[Array, "donor pattern"]
    slope: Float[Array, "donor pattern"]
    variance: Float[Array, "donor pattern"]
    answers: Float[Array, "donor pattern"]
    whole: Float[Array, " donor"]


def excess_factor(posterior: Posterior, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the ratio of the variance of each subject's missing answers to the model's.

    Donors k answered (at least half of) the items M that a subject did not. Their right answers in
    M minus those expected from their other answers are r = Σ_M (y - p) + B G / I, with p at the
    ability θ̂ from all answers, B = Σ_M ∂p/∂θ, G = Σ_M ∂ℓ/∂θ and I the information of the prior and
    of all answers but those in M: one Newton step removes M's answers from θ̂. The model's variance
    is V = Σ_M p(1-p) + B²/I. A trait that the m items of M share adds to r² in proportion to m²,
    while V grows with m: r²/V - 1 = c m by weighted least squares over donors, where all patterns
    together count as 20 more donors, and φ = 1 + c m.
    """
    missing = posterior.trials == 0
    factor = np.ones(len(missing))
    patterns, codes, counts = np.unique(
        np.packbits(missing, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    masks = np.unpackbits(patterns, axis=1, count=missing.shape[1]).astype(bool)
    some = rng.permutation(np.flatnonzero(masks.any(1)))
    if not len(some):
        return factor
    chosen = some[np.argsort(-counts[some], kind="stable")][:_MOST_PATTERNS]
    donors = np.sort(rng.permutation(len(missing))[:_MOST_DONORS])
    of_each, of_all = _excess_per_answer(posterior, donors, masks[chosen])
    per_answer = np.full(len(masks), of_all)
    per_answer[chosen] = of_each
    size = masks.sum(1) * typical_trials(posterior)
    result: NDArray[np.float64] = (1 + np.maximum(per_answer, 0) * size)[codes.ravel()]
    return result


def typical_trials(posterior: Posterior) -> int:
    """Return the number of trials assumed for an unanswered item: the median of the others."""
    trials = posterior.trials
    return int(np.median(trials[trials > 0]))


def _excess_per_answer(
    posterior: Posterior, donors: NDArray[np.intp], masks: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float]:
    """Return c for each pattern, and for all patterns together."""
    theta, a, d, *further = (
        posterior.draws(name).mean(0, dtype=np.float64).astype(np.float32)
        for name in posterior.parameters
    )
    successes, trials = posterior.successes[donors], posterior.trials[donors]
    draw = Draw(theta[donors], a, d, tuple(further))
    counts = Counts(host(successes), host(trials))
    sums = _sums(posterior.link, counts, draw, masks.astype(np.float32))
    sums = jax.tree.map(lambda x: np.asarray(x, np.float64), sums)
    rest = np.maximum(sums.whole[:, None] - sums.information, 1)
    variance = np.maximum(sums.variance + sums.slope**2 / rest, 1e-6)
    beyond = (sums.excess + sums.slope * sums.score / rest) ** 2 / variance - 1
    answered = (trials > 0).astype(np.float32) @ masks.T.astype(np.float32)
    weight = np.where(answered >= _ENOUGH * masks.sum(1), sums.answers, 0)
    above, below = (weight * beyond).sum(0), (weight**2).sum(0)
    of_all = float(above.sum() / max(below.sum(), 1.0))
    prior = _PRIOR_DONORS * (masks.sum(1) * typical_trials(posterior)) ** 2
    return (above + prior * of_all) / (below + prior), of_all


@partial(jax.jit, static_argnums=0)
def _sums(link: str, counts: Counts, draw: Draw, masks: Float[Array, "pattern item"]) -> _Sums:
    cells = residuals(link, counts, draw)
    information = cells.weight * draw.a**2
    return _Sums(
        excess=cells.excess @ masks.T,
        score=(cells.score * draw.a) @ masks.T,
        information=information @ masks.T,
        slope=(cells.slope * draw.a) @ masks.T,
        variance=cells.variance @ masks.T,
        answers=counts.trials.astype(masks.dtype) @ masks.T,
        whole=1 + information.sum(1),
    )

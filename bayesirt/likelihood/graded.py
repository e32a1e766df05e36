"""Graded answers: one of a few ordered grades, as successes y = 0, ..., n (Samejima 1969).

    P(y ≥ m) = sigmoid(η + o_m),  m = 1, ..., n,  o_{m-1} - o_m = gap_m > 0

The thresholds' offsets o are determined by the gaps between them. The middle one is 0, so that η is
the logit of the probability of reaching the upper half of the scale.
"""

from functools import cache
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bayesirt.likelihood.family import (
    Counts,
    Each,
    Family,
    Law,
    PredictorTerms,
    Shares,
    terms_of_eta,
)

GRADED = "graded "


def gap_names(n: int) -> tuple[str, ...]:
    """Return the names of the gaps before the second threshold and each later one."""
    return tuple(f"gap_{m}" for m in range(2, n + 1))


class Logistic(NamedTuple):
    """The logistic function at u."""

    log_share: Each  # log sigmoid(u)
    share: Each  # sigmoid(u)
    rest: Each  # sigmoid(-u)


def logistic(u: Each) -> Logistic:
    """Return all three values from one exponential."""
    decay = jnp.exp(-jnp.abs(u))
    larger = 1 / (1 + decay)
    smaller, up = decay * larger, u >= 0
    log_share = jnp.minimum(u, 0) - jnp.log1p(decay)
    return Logistic(log_share, jnp.where(up, larger, smaller), jnp.where(up, smaller, larger))


def middle_of(n: int) -> int:
    """Return the number of the threshold whose offset is 0, counted from 1."""
    return (n + 1) // 2


def offsets(*gaps: Each) -> list[Each]:
    """Return o_1, ..., o_n from n - 1 gaps."""
    middle = middle_of(len(gaps) + 1) - 1
    below = accumulate(reversed(gaps[:middle]))
    above = accumulate(gaps[middle:])
    zero = jnp.zeros_like(gaps[0]) if gaps else jnp.zeros(())
    return [*reversed([*below]), zero, *(-gap for gap in above)]


def graded_bound(trials: Counts) -> Each:
    """Return 1/2, an upper bound on the information of two thresholds."""
    return (trials > 0) / 2


def graded_probability(eta: Each, *gaps: Each) -> Each:
    """Return the expected grade as a share of the highest."""
    o = offsets(*gaps)
    return jnp.stack([jax.nn.sigmoid(eta + x) for x in o]).mean(0)


def grade_probabilities(eta: Each, *gaps: Each) -> list[Each]:
    """Return the probability of each grade, the lowest first."""
    o, one = offsets(*gaps), jnp.ones_like(eta)
    reached = [one, *(jax.nn.sigmoid(eta + x) for x in o)]
    missed = [*(jax.nn.sigmoid(-eta - x) for x in o), one]
    between = [one, *(-jnp.expm1(-gap) for gap in gaps), one]
    return [r * m * b for r, m, b in zip(reached, missed, between, strict=True)]


def graded_shares(eta: Each, trials: Counts, *gaps: Each) -> Shares:  # noqa: ARG001
    """Return the cumulants of a grade, per step of the scale."""
    n = len(gaps) + 1
    mean = n * graded_probability(eta, *gaps)
    p = grade_probabilities(eta, *gaps)
    variance, third = (_expected(p, [(y - mean) ** k for y in range(n + 1)]) for k in (2, 3))
    return Shares(mean / n, variance / n, third / n)


def graded_score_moments(eta: Each, *gaps: Each) -> tuple[Each, Each]:
    """Return E s² and E s³; the score s of grade y is sigmoid(-u) - sigmoid(v)."""
    p, o, nothing = grade_probabilities(eta, *gaps), offsets(*gaps), jnp.zeros_like(eta)
    up = [nothing, *(jax.nn.sigmoid(-eta - x) for x in o)]
    down = [*(jax.nn.sigmoid(eta + x) for x in o), nothing]
    scores = [a - b for a, b in zip(up, down, strict=True)]
    return _expected(p, [s**2 for s in scores]), _expected(p, [s**3 for s in scores])


def _expected(p: list[Array], values: list[Array]) -> Array:
    """Return the expectation of a value for each grade."""
    return jnp.stack([x * value for x, value in zip(p, values, strict=True)]).sum(0)


def drawn_grade(key: Array, eta: Each, trials: Counts, *gaps: Each) -> Each:
    """Draw a grade as the number of thresholds that a uniform number passes."""
    uniform = jax.random.uniform(key, eta.shape, eta.dtype)
    passed = [uniform < jax.nn.sigmoid(eta + x) for x in offsets(*gaps)]
    return jnp.where(trials > 0, jnp.stack(passed).sum(0), 0).astype(eta.dtype)


def grade_levels(eta: Each, *gaps: Each) -> list[tuple[int, Each]]:
    """Return each grade above the lowest, with the probability of reaching it."""
    return [(m, jax.nn.sigmoid(eta + x)) for m, x in enumerate(offsets(*gaps), 1)]


_LAW = Law(graded_shares, drawn_grade, graded_score_moments, grade_levels)


def graded_predictor_terms(
    eta: Each, successes: Counts, trials: Counts, *gaps: Each
) -> PredictorTerms:
    """Return the terms of one grade, in η and all gaps.

    P(y) = sigmoid(u) sigmoid(-v) (1 - exp(-gap)) with u = η + o_y, v = η + o_{y+1} and the gap
    between them; at the ends of the scale there is only one threshold. ℓ is concave.
    """
    seen, y = trials > 0, successes
    o = offsets(*gaps)
    at, above = o[0], o[0]
    for m, offset in enumerate(o[1:], 1):
        at = jnp.where(y > m, offset, at)
        above = jnp.where(y >= m, offset, above)
    u, v = logistic(eta + at), logistic(-eta - above)
    reached, missed = seen & (y > 0), seen & (y <= len(gaps))
    up, down = jnp.where(reached, u.rest, 0), jnp.where(missed, v.rest, 0)
    of_up, of_down = up * u.share, down * v.share
    value = jnp.where(reached, u.log_share, 0) + jnp.where(missed, v.log_share, 0)
    one, zero = jnp.ones((), eta.dtype), jnp.zeros((), eta.dtype)
    moves_up, moves_down = [one], [one]  # ∂u and ∂v for each predictor.
    scores, curvatures = [up - down], [zero]
    middle = middle_of(len(o))
    for m, gap in enumerate(gaps, 1):
        grows, between = jnp.expm1(gap), seen & (y == m)
        value += jnp.where(between, jnp.log(-jnp.expm1(-gap)), 0)
        beyond = -1 if m >= middle else 1
        moves_up.append(beyond * ((y > m) == (m >= middle)))
        moves_down.append(beyond * ((y >= m) == (m >= middle)))
        scores.append(up * moves_up[-1] - down * moves_down[-1] + jnp.where(between, 1 / grows, 0))
        curvatures.append(jnp.where(between, (1 + grows) / grows**2, 0))
    size = len(o)
    information = [[jnp.zeros_like(eta)] * size for _ in range(size)]
    for k in range(size):
        by_up, by_down = of_up * moves_up[k], of_down * moves_down[k]
        for m in range(k, size):
            both = by_up * moves_up[m] + by_down * moves_down[m]
            information[k][m] = information[m][k] = both + curvatures[k] if k == m else both
    return PredictorTerms(value, tuple(scores), tuple(map(tuple, information)))


@cache
def graded_family(n: int) -> Family:
    """Return the family of grades 0, ..., n; its further predictors are the gaps."""
    return Family(
        f"{GRADED}{n}",
        terms_of_eta(graded_predictor_terms),
        graded_bound,
        graded_probability,
        gap_names(n),
        graded_predictor_terms,
        _LAW,
    )

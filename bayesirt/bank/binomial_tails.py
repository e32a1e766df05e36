"""Tail probabilities of the number of right answers of subjects with different chances."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logsumexp, ndtr
from jaxtyping import Array, Float, Int

MOST_EXACT = 128
"""Most answers to an item for which distributions are computed in full."""

_MOST_STEPS = 60
_FARTHEST = 80.0
"""Bound of the saddle point, in logits."""
_ROUNDING = 1e3
"""Multiple of the rounding error of K below which its expansion is used instead."""


class ExpectedAnswers(NamedTuple):
    """Trials of subjects on items, and the distribution of their linear predictors."""

    trials: Int[Array, "subject item"]
    # Linear predictors, in logits, one per possible value of a subject's ability; all trials of a
    # cell share the same one.
    eta: Float[Array, "node subject item"]
    shares: Float[Array, " node"]  # Probabilities of these values, above 0 and summing to 1.

    def reversed(self) -> "ExpectedAnswers":
        """Return the same cells with right and wrong answers exchanged."""
        return self._replace(eta=-self.eta)

    def log_mean(self, logs: Float[Array, "node subject item"]) -> Float[Array, "subject item"]:
        """Return the logarithm of the mean of exponentials over the values of abilities."""
        return logsumexp(jnp.log(self.shares)[:, None, None] + logs, 0)


def exact_tail(
    right: Int[Array, " item"], cells: ExpectedAnswers, *, most: int, most_a_cell: int
) -> Float[Array, " item"]:
    """Return the probability of at least `right` right answers to each item, by convolution."""
    n, y = cells.trials, jnp.arange(most_a_cell + 1)[:, None, None]
    ways = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(jnp.maximum(n - y, 0) + 1.0)
    p, q = jax.nn.log_sigmoid(cells.eta), jax.nn.log_sigmoid(-cells.eta)
    logs = [cells.log_mean(k * p + jnp.maximum(n - k, 0) * q) for k in range(most_a_cell + 1)]
    chances = jnp.where(y <= n, jnp.exp(ways + jnp.stack(logs)), 0).astype(cells.eta.dtype)

    def add(found: Array, own: Array) -> tuple[Array, None]:
        moved = [
            jnp.pad(found, ((k, 0), (0, 0)))[: most + 1] * own[k] for k in range(most_a_cell + 1)
        ]
        return jnp.stack(moved).sum(0), None

    nothing = jnp.zeros((most + 1, n.shape[1]), chances.dtype).at[0].set(1)
    distribution, _ = jax.lax.scan(add, nothing, jnp.swapaxes(chances, 0, 1))
    return jnp.where(jnp.arange(most + 1)[:, None] >= right, distribution, 0).sum(0)


def saddle_tail(right: Int[Array, " item"], cells: ExpectedAnswers) -> Float[Array, " item"]:
    """Approximate the probability of at least `right` right answers, for many subjects.

    S = Σ_i y_i with y_i | q ~ Binomial(n_i, sigmoid(η_qi)) has the cumulants' generating function
    K(t) = Σ_i log Σ_q r_q exp(n_i (softplus(η_qi + t) - softplus(η_qi))). With K'(t) = s - 1/2, w =
    sign(t) √(2 (t (s - 1/2) - K(t))) and u = 2 sinh(t / 2) √K''(t), P(S ≥ s) ≈ 1 - Φ(w) - φ(w) (1/w
    - 1/u), whose relative error is small even far out in the tails, except for few subjects with
    chances close to 0 and 1. P(S ≥ 0), P(S ≥ 1) and P(S ≥ Σ n) are exact.

    Daniels 1987 (the second continuity correction); Lugannani & Rice 1980.
    """
    most = cells.trials.sum(0)
    end = jnp.maximum(most, 1).astype(cells.eta.dtype)
    s = jnp.clip(right, 1, end) - 0.5
    t = _saddle(cells, s, end)
    k, _, k2, k3 = _cumulants(cells, t)
    k2 = jnp.maximum(k2, jnp.finfo(k2.dtype).tiny)
    w = jnp.sign(t) * jnp.sqrt(jnp.maximum(2 * (t * s - k), 0))
    u = 2 * jnp.sinh(t / 2) * jnp.sqrt(k2)
    near = jnp.abs(w) < (_ROUNDING * jnp.finfo(w.dtype).eps) ** 0.25
    gap = 1 / jnp.where(near, 1, w) - 1 / jnp.where(near, 1, u)
    gap = jnp.where(near, k3 / (6 * k2**1.5), gap)
    density = jnp.exp(-(w**2) / 2) / jnp.sqrt(2 * jnp.pi)
    tail = jnp.clip(ndtr(-w) - density * gap, 0, 1)
    every = cells.log_mean(cells.trials * jax.nn.log_sigmoid(cells.eta)).sum(0)
    none = cells.log_mean(cells.trials * jax.nn.log_sigmoid(-cells.eta)).sum(0)
    tail = jnp.where(right == most, jnp.exp(every), tail)
    tail = jnp.where(right == 1, -jnp.expm1(none), tail)
    return jnp.where(right <= 0, 1, jnp.where(right > most, 0, tail))


class _Cumulants(NamedTuple):
    """K(t) of each item's number right, and its first derivatives."""

    k: Float[Array, " item"]
    k1: Float[Array, " item"]
    k2: Float[Array, " item"]
    k3: Float[Array, " item"]


def _cumulants(cells: ExpectedAnswers, t: Float[Array, " item"]) -> _Cumulants:
    trials, eta, shares = cells
    tilted = eta + t
    logs = trials * (jax.nn.softplus(tilted) - jax.nn.softplus(eta))
    of_cells = cells.log_mean(logs)
    given = shares[:, None, None] * jnp.exp(logs - of_cells)
    p = jax.nn.sigmoid(tilted)
    mean = (given * trials * p).sum(0)
    off, second = trials * p - mean, trials * p * (1 - p)
    k2 = given * (second + off**2)
    k3 = given * (second * (1 - 2 * p) + 3 * second * off + off**3)
    return _Cumulants(of_cells.sum(0), mean.sum(0), k2.sum((0, 1)), k3.sum((0, 1)))


class _Bracket(NamedTuple):
    """State of the search for the saddle point."""

    t: Float[Array, " item"]
    low: Float[Array, " item"]
    high: Float[Array, " item"]
    moved: Float[Array, ""]
    n_steps: Array


def _saddle(
    cells: ExpectedAnswers, s: Float[Array, " item"], most: Float[Array, " item"]
) -> Float[Array, " item"]:
    """Solve K'(t) = s by Newton steps on its nearly linear logit, with bisection as fallback."""
    finite = jnp.finfo(s.dtype)
    end, close = most * (1 - finite.epsneg), float(finite.eps) ** 0.6

    def step(now: _Bracket) -> _Bracket:
        _, k1, k2, _ = _cumulants(cells, now.t)
        low, high = jnp.where(k1 < s, now.t, now.low), jnp.where(k1 < s, now.high, now.t)
        k1 = jnp.clip(k1, finite.tiny, end)
        ahead = jnp.log(s / (most - s)) - jnp.log(k1 / (most - k1))
        t = now.t + ahead * k1 * (most - k1) / (most * jnp.maximum(k2, finite.tiny))
        t = jnp.where((low <= t) & (t <= high), t, (low + high) / 2)
        return _Bracket(t, low, high, jnp.abs(t - now.t).max(), now.n_steps + 1)

    def unfinished(now: _Bracket) -> Array:
        return (now.moved > close) & (now.n_steps < _MOST_STEPS)

    far = jnp.full_like(s, _FARTHEST)
    first = _Bracket(jnp.zeros_like(s), -far, far, far[0], jnp.array(0))
    return jax.lax.while_loop(unfinished, step, first).t

"""Posterior of one subject's ability from a few answers to calibrated but uncertain items.

Items are given as posterior draws. Each pair of an item draw and an ability on a grid has a weight,
so that every expectation over items and ability is a sum.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float
from numpy.typing import NDArray

from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.latencies import SpeedEvidence, wrong_share
from bayesirt.posterior import Posterior

N_DRAWS, N_NODES = 200, 41
_FARTHEST = 6.0
_REACH = 6.0
"""Half-width of the grid, in posterior standard deviations."""
_REFINEMENTS = 2
_LEAST_EFFECTIVE = 0.25
"""Least share of the item draws that must remain effective, however informative the answers."""


class LengthDraws(NamedTuple):
    """Draws of the item parameters of answer lengths."""

    # Speed discrimination, intensity and residual variance.
    phi: Float[Array, "draw item"]
    omega: Float[Array, "draw item"]
    lam: Float[Array, "draw item"]
    rho: Float[Array, " draw"]  # Correlation of ability and speed.
    # Additional log length of a wrong answer, if the model has it.
    delta: Float[Array, "draw item"] | None = None


class ItemDraws(NamedTuple):
    """Draws of calibrated items."""

    # Discrimination and intercept.
    a: Float[Array, "draw item"]
    d: Float[Array, "draw item"]
    lengths: LengthDraws | None = None  # For LaRT.
    # Further parameters of the response curve, besides a and d.
    further: tuple[Float[Array, "draw item"], ...] = ()

    @property
    def parameters(self) -> tuple[Float[Array, "draw item"], ...]:
        """All parameters of the response curve."""
        return self.a, self.d, *self.further

    @classmethod
    def of(cls, posterior: Posterior, n_draws: int = N_DRAWS) -> "ItemDraws":
        """Take draws from a posterior, evenly spread over its chains."""
        n_all = len(posterior.theta)
        indices = np.linspace(0, n_all - 1, min(n_draws, n_all)).round().astype(int)

        def drawn(names: Iterable[str]) -> list[Array]:
            return [jnp.asarray(posterior.draws(name)[indices]) for name in names]

        (a, d), further = drawn(("a", "d")), drawn(posterior.further)
        lengths = None
        if posterior.has_speeds:
            sites = (name for name in LengthDraws._fields if name in posterior.dataset)
            lengths = LengthDraws(*drawn(sites))
        return cls(a, d, lengths, tuple(further))


class Answers(NamedTuple):
    """Answers of one subject so far.

    Attributes
    ----------
    item : int array, shape (answer,)
        Index of the calibrated item.
    successes, trials : int array, shape (answer,)
        Answers with no trials are ignored.
    log_latency : float array, shape (answer,)
        Log length; NaN if none was observed.
    """

    item: Array | NDArray[np.integer]
    successes: Array | NDArray[np.integer]
    trials: Array | NDArray[np.integer]
    log_latency: Array | NDArray[np.float64]

    @classmethod
    def none(cls) -> "Answers":
        """Return an empty set of answers."""
        integers = np.zeros(0, np.int32)
        return cls(integers, integers, integers, np.zeros(0))

    def padded(self) -> "Answers":
        """Return the answers padded with some without trials, so that few shapes are compiled."""
        n = len(self.item)
        more = (0, (1 << max(n - 1, 7).bit_length()) - n)
        item, successes, trials = (np.pad(np.asarray(x, np.int32), more) for x in self[:3])
        lengths = np.pad(np.asarray(self.log_latency), more, constant_values=np.nan)
        return Answers(item, successes, trials, lengths)


class Belief(NamedTuple):
    """A distribution over item draws and abilities on a grid."""

    # Abilities, evenly spaced, in standard deviations of the population.
    nodes: Float[Array, " node"]
    weight: Float[Array, "draw node"]  # Sums to 1.
    # shape (draw,). Likelihood of the speed given the lengths, under each draw; for LaRT.
    evidence: SpeedEvidence | None

    @property
    def mean(self) -> Float[Array, ""]:
        """The expected ability."""
        return self.weight.sum(0) @ self.nodes

    @property
    def variance(self) -> Float[Array, ""]:
        """Variance of the ability, including the items' uncertainty."""
        return self.weight.sum(0) @ (self.nodes - self.mean) ** 2

    @property
    def effective_draws(self) -> Float[Array, ""]:
        """Effective number of item draws."""
        return 1 / (self.weight.sum(1) ** 2).sum()


@partial(jax.jit, static_argnames=("link", "n_nodes"))
def believe(items: ItemDraws, answers: Answers, *, link: str, n_nodes: int = N_NODES) -> Belief:
    """Weight item draws and abilities by the likelihood of the answers.

    The weight is p(answers | θ, items) N(θ; μ, σ²) p(lengths | items), where N(μ, σ²) is the
    population, N(0, 1), or for LaRT its posterior given the lengths. So answers also reweight the
    item draws, as in the posterior given all data. With many answers to badly calibrated items only
    a few draws would keep any weight; then the draws' weights are raised to a power below 1 such
    that a quarter of them remain effective, a step towards plain averaging over the draws.

    Mislevy, Wingersky & Sheehan 1994 for plain averaging; Carmona & Nicholls 2020 for the power.
    """
    evidence, log_before = _from_lengths(items, answers)
    mean, variance = jnp.zeros((len(items.a), 1)), jnp.ones((len(items.a), 1))
    if items.lengths is not None and evidence is not None:
        mean, variance = (x[:, None] for x in evidence.ability(items.lengths.rho))

    def weights_at(nodes: Array) -> Array:
        def of_draw(draw: tuple[Array, ...]) -> Array:
            a, d, *further = draw
            terms = family_named(link).given(further).terms
            cells = terms(a * nodes[:, None] + d, answers.successes, answers.trials)
            return cells.log_likelihood.sum(1)

        answered = tuple(x[:, answers.item] for x in items.parameters)
        log_prior = norm.logpdf(nodes, mean, jnp.sqrt(variance))
        return _weights(jax.lax.map(of_draw, answered) + log_prior + log_before[:, None])

    def refine(_: int, nodes: Array) -> Array:
        rough = Belief(nodes, weights_at(nodes), evidence)
        spread = jnp.maximum(jnp.sqrt(rough.variance), (nodes[1] - nodes[0]) / 2)
        return rough.mean + spread * jnp.linspace(-_REACH, _REACH, n_nodes)

    wide = jnp.linspace(-_FARTHEST, _FARTHEST, n_nodes)
    nodes = jax.lax.fori_loop(0, _REFINEMENTS, refine, wide)
    return Belief(nodes, weights_at(nodes), evidence)


def _from_lengths(
    items: ItemDraws, answers: Answers
) -> tuple[SpeedEvidence | None, Float[Array, " draw"]]:
    """Return the likelihood of speed given the lengths, and their log density, for each draw."""
    if items.lengths is None:
        return None, jnp.zeros(len(items.a))
    phi, omega, lam = (x[:, answers.item] for x in items.lengths[:3])
    if items.lengths.delta is not None:
        share = wrong_share(jnp.asarray(answers.successes), jnp.asarray(answers.trials))
        omega = omega + items.lengths.delta[:, answers.item] * share
    seen = jnp.isfinite(answers.log_latency) & (jnp.asarray(answers.trials) > 0)
    x = jnp.where(seen, answers.log_latency, 0)
    weight = jnp.where(seen, phi / lam, 0)
    evidence = SpeedEvidence((weight * phi).sum(1), -(weight * (x - omega)).sum(1))
    at_speed_zero = jnp.where(seen, norm.logpdf(x, omega, jnp.sqrt(lam)), 0).sum(1)
    return evidence, at_speed_zero + evidence.log_marginal()


def _weights(log_joint: Float[Array, "draw node"]) -> Float[Array, "draw node"]:
    """Return weights that sum to 1, tempered such that enough draws remain effective."""
    of_draws = logsumexp(log_joint, axis=1)
    least = _LEAST_EFFECTIVE * len(of_draws)

    def enough(power: Array) -> Array:
        return 1 / (jax.nn.softmax(power * of_draws) ** 2).sum() >= least

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        good = enough(middle)
        return jnp.where(good, middle, ends[0]), jnp.where(good, ends[1], middle)

    one = jnp.ones((), log_joint.dtype)
    power = jnp.where(enough(one), one, jax.lax.fori_loop(0, 30, halve, (0 * one, one))[0])
    return jax.nn.softmax(log_joint, axis=1) * jax.nn.softmax(power * of_draws)[:, None]

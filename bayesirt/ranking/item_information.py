"""The value of a next item: its expected information, and the expected variance after it."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Num

from bayesirt.inference.ability_belief import Belief, ItemDraws, LengthDraws
from bayesirt.likelihood.families import family_named
from bayesirt.likelihood.latencies import SpeedEvidence


def item_information(
    theta: Float[Array, "..."],
    a: Float[Array, "..."],
    d: Float[Array, "..."],
    *further: Float[Array, "..."],
    link: str,
    trials: Num[ArrayLike, "..."] = 1,
) -> Float[Array, "..."]:
    """Return the Fisher information of answers about ability."""
    return a**2 * family_named(link).given(further).expected_information(a * theta + d, trials)


def length_information(lengths: LengthDraws, evidence: SpeedEvidence) -> Float[Array, "draw item"]:
    """Return by how much one more length raises the precision of ability."""
    rho, before = lengths.rho[:, None], evidence.precision[:, None]
    after = before + lengths.phi**2 / lengths.lam
    now, then = (SpeedEvidence(p, jnp.zeros_like(p)).ability(rho)[1] for p in (before, after))
    return 1 / then - 1 / now


@partial(jax.jit, static_argnames="link")
def expected_information(
    items: ItemDraws, belief: Belief, *, link: str
) -> tuple[Float[Array, " item"], Float[Array, " item"]]:
    """Return the information of each item, averaged over item draws and abilities."""

    def of_draw(draw: tuple[Array, tuple[Array, ...]]) -> Array:
        weight, parameters = draw
        return weight @ item_information(belief.nodes[:, None], *parameters, link=link)

    of_answer = jax.lax.map(of_draw, (belief.weight, items.parameters)).sum(0)
    if items.lengths is None or belief.evidence is None:
        return of_answer, jnp.zeros_like(of_answer)
    return of_answer, belief.weight.sum(1) @ length_information(items.lengths, belief.evidence)


@partial(jax.jit, static_argnames=("link", "steps"))
def expected_variance(
    items: ItemDraws, belief: Belief, *, link: str, steps: int = 1
) -> tuple[Float[Array, " item"], Float[Array, " item"]]:
    """Return each item's expected score, and the variance of ability that is expected after it.

    Exact for answers that are right or wrong. For grades and scores, in so many steps, it is the
    variance that the best linear predictor leaves. So it is for lengths: given the answer, a length
    x removes cov(θ, x)²/var x, which is exact if θ is normal and items are known; otherwise the
    variance falls slightly more.
    """
    law = family_named(link).law
    if law is not None and not law.counts:
        return _variance_by_line(items, belief, link, steps)
    theta = belief.nodes - belief.mean
    powers = jnp.stack([jnp.ones_like(theta), theta, theta**2])

    def of_draw(draw: tuple[Array, tuple[Array, ...]]) -> Array:
        weight, (a, d, *further) = draw
        probability = family_named(link).given(further).probability
        return (powers * weight) @ probability(a * belief.nodes[:, None] + d)

    right = jax.lax.map(of_draw, (belief.weight, items.parameters))
    either = (belief.weight @ powers.T)[:, :, None]
    moments = jnp.moveaxis(jnp.stack([right, either - right]), 2, 0)
    share, first, second = moments.sum(2)
    share = jnp.maximum(share, jnp.finfo(share.dtype).tiny)
    variance = second - first**2 / share
    if items.lengths is not None and belief.evidence is not None:
        variance -= _explained_by_length(items.lengths, belief.evidence, belief, moments)
    return right[:, 0].sum(0), variance.sum(0)


def _variance_by_line(
    items: ItemDraws, belief: Belief, link: str, steps: int
) -> tuple[Float[Array, " item"], Float[Array, " item"]]:
    """Return E y and Var θ - cov(θ, y)²/Var y of scores y from 0 to 1."""
    theta = belief.nodes - belief.mean

    def of_draw(draw: tuple[Array, tuple[Array, ...]]) -> Array:
        weight, (a, d, *further) = draw
        eta = a * belief.nodes[:, None] + d
        mean, variance, _ = (
            family_named(link).given(further).shares(eta, jnp.full(eta.shape, steps))
        )
        square = variance / steps + mean**2
        return jnp.stack([weight @ mean, (weight * theta) @ mean, weight @ square])

    mean, covariance, square = jax.lax.map(of_draw, (belief.weight, items.parameters)).sum(0)
    return mean, belief.variance - covariance**2 / (square - mean**2)


def _explained_by_length(
    lengths: LengthDraws,
    evidence: SpeedEvidence,
    belief: Belief,
    moments: Float[Array, "3 answer draw item"],
) -> Float[Array, "answer item"]:
    """Return P(answer) cov(θ, x)²/var x of each answer, over item draws and abilities."""
    rho, zero = lengths.rho, jnp.zeros_like(lengths.rho)
    at_mean, spread = evidence.speed(rho, zero + belief.mean)
    slope = evidence.speed(rho, zero + belief.mean + 1)[0] - at_mean
    level = lengths.omega - lengths.phi * at_mean[:, None]
    level -= belief.weight.sum(1) @ level  # limits rounding errors when squares are subtracted
    slope = -lengths.phi * slope[:, None]
    noise = lengths.lam + lengths.phi**2 * spread[:, None]
    n, t, tt = moments
    x, tx = level * n + slope * t, level * t + slope * tt
    xx = level * x + slope * tx + noise * n
    share = jnp.maximum(n.sum(1), jnp.finfo(n.dtype).tiny)
    covariance = tx.sum(1) - t.sum(1) * x.sum(1) / share
    variance = xx.sum(1) - x.sum(1) ** 2 / share
    return covariance**2 / jnp.maximum(variance, jnp.finfo(n.dtype).tiny)

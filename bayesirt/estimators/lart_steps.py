"""Parts shared by LaRT's estimators: data, items, start, expectations, closed-form M-steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from scipy.sparse import csr_array

from bayesirt.data.cells import SparseCells
from bayesirt.data.responses import Responses
from bayesirt.estimators.ability_quadrature import (
    AbilityPosteriors,
    ExpectedItemSums,
    PriorMoments,
    integrate_abilities,
)
from bayesirt.estimators.spectral import fit_spectral, leading_components
from bayesirt.likelihood.cell_sums import Layout, layout_of
from bayesirt.likelihood.family import Family
from bayesirt.likelihood.latencies import Latencies, LengthMoments, latencies_of
from bayesirt.models.lart import Link

ANSWER_PRECISION = 0.01
"""Precision of a and d in the weak prior: standard deviations of 10."""

_LENGTH_PRIOR_WEIGHT = 2.0
_LENGTH_PRIOR_SQUARES = 0.02
_PHI_WEIGHT = 0.01
_RHO_WEIGHT = 0.1
_NEWTON_STEPS = 3
_MOST_CORRELATION = 0.95


class LaRTData(NamedTuple):
    """Answers, with or without their lengths."""

    layout: Layout
    latencies: Latencies | None


class LaRTItems(NamedTuple):
    """LaRT's parameters except those of single subjects."""

    a: Float[Array, " item"]
    d: Float[Array, " item"]
    phi: Float[Array, " item"]
    omega: Float[Array, " item"]
    lam: Float[Array, " item"]
    rho: Float[Array, ""]

    def penalty(self) -> Float[Array, ""]:
        """Return the negative log of the weak prior, up to a constant.

        It has standard deviations of 10 for a and d, and the weight of two observations with
        residual variance .01. It matters only for items that are all right or wrong, or whose
        lengths hardly differ. The density of ρ is (1 - ρ²) to the power of .1, to avoid ±1.
        """
        of_answers = ANSWER_PRECISION * (self.a**2 + self.d**2)
        of_lengths = _LENGTH_PRIOR_WEIGHT * jnp.log(self.lam)
        of_lengths += (_LENGTH_PRIOR_SQUARES + _PHI_WEIGHT * self.phi**2) / self.lam
        return (of_answers + of_lengths).sum() / 2 - _RHO_WEIGHT * jnp.log1p(-(self.rho**2))


def lart_data(responses: Responses, lengths: bool) -> LaRTData:
    """Put answers and, if requested, lengths on the device."""
    layout = layout_of(responses)
    return LaRTData(layout, latencies_of(responses, layout) if lengths else None)


def spectral_lart(
    responses: Responses, data: LaRTData, link: Link
) -> tuple[LaRTItems, Float[Array, " subject"]]:
    """Estimate LaRT from the leading singular vectors, without iterations.

    Xu et al. (2026), Algorithm 2, with the sign of φ reversed, as in equation 2. Speeds are the
    leading left singular vector of the centred log lengths, with missing ones replaced by their
    item's mean; φ, ω and λ are then a regression over the observed lengths.
    """
    answers = fit_spectral(responses, slopes="free", link=link)
    theta, a, d = (jnp.asarray(answers[name]) for name in ("theta", "a", "d"))
    if data.latencies is None:
        zero = jnp.zeros_like(a)
        return LaRTItems(a, d, zero, zero, zero + 1, jnp.zeros((), a.dtype)), theta
    left = leading_components(_length_matrix(responses, data.latencies), 1).left[:, 0]
    tau = jnp.asarray(np.sqrt(len(left)) * left)
    lengths = best_lengths(data.latencies, data.latencies.moments(tau, tau**2))
    sign = jnp.where(lengths[0].sum() >= 0, 1, -1)
    rho = jnp.clip(sign * jnp.mean(theta * tau), -_MOST_CORRELATION, _MOST_CORRELATION)
    return LaRTItems(a, d, sign * lengths[0], lengths[1], lengths[2], rho), theta


def _length_matrix(responses: Responses, latencies: Latencies) -> np.ndarray | csr_array:
    """Return centred log lengths, shape (subject, item), in the layout of the cells."""
    x = np.asarray(latencies.x, np.float64)
    if not isinstance(responses.cells, SparseCells):
        return x
    listed = responses.cells.listed()
    return csr_array((x, (listed.subject, listed.item)), shape=responses.cells.shape)


def oriented(items: LaRTItems, theta: Array) -> tuple[LaRTItems, Array]:
    """Return items with Σa > 0 and Σφ > 0, and abilities with the signs that match."""
    of_theta, of_tau = (jnp.where(x.sum() < 0, -1.0, 1.0) for x in (items.a, items.phi))
    turned = items._replace(
        a=of_theta * items.a, phi=of_tau * items.phi, rho=of_theta * of_tau * items.rho
    )
    return turned, of_theta * theta


class SubjectMoments(NamedTuple):
    """Sums over subjects of expected traits, their squares and their product."""

    n: Float[Array, ""]
    theta: Float[Array, ""]
    tau: Float[Array, ""]
    theta_theta: Float[Array, ""]
    theta_tau: Float[Array, ""]
    tau_tau: Float[Array, ""]


def posteriors_at(
    data: LaRTData, family: Family, n_nodes: int, dtype: DTypeLike, items: LaRTItems, near: Array
) -> tuple[AbilityPosteriors, ExpectedItemSums, Array]:
    """Return posteriors of abilities and sums for items, given items, and the loss there."""
    before, length_loss = _from_lengths(data, items)
    posteriors, sums = integrate_abilities(
        data.layout, family, (items.a, items.d), before, near, n_nodes=n_nodes, dtype=dtype
    )
    return posteriors, sums, items.penalty() + length_loss - posteriors.log_likelihood.sum()


def _from_lengths(data: LaRTData, items: LaRTItems) -> tuple[PriorMoments, Array]:
    """Return moments of abilities given lengths, and the negative log likelihood of lengths."""
    if data.latencies is None:
        zero = jnp.zeros(data.layout.shape[0], items.a.dtype)
        return PriorMoments(zero, zero + 1), jnp.zeros((), items.a.dtype)
    latencies = data.latencies
    evidence = latencies.speed_evidence(items.phi, items.omega, items.lam)
    zero = jnp.zeros_like(evidence.pull)
    at_zero = latencies.log_likelihood(
        items.phi, items.omega, items.lam, latencies.moments(zero, zero)
    )
    loss = -at_zero.sum() - evidence.log_marginal().sum()
    return PriorMoments(*evidence.ability(items.rho)), loss


def expected_speeds(
    latencies: Latencies, items: LaRTItems, posteriors: AbilityPosteriors
) -> tuple[Array, Array, SubjectMoments]:
    """Return E τ and E τ² of each subject, and the sums of moments over subjects."""
    evidence = latencies.speed_evidence(items.phi, items.omega, items.lam)
    tau, variance = evidence.speed(items.rho, posteriors.mean)
    at_one, at_zero = (evidence.speed(items.rho, jnp.asarray(x))[0] for x in (1.0, 0.0))
    follows = at_one - at_zero
    tau_tau = tau**2 + variance + follows**2 * posteriors.variance
    theta_theta = posteriors.mean**2 + posteriors.variance
    theta_tau = posteriors.mean * tau + follows * posteriors.variance
    n = jnp.asarray(1.0 * len(tau), tau.dtype)
    sums = (x.sum() for x in (posteriors.mean, tau, theta_theta, theta_tau, tau_tau))
    return tau, tau_tau, SubjectMoments(n, *sums)


def ability_moments(theta: Array, theta_theta: Array) -> SubjectMoments:
    """Return the moments of abilities, with standard moments for the unknown speeds."""
    n = jnp.asarray(1.0 * len(theta), theta.dtype)
    return SubjectMoments(n, theta.sum(), 0 * n, theta_theta.sum(), 0 * n, n)


def best_lengths(latencies: Latencies, moments: LengthMoments) -> tuple[Array, Array, Array]:
    """Return the φ, ω and λ that maximise the expected log density of lengths: regression on -τ."""
    n = jnp.maximum(moments.n, 1)
    spread = moments.tau_tau - moments.tau**2 / n + _PHI_WEIGHT
    phi = (moments.tau * moments.x / n - moments.tau_x) / spread
    level = (moments.x + phi * moments.tau) / n
    squares = moments.residual_squares(phi, level) + _PHI_WEIGHT * phi**2
    lam = (squares + _LENGTH_PRIOR_SQUARES) / (moments.n + _LENGTH_PRIOR_WEIGHT)
    return phi, latencies.centre + level, lam


def to_standard_population(items: LaRTItems, moments: SubjectMoments) -> LaRTItems:
    """Return items after transforming the most likely population of traits to the standard one.

    Parameter expansion: EM alone converges slowly along location and scale of the traits, as each
    subject's posterior holds it back. Here means, standard deviations and correlation are free and
    maximised by Newton's method, starting from their closed forms without the weak prior; items
    then absorb them.

    Liu, Rubin & Wu 1998.
    """

    def moved(x: Array) -> LaRTItems:
        mean_theta, mean_tau, log_theta, log_tau, z = x
        return items._replace(
            a=items.a * jnp.exp(log_theta),
            d=items.d + items.a * mean_theta,
            phi=items.phi * jnp.exp(log_tau),
            omega=items.omega - items.phi * mean_tau,
            rho=jnp.tanh(z),
        )

    def loss(x: Array) -> Array:
        mean_theta, mean_tau, log_theta, log_tau, z = x
        n, theta, tau, theta_theta, theta_tau, tau_tau = moments
        rho, variance = jnp.tanh(z), 1 / jnp.cosh(z) ** 2
        squares = (
            (theta_theta - 2 * mean_theta * theta + n * mean_theta**2) * jnp.exp(-2 * log_theta),
            (tau_tau - 2 * mean_tau * tau + n * mean_tau**2) * jnp.exp(-2 * log_tau),
        )
        product = theta_tau - mean_theta * tau - mean_tau * theta + n * mean_theta * mean_tau
        product = product * jnp.exp(-log_theta - log_tau)
        spread = n * (log_theta + log_tau + jnp.log(variance) / 2)
        return moved(x).penalty() + spread + (sum(squares) - 2 * rho * product) / (2 * variance)

    def newton(_: int, x: Array) -> Array:
        return x - jnp.linalg.solve(jax.hessian(loss)(x), jax.grad(loss)(x))

    return moved(jax.lax.fori_loop(0, _NEWTON_STEPS, newton, _without_prior(moments)))


def _without_prior(moments: SubjectMoments) -> Float[Array, " 5"]:
    """Return means, log standard deviations and artanh ρ that fit the moments."""
    n, theta, tau, theta_theta, theta_tau, tau_tau = moments
    of_theta, of_tau = theta_theta / n - (theta / n) ** 2, tau_tau / n - (tau / n) ** 2
    rho = (theta_tau / n - theta * tau / n**2) / jnp.sqrt(of_theta * of_tau)
    logs = jnp.log(of_theta) / 2, jnp.log(of_tau) / 2
    return jnp.stack([theta / n, tau / n, *logs, jnp.arctanh(rho)])

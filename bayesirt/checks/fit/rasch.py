"""The Rasch model, with one slope for all items, by the same EM as the multidimensional 2PL."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesirt.estimators.cell_expectations import Quadrature, usual_quadrature
from bayesirt.estimators.item_newton import item_step, items_loss
from bayesirt.estimators.mirt_population import best_log_sigma_d
from bayesirt.estimators.mirt_start import start
from bayesirt.estimators.normal_beliefs import Beliefs, Items, Normal
from bayesirt.estimators.variational_em import climb, expectation
from bayesirt.kept_programs import kept
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.likelihood.host_arrays import host
from bayesirt.models.mirt import MU_D_SD, SIGMA_D_SCALE

_SURE = 1e10
"""Precision of the slopes about 1, practically infinite."""


class _Parameters(NamedTuple):
    """All parameters but those of subjects: θ ~ N(0, σ²), a = 1, d ~ N(μ_d, σ_d)."""

    d: Float[Array, " item"]
    log_sigma: Float[Array, ""]
    mu_d: Float[Array, ""]
    log_sigma_d: Float[Array, ""]

    @property
    def items(self) -> Items:
        return Items(jnp.ones_like(self.d)[:, None], self.d)

    @property
    def population(self) -> Normal:
        return Normal(jnp.zeros_like(self.d[:1]), jnp.exp(-2 * self.log_sigma)[None, None])

    @property
    def prior(self) -> Normal:
        precision = jnp.stack([jnp.full_like(self.mu_d, _SURE), jnp.exp(-2 * self.log_sigma_d)])
        return Normal(jnp.stack([jnp.ones_like(self.mu_d), self.mu_d]), jnp.diag(precision))


def fit_rasch(
    layout: DenseLayout, *, tolerance: float, max_iterations: int
) -> tuple[Items, Beliefs]:
    """Fit logit P = θ_i + d_j with θ ~ N(0, σ²) and d ~ N(μ_d, σ_d) (Rasch 1960).

    Items have slopes of 1. The stopping rule is that of `bayesirt.estimators.mirt.fit_mirt`.
    """
    em = partial(_EM, usual_quadrature(layout, None), layout)
    (items, _), (abilities, unknown) = start(layout, 1)
    zero = host(0.0, items.d.dtype)
    unknown[:, 0, 0] = 1 / _SURE
    first = _Parameters(items.d, zero, items.d.mean(), zero)
    state, _ = climb(
        em,
        first,
        Beliefs(abilities, unknown),
        tolerance=tolerance,
        max_iterations=max_iterations,
        name="rasch",
    )
    return state.parameters.items, state.beliefs


def _em_step(
    quadrature: Quadrature, layout: DenseLayout, now: _Parameters, beliefs: Beliefs
) -> tuple[_Parameters, Beliefs, Float[Array, ""]]:
    """Take one EM step; the loss is the one before the step."""
    items, prior = now.items, now.prior
    at, equations, bound = expectation(layout, items, now.population, beliefs, quadrature)
    hyper = now.mu_d**2 / MU_D_SD**2 + jnp.exp(2 * now.log_sigma_d) / SIGMA_D_SCALE**2
    loss = items_loss(items, beliefs.unknown, prior) + hyper / 2 - bound
    covariance = equations.damped_covariance(prior, beliefs.unknown)
    d = item_step(layout, items.both, prior, at, quadrature, equations)[:, 1]
    spread = (at.abilities.mean**2 + at.abilities.covariance[:, :, 0]).mean()
    precision = jnp.exp(-2 * now.log_sigma_d)
    mu_d = precision * d.sum() / (precision * len(d) + MU_D_SD**-2)
    of_d = ((d - mu_d) ** 2 + covariance[:, 1, 1]).sum()
    after = _Parameters(d, jnp.log(spread) / 2, mu_d, best_log_sigma_d(of_d, len(d)))
    return after, Beliefs(at.abilities, covariance), loss


_EM = kept(_em_step, constants=1)

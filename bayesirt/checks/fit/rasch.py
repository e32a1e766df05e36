"""The Rasch model, with one slope for all items, by the same EM as the multidimensional 2PL."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from bayesirt.estimators.cell_expectations import Quadrature, usual_quadrature
from bayesirt.estimators.mirt_population import best_log_sigma_d
from bayesirt.estimators.mirt_start import start
from bayesirt.estimators.normal_beliefs import Beliefs, Items, Normal
from bayesirt.estimators.variational_em import climb, normal_step
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
        return Items(host(np.ones_like(self.d)[:, None]), self.d)

    @property
    def population(self) -> Normal:
        return Normal(host([0], self.d.dtype), host(np.exp(-2 * self.log_sigma)).reshape(1, 1))

    @property
    def prior(self) -> Normal:
        centre, precisions = [1, float(self.mu_d)], [_SURE, np.exp(-2 * self.log_sigma_d)]
        return Normal(host(centre, self.d.dtype), host(np.diag(precisions), self.d.dtype))


def fit_rasch(
    layout: DenseLayout, *, tolerance: float, max_iterations: int
) -> tuple[Items, Beliefs]:
    """Fit logit P = θ_i + d_j with θ ~ N(0, σ²) and d ~ N(μ_d, σ_d) (Rasch 1960).

    Items have slopes of 1. The stopping rule is that of `bayesirt.estimators.mirt.fit_mirt`.
    """
    em = partial(_em_step, usual_quadrature(layout, None), layout)
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
    step = normal_step(quadrature, layout, now.items, now.prior, now.population, beliefs)
    (_, d), beliefs, loss = jax.device_get(step)
    hyper = now.mu_d**2 / MU_D_SD**2 + np.exp(2 * now.log_sigma_d) / SIGMA_D_SCALE**2
    abilities, covariance = beliefs
    spread = (abilities.mean**2 + abilities.covariance[:, :, 0]).mean()
    precision = np.exp(-2 * now.log_sigma_d)
    mu_d = precision * d.sum() / (precision * len(d) + MU_D_SD**-2)
    of_d = ((d - mu_d) ** 2 + covariance[:, 1, 1]).sum()
    after = _Parameters(d, host(np.log(spread) / 2), mu_d, best_log_sigma_d(of_d, len(d)))
    return after, beliefs, loss + hyper / 2

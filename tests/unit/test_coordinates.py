"""Coordinates around uninformative point estimates; oracle tests cover the rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_data import each_extreme

from bayesirt import RunOptions, fit_cbmm, sample_posterior
from bayesirt.data.responses import Responses
from bayesirt.inference.nuts import posterior_target
from bayesirt.models import TwoPL


@pytest.mark.slow
@each_extreme
def test_density_has_a_gradient_where_the_estimate_rests_on_its_prior(priors, y):
    responses = Responses.from_arrays(y)
    point = fit_cbmm(responses)
    target = posterior_target(responses, point, TwoPL(priors))
    potential = jax.jit(jax.value_and_grad(target.potential))
    for x in (jnp.zeros(target.size), 0.5 * jnp.ones(target.size)):
        value, gradient = potential(x)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_curvature_is_about_one_along_every_coordinate(small):
    """All axes of the curvature have sds from 1/2 to 2, except four of hyperparameters."""
    target = posterior_target(small, fit_cbmm(small), TwoPL())
    gradient = jax.jit(jax.vmap(jax.grad(target.potential)))
    steps = 1e-4 * jnp.eye(target.size)
    hessian = (gradient(steps) - gradient(-steps)) / 2e-4
    values = np.linalg.eigvalsh((hessian + hessian.T) / 2)
    assert ((values > 1 / 4) & (values < 4)).sum() >= target.size - 4


@pytest.mark.slow
def test_subjects_of_equal_score_are_sampled_apart():
    responses = Responses.from_arrays(np.eye(2))
    posterior = sample_posterior(
        responses,
        key=jax.random.key(0),
        options=RunOptions(num_warmup=200, num_samples=200, num_chains=2),
    )
    assert posterior["theta"].std((0, 1)).min() > 0.5
    assert np.abs(np.corrcoef(posterior.theta.T)[0, 1]) < 0.9

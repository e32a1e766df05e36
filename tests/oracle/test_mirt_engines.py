"""Distributions that MIRT's engines draw from; `test_cluster_engines.py` compares the engines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreement import largest_z
from jax.flatten_util import ravel_pytree
from mirt_data import simulated

from bayesirt import Responses, RunOptions, fit_mirt, sample_mirt
from bayesirt.inference.nuts import posterior_target
from bayesirt.models import Mirt

DATA = simulated(40, 12, 2, seed=3)
MOST_Z = 6.0
"""The largest of about 120 z-scores exceeds this once in four million tests."""


def test_potential_falls_as_the_models_density_rises():
    """Compare two points, with the Jacobian of all coordinates by jacfwd."""
    point = fit_mirt(DATA.responses, n_abilities=2)
    target = posterior_target(DATA.responses, point, Mirt(2))
    way, successes, trials = target.way, *map(jnp.asarray, DATA.responses.cells.matrices())
    assert list(target.coordinates.around.known) == ["d"]

    @jax.jit
    def density(flat):
        sites, _ = target.coordinates.at(flat, way)
        jacobian = jax.jacfwd(lambda x: ravel_pytree(target.coordinates.at(x, way)[0])[0])
        eta = sites["theta"] @ sites["a"].T + sites["d"]
        right = successes * eta - trials * jnp.logaddexp(0, eta)
        return way.terms(sites).total() + right.sum() + jnp.linalg.slogdet(jacobian(flat))[1]

    places = 0.3 * jax.random.normal(jax.random.key(1), (2, target.size))
    fallen = target.potential(places[0]) - target.potential(places[1])
    risen = density(places[1]) - density(places[0])
    assert float(fallen) == pytest.approx(float(risen), rel=1e-9)


@pytest.mark.statistical
def test_levels_are_those_of_the_prior_whatever_the_answers():
    """Σ_i θ_ik + μ_bk / 4 ~ N(0, N + 1/4), independently in each sweep, at 5 standard errors."""
    options = RunOptions(num_warmup=50, num_samples=500)
    posterior = sample_mirt(DATA.responses, n_abilities=2, key=jax.random.key(6), options=options)
    sums = posterior.draws("theta").sum(1) + posterior.draws("mu_b") / 4
    z = sums / np.sqrt(40 + 1 / 4)
    found = z.mean() * np.sqrt(z.size), ((z**2).mean() - 1) * np.sqrt(z.size / 2)
    print(f"z of mean {found[0]:.2f}, of variance {found[1]:.2f}, {z.size} draws")
    assert np.abs(found).max() < 5


@pytest.mark.statistical
def test_one_ability_turns_round_with_the_answers():
    """Slopes sum to more than 0, so swapping right and wrong flips θ and d, and no slope."""
    y, n = DATA.responses.cells.matrices()
    turned = Responses.from_arrays(n - y, n)
    keys = jax.random.split(jax.random.key(5))
    one, other = (
        sample_mirt(
            responses, n_abilities=1, key=key, options=RunOptions(num_warmup=300, num_samples=500)
        )
        for responses, key in zip((DATA.responses, turned), keys, strict=True)
    )
    assert (one["a"].sum((-1, -2)) > 0).all()
    for name in ("theta", "d", "mu_d", "mu_b"):
        other.tree["posterior"][name] = -other.tree["posterior"][name]
    tables = [p.summary.drop(index="precision_a", level="parameter") for p in (one, other)]
    assert max(largest_z(*tables)) < MOST_Z

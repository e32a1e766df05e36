"""The Q-matrix model's density under NUTS; `test_cluster_engines.py` tests its draws."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.data.q_matrix import QMatrix
from bayesirt.inference.blocked import Position
from bayesirt.inference.nuts import Target
from bayesirt.inference.q_mirt_moves import ByQMatrix, IndependentParts
from bayesirt.inference.start_coordinates import Known, StartCoordinates
from bayesirt.likelihood.cell_sums import DenseLayout
from bayesirt.models import QMirt
from bayesirt.profiles.simulation import QSimulation, simulate_q_mirt

Q = QMatrix.from_arrays([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 1], [1, 1]])


@cache
def simulated() -> QSimulation:
    return simulate_q_mirt(60, Q, key=jax.random.key(3), correlation=0.6)


@pytest.mark.parametrize("structure", ["correlated", "general"])
def test_potential_falls_as_the_density_of_the_independent_parts_rises(structure):
    """Compare two points with the density of prior and answers, with all Jacobians by jacfwd."""
    rng = np.random.default_rng(0)
    way = ByQMatrix(QMirt.of(Q, structure))
    layout = DenseLayout(*map(jnp.asarray, simulated().responses.cells.matrices()))
    scalars = ("mu_a", "sigma_a", "mu_d", "sigma_d", "sigma_beta")
    centre: Position = {name: jnp.asarray(rng.normal()) for name in scalars}
    centre |= {"theta": jnp.asarray(rng.normal(size=(60, 2))), "beta": jnp.zeros(2)}
    centre["mu_b"] = jnp.asarray(rng.normal(size=2))
    centre |= {"root": jnp.full(1, 0.5)} if structure == "correlated" else {"general": jnp.ones(2)}
    width = jax.tree.map(lambda x: jnp.full(x.shape, 0.7), centre)
    known = {"a": Known(jnp.full(10, 0.2), jnp.full(10, 0.3)), "d": Known(jnp.ones(9), jnp.ones(9))}
    around = StartCoordinates(centre, width, known)
    target = Target(layout, IndependentParts(around), way)

    def all_sites(flat):
        sites, _ = around.at(flat, way)
        return sites | {"theta": sites["theta"] @ jnp.linalg.cholesky(way.correlation(sites)).T}

    def density(flat):
        sites = all_sites(flat)
        jacobian = jax.jacfwd(lambda x: jax.flatten_util.ravel_pytree(all_sites(x))[0])(flat)
        draw = way.terms(sites).values
        slopes = jnp.zeros(Q.needs.shape).at[Q.needs.nonzero()].set(draw["a"])
        eta = draw["theta"] @ slopes.T + draw["d"]
        right = layout.successes * eta - layout.trials * jnp.logaddexp(0, eta)
        return way.terms(sites).total() + right.sum() + jnp.linalg.slogdet(jacobian)[1]

    places = 0.3 * jax.random.normal(jax.random.key(1), (2, target.size))
    fallen = target.potential(places[0]) - target.potential(places[1])
    risen = density(places[1]) - density(places[0])
    assert float(fallen) == pytest.approx(float(risen), rel=1e-9)

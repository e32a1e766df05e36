"""LaRT's prior is the documented one; `contract/test_models.py` tests the rest."""

import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import some_missing
from lart_prior import log_jacobian, log_lengths, log_prior, some_sites, unconstrained
from numpyro.infer.util import log_density

from bayesirt.inference.lart_moves import WithLengths
from bayesirt.models import LaRT

N, J = 6, 5
WAY = WithLengths(LaRT())
RESPONSES = some_missing(N, J)
SUCCESSES, TRIALS = RESPONSES.cells.matrices()


def test_terms_are_the_prior_with_its_jacobians():
    sites = some_sites(1, (N, J))
    terms = WAY.terms(unconstrained(sites))
    expected = log_prior(sites) + log_jacobian(sites)
    assert float(terms.total()) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(terms.values["b"], -sites["d"] / sites["a"])


def test_the_model_refuses_slopes_that_sum_below_zero():
    sites = some_sites(3, (N, J))
    arguments = (
        jnp.asarray(TRIALS, int),
        jnp.asarray(SUCCESSES, int),
        jnp.asarray(log_lengths(RESPONSES)),
    )
    for name in ("a", "phi"):
        turned = sites | {name: -sites[name]}
        assert log_density(LaRT(), arguments, {}, turned)[0] == -np.inf

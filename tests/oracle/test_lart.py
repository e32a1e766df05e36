"""LaRT written for reading and LaRT written for speed say the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lart_data import as_sparse, some_missing
from lart_prior import log_jacobian, log_lengths, log_prior, some_sites, unconstrained
from numpyro.infer.util import log_density
from scipy.special import gammaln

from bayesirt.inference.lart_moves import WithLengths, lengths_of
from bayesirt.likelihood.cell_sums import layout_of, log_likelihood_of
from bayesirt.likelihood.families import FAMILIES
from bayesirt.likelihood.latencies import latencies_of
from bayesirt.models import LaRT, lart_model

N, J = 6, 5
WAY = WithLengths(LaRT())
RESPONSES = some_missing(N, J)
SUCCESSES, TRIALS = RESPONSES.cells.matrices()


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("responses", [RESPONSES, as_sparse(RESPONSES)], ids=["dense", "sparse"])
def test_density_is_that_of_the_families_and_the_sums(link, responses):
    sites = some_sites(0, (N, J))
    arguments = (
        jnp.asarray(TRIALS, int),
        jnp.asarray(log_lengths(RESPONSES)),
        jnp.asarray(SUCCESSES, int),
    )
    found, _ = log_density(lart_model, arguments, {"link": link}, sites)
    layout = layout_of(responses)
    latencies = latencies_of(responses, layout)
    moments = latencies.moments(sites["tau"], sites["tau"] ** 2)
    answers = log_likelihood_of(layout, FAMILIES[link])(
        *(jnp.asarray(sites[k]) for k in ("theta", "a", "d"))
    )
    ways = gammaln(TRIALS + 1.0) - gammaln(SUCCESSES + 1.0) - gammaln(TRIALS - SUCCESSES + 1.0)
    lengths = latencies.log_likelihood(*lengths_of(sites), moments)
    expected = log_prior(sites) + float(answers) + ways.sum() + float(lengths.sum())
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_terms_are_the_prior_with_its_jacobians():
    sites = some_sites(1, (N, J))
    terms = WAY.terms(unconstrained(sites))
    expected = log_prior(sites) + log_jacobian(sites)
    assert float(terms.total()) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(terms.values["b"], -sites["d"] / sites["a"])


@pytest.mark.parametrize("line", LaRT().lines, ids=lambda line: line.name)
def test_no_response_sees_a_line(line):
    sites = unconstrained(some_sites(2, (N, J)))

    def seen(sites: dict[str, jax.Array]) -> np.ndarray:
        v = WAY.terms(sites).values
        eta = v["theta"][:, None] * v["a"] + v["d"]
        return np.stack([eta, v["omega"] - v["tau"][:, None] * v["phi"]])

    moved, log_jacobian = WAY.along(line, sites, jnp.array(0.4))
    np.testing.assert_allclose(seen(moved), seen(sites), atol=1e-12)
    flat, unravel = jax.flatten_util.ravel_pytree(sites)
    along = jax.jacobian(
        lambda x: jax.flatten_util.ravel_pytree(WAY.along(line, unravel(x), jnp.array(0.4))[0])[0]
    )
    jacobian = jax.jit(along)(flat)
    assert float(log_jacobian) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-10)
    back, _ = WAY.along(line, moved, jnp.array(-0.4))
    assert all(np.allclose(back[k], sites[k], atol=1e-12) for k in sites)


def test_the_model_refuses_slopes_that_sum_below_zero():
    sites = some_sites(3, (N, J))
    arguments = (
        jnp.asarray(TRIALS, int),
        jnp.asarray(log_lengths(RESPONSES)),
        jnp.asarray(SUCCESSES, int),
    )
    for name in ("a", "phi"):
        turned = sites | {name: -sites[name]}
        assert log_density(lart_model, arguments, {}, turned)[0] == -np.inf

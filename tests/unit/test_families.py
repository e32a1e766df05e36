"""Contract of every family."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.checks.fit.cell_residuals import Counts, Draw, residuals
from bayesirt.likelihood.families import FAMILIES, GUESSING, family_named

ETA = np.linspace(-30, 30, 241)
GIVEN = [family.given([0.2] * len(family.further)) for family in FAMILIES.values()]
OTHERS = "graded 4", "ordered beta", "normal", "beta-binomial"
EVERY = [*FAMILIES.values(), *map(family_named, OTHERS)]
each_family = pytest.mark.parametrize("family", GIVEN, ids=lambda f: f.name)
each_symmetric_family = pytest.mark.parametrize(
    "family", [f for f in FAMILIES.values() if not f.further], ids=lambda f: f.name
)


@each_family
def test_no_trials_contribute_exactly_nothing(family):
    terms = family.terms(jnp.asarray(ETA * 100), jnp.zeros(241, int), jnp.zeros(241, int))
    for values in terms:
        np.testing.assert_array_equal(values, 0)


@each_symmetric_family
def test_right_and_wrong_mirror_each_other(family):
    right = family.terms(jnp.asarray(ETA), jnp.full(241, 5), jnp.full(241, 7))
    wrong = family.terms(jnp.asarray(-ETA), jnp.full(241, 2), jnp.full(241, 7))
    np.testing.assert_allclose(right.log_likelihood, wrong.log_likelihood, rtol=1e-14)
    np.testing.assert_allclose(right.score, -np.asarray(wrong.score), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(right.information, wrong.information, rtol=1e-14)


@each_family
def test_probabilities_add_up_and_the_score_has_mean_zero(family):
    eta = jnp.asarray(ETA)
    wrong, right = (family.terms(eta, jnp.full(241, y), jnp.ones(241, int)) for y in (0, 1))
    p = np.exp(right.log_likelihood)
    np.testing.assert_allclose(p + np.exp(wrong.log_likelihood), 1, rtol=1e-14)
    mean_score = p * right.score + (1 - p) * wrong.score
    np.testing.assert_allclose(mean_score, 0, atol=1e-14)
    expected_information = p * right.score**2 + (1 - p) * wrong.score**2
    mean_information = p * right.information + (1 - p) * wrong.information
    np.testing.assert_allclose(mean_information, expected_information, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("family", EVERY, ids=lambda f: f.name)
def test_cells_of_32_bits_are_computed_in_32_bits(family):
    """A constant from NumPy would turn everything that follows into 64 bits."""
    eta, y = jnp.zeros((3, 4), jnp.float32), jnp.ones((3, 4), jnp.int8)
    further = [jnp.full(4, 0.3, jnp.float32) for _ in family.further]
    draw = Draw(eta[:, 0], eta[0], eta[0], tuple(further))
    found = family.every(eta, y, y, *further), residuals(family.name, Counts(y, y), draw)
    assert {x.dtype for x in jax.tree.leaves(found)} == {jnp.dtype(jnp.float32)}


@each_family
@pytest.mark.parametrize("kind", [jnp.int8, jnp.int16, jnp.int64])
def test_counts_may_fill_their_type(family, kind):
    most = min(jnp.iinfo(kind).max, 10**6)
    trials, successes = jnp.full(241, most, kind), jnp.full(241, most - 1, kind)
    terms = family.terms(jnp.asarray(ETA), successes, trials)
    exact = family.terms(jnp.asarray(ETA), successes.astype(float), trials.astype(float))
    for own, other in zip(terms, exact, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-14)
    assert (terms.information <= family.bound(trials)).all()


def test_terms_of_all_predictors_are_derivatives_and_expectations():
    rng = np.random.default_rng(0)
    eta, c = jnp.asarray(3 * rng.normal(size=50)), jnp.asarray(rng.uniform(0.05, 0.5, 50))

    def log_likelihood(x, y):
        p = x[1] + (1 - x[1]) * jax.nn.sigmoid(x[0])
        return y * jnp.log(p) + (4 - y) * jnp.log1p(-p)

    information = 0.0
    for y in range(5):
        found = GUESSING.every(eta, jnp.full(50, y), jnp.full(50, 4), c)
        value, score = jax.vmap(jax.value_and_grad(log_likelihood), (1, None))(
            jnp.stack([eta, c]), float(y)
        )
        np.testing.assert_allclose(found.log_likelihood, value, rtol=1e-12)
        np.testing.assert_allclose(jnp.stack(found.score, -1), score, rtol=1e-9, atol=1e-10)
        p = np.asarray(GUESSING.probability(eta, c))
        chance = math.comb(4, y) * p**y * (1 - p) ** (4 - y)
        information += chance[:, None, None] * score[:, :, None] * score[:, None]
    for row, own in zip(found.information, np.moveaxis(information, 0, -1), strict=True):
        np.testing.assert_allclose(jnp.stack(row), own, rtol=1e-8, atol=1e-12)

"""Equations that the EMs for several abilities share, whatever abilities items need."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesirt.data.q_matrix import QMatrix
from bayesirt.estimators.cell_expectations import Quadrature, expected_terms
from bayesirt.estimators.item_newton import item_equations, item_step
from bayesirt.estimators.iteration import iterate
from bayesirt.estimators.normal_beliefs import Abilities, Beliefs, Items, Normal, without_answers
from bayesirt.estimators.q_slots import SlotItems, slots_of
from bayesirt.likelihood.cell_sums import DenseLayout

QUADRATURE = Quadrature(40, jnp.float64)
RNG = np.random.default_rng(0)
TRIALS = RNG.integers(0, 4, size=(12, 6))
LAYOUT = DenseLayout(jnp.asarray(RNG.binomial(TRIALS, 0.6)), jnp.asarray(TRIALS))
ROOTS = np.eye(3) / 2 + 0.1 * RNG.normal(size=(12, 3, 3))
BELIEFS = Beliefs(Abilities(jnp.asarray(RNG.normal(size=(12, 3))), jnp.asarray(ROOTS @ ROOTS.mT)))
NEEDS = np.tile([[1, 0, 0], [0, 1, 1], [1, 0, 1]], (2, 1))


def equations_of(items: Items, slots=None):
    return jax.jit(lambda x: item_equations(LAYOUT, x, BELIEFS, QUADRATURE, slots))(items)


def test_slots_for_every_ability_change_nothing():
    items = Items(jnp.asarray(RNG.normal(size=(6, 3))), jnp.asarray(RNG.normal(size=6)))
    slots = slots_of(QMatrix.from_arrays(np.ones((6, 3))))
    plain, same = (equations_of(items, s) for s in (None, slots))
    for one, other in zip(plain, same, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_score_of_log_slopes_is_the_gradient():
    slots = slots_of(QMatrix.from_arrays(NEEDS))
    own = SlotItems(0.3 * RNG.normal(size=(6, 2)) * slots.taken, jnp.asarray(RNG.normal(size=6)))

    def expected(x):
        terms = expected_terms(LAYOUT, slots.items(SlotItems.of(x)), BELIEFS[0], QUADRATURE)
        return terms.log_likelihood.sum()

    derivative = SlotItems(slots.slopes(own.log_a), jnp.ones(6)).both
    found = equations_of(slots.items(own), slots).per(derivative)
    np.testing.assert_allclose(
        found.score, jax.jit(jax.grad(expected))(own.both), rtol=1e-8, atol=1e-8
    )
    empty = ~np.asarray(slots.taken)
    assert (np.asarray(found.score)[:, :2][empty] == 0).all()
    assert (np.asarray(found.information)[:, :2][empty] == 0).all()


def test_an_item_never_steps_where_its_own_loss_rises():
    items = Items(jnp.full((6, 3), 6.0), jnp.full(6, -4.0))
    prior = Normal(jnp.zeros(4), jnp.eye(4) / 4)
    equations = equations_of(items)
    step = jax.jit(lambda x: item_step(LAYOUT, items.both, prior, BELIEFS, QUADRATURE, x))
    after = step(equations)
    moved = equations_of(Items.of(after))
    before, now = (
        prior.squares(x) / 2 - found.of_items
        for x, found in ((items.both, equations), (after, moved))
    )
    assert (now <= before * (1 + 1e-12)).all()
    assert np.abs(after - items.both).max() <= 1


def test_priors_of_all_items_or_of_each():
    centre, root = RNG.normal(size=3), RNG.normal(size=(3, 3))
    one = Normal(jnp.asarray(centre), jnp.asarray(root @ root.T))
    each = Normal(*(jnp.broadcast_to(x, (5, *x.shape)) for x in one))
    x = jnp.asarray(RNG.normal(size=(5, 3)))
    slope = jax.jit(jax.grad(lambda x: one.squares(x).sum() / 2))(x)
    (pull, squares), other = jax.jit(lambda x: [(y.pull(x), y.squares(x)) for y in (one, each)])(x)
    np.testing.assert_allclose(pull, slope)
    np.testing.assert_allclose(pull, other[0], rtol=1e-12)
    np.testing.assert_allclose(squares, other[1], rtol=1e-12)
    nobody = without_answers(one, 2)
    np.testing.assert_allclose(nobody.covariance[1] @ one.precision, np.eye(3), atol=1e-8)
    assert nobody.mean[0] == pytest.approx(centre)


def test_a_loss_that_swings_between_two_values_has_converged():
    losses = iter([9.0, 5.0, 3.0, 2.9, 3.0, 2.8999, *[99.0] * 9])
    state, run = iterate(
        lambda _: next(losses), 10.0, lambda x: x, tol=1e-3, max_iterations=20, name="swing"
    )
    assert run.converged
    assert state == 2.8999

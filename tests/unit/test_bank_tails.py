"""Tails of numbers of correct answers, compared with enumeration and with each other."""

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from bayesirt.bank.binomial_tails import ExpectedAnswers, exact_tail, saddle_tail

_EXACT = jax.jit(exact_tail, static_argnames=("most", "most_a_cell"))
_SADDLE = jax.jit(saddle_tail)


class Distribution(NamedTuple):
    """Distribution of the number of correct answers, by enumeration."""

    cells: ExpectedAnswers
    at_least: np.ndarray


def enumerated(n: np.ndarray, eta: np.ndarray, shares: np.ndarray) -> Distribution:
    """Return the probability of at least s correct answers, with one column for each s."""
    found = np.zeros(n.sum() + 1)
    per_cell = [
        sum(r * binom.pmf(np.arange(m + 1), m, expit(e)) for r, e in zip(shares, own, strict=True))
        for m, own in zip(n, eta.T, strict=True)
    ]
    for outcome in product(*(range(m + 1) for m in n)):
        found[sum(outcome)] += np.prod([p[y] for p, y in zip(per_cell, outcome, strict=True)])
    size = len(found)
    cells = ExpectedAnswers(
        jnp.asarray(np.tile(n[:, None], (1, size))),
        jnp.asarray(np.tile(eta[:, :, None], (1, 1, size))),
        jnp.asarray(shares),
    )
    return Distribution(cells, found[::-1].cumsum()[::-1])


@pytest.mark.parametrize("n", [np.array([1] * 8), np.array([3, 1, 0, 2, 4])])
def test_tails_are_what_all_outcomes_add_up_to(n: np.ndarray):
    rng = np.random.default_rng(len(n))
    eta = rng.normal(size=len(n)) * 1.5 + rng.normal(size=(2, len(n)))
    cells, at_least = enumerated(n, eta, np.array([0.3, 0.7]))
    s = jnp.arange(n.sum() + 1)
    exact = _EXACT(s, cells, most=int(n.sum()), most_a_cell=int(n.max()))
    np.testing.assert_allclose(exact, at_least, rtol=1e-10)
    saddle = np.asarray(_SADDLE(s, cells))
    np.testing.assert_allclose(saddle[[0, 1, -1]], at_least[[0, 1, -1]], rtol=1e-10)
    np.testing.assert_allclose(saddle, at_least, rtol=0.1)
    below = _EXACT(s, cells.reversed(), most=int(n.sum()), most_a_cell=int(n.max()))
    np.testing.assert_allclose(below[::-1][:-1], 1 - at_least[1:], atol=1e-12)


def test_tails_of_many_subjects_agree_however_far_out():
    rng = np.random.default_rng(3)
    n_subjects, s = 100, np.arange(2, 100)
    eta = np.tile(1.5 * rng.normal(size=(1, n_subjects, 1)) + 0.3, (1, 1, len(s)))
    cells = ExpectedAnswers(jnp.ones((n_subjects, len(s)), int), jnp.asarray(eta), jnp.ones(1))
    exact = _EXACT(jnp.asarray(s), cells, most=n_subjects, most_a_cell=1)
    assert exact.min() < 1e-20
    np.testing.assert_allclose(_SADDLE(jnp.asarray(s), cells), exact, rtol=0.03)
    narrow = cells._replace(eta=cells.eta.astype(np.float32), shares=jnp.ones(1, np.float32))
    seen = np.asarray(exact) > 1e-9
    found = np.asarray(_SADDLE(jnp.asarray(s), narrow))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[seen], np.asarray(exact)[seen], rtol=0.05)

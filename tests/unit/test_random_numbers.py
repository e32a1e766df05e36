"""Random numbers that are drawn many at a time are those of their distributions, each used once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import expon, kstest, norm, uniform

from bayesirt.inference.random_numbers import RandomNumbers

KEY = jax.random.key(3)


@pytest.mark.parametrize(
    ("name", "distribution"), [("uniform", uniform), ("exponential", expon), ("normal", norm)]
)
@pytest.mark.parametrize("at_once", [0, 60_000])
def test_numbers_have_their_distribution(name, distribution, at_once):
    """By Kolmogorov and Smirnov; one false alarm in 10^5 keys."""
    numbers = RandomNumbers(KEY, at_once)
    drawn = np.concatenate([getattr(numbers, name)((n, 3), float).ravel() for n in (1, 7, 9_999)])
    assert np.isfinite(drawn).all()
    assert len(set(drawn)) > 0.999 * len(drawn)
    assert kstest(drawn, distribution.cdf).pvalue > 1e-5


def test_calls_are_independent_of_each_other():
    """Two sets of 30,000 numbers: correlations of values and of squares at five standard errors."""
    numbers = RandomNumbers(KEY, 100)
    first, second = (np.asarray(numbers.normal((30_000,), float)) for _ in range(2))
    for one, other in ((first, second), (first**2, second**2), (first[1:], first[:-1])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(len(one))
    bits = jax.random.key_data(jnp.stack([numbers.key(), numbers.key()]))
    assert not np.array_equal(*bits)


def test_numbers_do_not_depend_on_when_more_are_drawn():
    """The first ones come from the same draw, whatever is taken later."""
    few, many = RandomNumbers(KEY, 50), RandomNumbers(KEY, 50)
    np.testing.assert_array_equal(few.uniform((20,), float), many.uniform((20,), float))
    later = many.uniform((200,), float)
    assert not np.isin(later, few.uniform((30,), float)).any()


def test_smallest_and_largest_uniform_numbers_are_inside():
    numbers = RandomNumbers(KEY)
    numbers._bits = jnp.array([0, 2**32 - 1], jnp.uint32)
    low, high = np.asarray(numbers.uniform((2,), float))
    assert 0 < low < 2**-32
    assert 1 - 2**-32 < high < 1
    numbers._used = 0
    assert (np.asarray(numbers.exponential((2,), jnp.float32)) >= 0).all()

"""Simulated parameters follow the priors, and responses the parameters."""

import jax
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2, norm

from bayesirt.errors import ResponseError
from bayesirt.models import Priors
from bayesirt.simulate import simulate_responses

FALSE_ALARM = 1e-6


def test_free_slopes_sum_above_zero():
    """Slopes are drawn by the model; `test_priors.py` tests their other properties."""
    drawn = [
        simulate_responses(9, 7, key=jax.random.key(k), priors=Priors(slopes="free")).parameters
        for k in range(30)
    ]
    a, b, d = (np.stack([own[name] for own in drawn]) for name in "abd")
    assert (a.sum(1) > 0).all()
    assert (a < 0).any()
    np.testing.assert_allclose(b, -d / a, rtol=1e-10)


@pytest.mark.parametrize("slopes", ["positive", "free"])
def test_responses_follow_the_parameters(slopes: str):
    """The squared residuals of 600 cells of 1000 trials have a chi-square sum."""
    drawn = simulate_responses(
        30, 20, key=jax.random.key(1), priors=Priors(slopes=slopes), trials=1000
    )
    theta, a, d = (drawn.parameters[name] for name in ("theta", "a", "d"))
    p = expit(theta[:, None] * a + d)
    successes, trials = drawn.responses.cells.matrices()
    assert (trials == 1000).all()
    z = (successes - 1000 * p) / np.sqrt(1000 * p * (1 - p))
    usual = 1000 * p * (1 - p) > 10
    assert usual.sum() > 300
    assert FALSE_ALARM < chi2.sf((z[usual] ** 2).sum(), usual.sum()) < 1 - FALSE_ALARM


def test_cells_are_missing_whatever_they_hold():
    drawn = simulate_responses(100, 80, key=jax.random.key(2), missing=0.3)
    _, trials = drawn.responses.cells.matrices()
    seen = trials > 0
    z = (seen.mean() - 0.7) / np.sqrt(0.7 * 0.3 / seen.size)
    assert abs(z) < norm.isf(FALSE_ALARM / 2)
    theta, d = drawn.parameters["theta"], drawn.parameters["d"]
    for values, axis in ((theta, 1), (d, 0)):
        assert abs(np.corrcoef(values, seen.mean(axis))[0, 1]) < 5 / np.sqrt(len(values))


def test_the_same_key_gives_the_same_and_another_does_not():
    first, again, other = (simulate_responses(9, 7, key=jax.random.key(k)) for k in (3, 3, 4))
    assert first.summary.equals(again.summary)
    assert not first.summary.equals(other.summary)
    for mine, theirs in zip(
        first.responses.cells.matrices(), again.responses.cells.matrices(), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_parameters_do_not_depend_on_which_cells_are_missing():
    whole, part = (
        simulate_responses(9, 7, key=jax.random.key(3), missing=m).parameters for m in (0.0, 0.4)
    )
    assert all(np.array_equal(whole[name], part[name]) for name in whole)


def test_the_summary_names_every_parameter():
    drawn = simulate_responses(9, 7, key=jax.random.key(0))
    assert drawn.summary.loc[("theta", "subject 2"), "value"] == drawn.parameters["theta"][1]
    assert drawn.summary.loc[("mu_a", ""), "value"] == drawn.parameters["mu_a"]
    assert len(drawn.summary) == 9 + 3 * 7 + 5
    assert drawn.to_text().startswith("9 subjects x 7 items drawn from the prior, 100% observed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": 1.0}, "missing"),
        ({"missing": -0.1}, "missing"),
        ({"missing": 0.999}, "would have no response left"),
        ({"trials": 0}, "would have no response left"),
        ({"trials": -1}, "non-negative integers"),
        ({"trials": 0.5}, "non-negative integers"),
        ({"trials": np.ones((2, 2), int)}, "shape"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options, message: str):
    with pytest.raises(ResponseError, match=message):
        simulate_responses(5, 4, key=jax.random.key(0), **options)
